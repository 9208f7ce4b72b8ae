"""`ray.data.preprocessors.utils`: how text is split and hashed unless told otherwise."""

from __future__ import annotations

from skate.data.preprocessors.statistics import StatComputationPlan
from skate.data.preprocessors.text import _bucket, simple_split_tokenizer


def simple_hash(value: object, num_features: int) -> int:
    """Return a number below `num_features`, the same in every process."""
    return _bucket(str(value), num_features)


__all__ = ["StatComputationPlan", "simple_hash", "simple_split_tokenizer"]
