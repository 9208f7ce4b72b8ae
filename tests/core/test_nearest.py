"""Parameters that do not exist, and those that were meant."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from skate.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from skate.tune import ResumeConfig, TuneConfig

MISSPELT: list[tuple[Any, str, str]] = [
    (ScalingConfig, "num_worker", "num_workers"),
    (RunConfig, "storage_pat", "storage_path"),
    (CheckpointConfig, "num_to_kep", "num_to_keep"),
    (FailureConfig, "max_failure", "max_failures"),
    (TuneConfig, "num_sample", "num_samples"),
    (ResumeConfig, "erored", "errored"),
]


@pytest.mark.parametrize(("config", "given", "meant"), MISSPELT)
def test_what_was_meant(config: Any, given: str, meant: str) -> None:
    with pytest.raises(
        TypeError,
        match=rf"{config.__name__}\(\) has no parameter '{given}'; did you mean .*\b{meant}\b",
    ):
        config(**{given: 1})


def test_copies_and_pickles() -> None:
    config = ScalingConfig(num_workers=2)
    assert copy.copy(config) == config == pickle.loads(pickle.dumps(config))


def test_subclasses_with_parameters_of_their_own() -> None:
    class Mine(ScalingConfig):
        def __init__(self, size: int, **others: Any) -> None:
            super().__init__(num_workers=size, **others)

    assert Mine(size=3).num_workers == 3
