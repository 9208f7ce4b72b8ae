"""Predicting for a dataset: with how many actors, of which columns, and what runs in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

import skate
from skate.predict._batches import Batch, check_columns, select
from skate.predict.predictor import preprocess

if TYPE_CHECKING:
    from skate.data.preprocessor import Preprocessor


@dataclass
class Scoring:
    """What `BatchPredictor.predict` was asked for."""

    feature_columns: Sequence[str] | None
    keep_columns: Sequence[str] | None
    batch_size: int
    min_scoring_workers: int
    max_scoring_workers: int | None
    num_cpus_per_worker: float | None
    num_gpus_per_worker: float | None
    separate_gpu_stage: bool
    ray_remote_args: dict[str, Any] | None
    predict_kwargs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        least, most = self.min_scoring_workers, self.max_scoring_workers
        if least < 1 or (most is not None and most < least):
            raise ValueError(
                "min_scoring_workers is at least 1, and max_scoring_workers, if given, not less "
                f"than that; got {least!r} and {most!r}"
            )

    @property
    def gpus(self) -> float:
        return self.num_gpus_per_worker or 0

    @property
    def cpus(self) -> float:
        given = self.num_cpus_per_worker
        return float(not self.gpus) if given is None else given

    @property
    def preprocesses_first(self) -> bool:
        """Whether preprocessing happens outside of the actors."""
        return self.separate_gpu_stage or not self.gpus

    def pool(self) -> Any:
        """Return the actors."""
        from skate.data import ActorPoolStrategy

        least = self.min_scoring_workers
        most = self.max_scoring_workers or max(least, _room_for(self.cpus, self.gpus))
        return ActorPoolStrategy(min_size=least, max_size=most)

    def remote_args(self) -> dict[str, Any]:
        """Return the options of each actor."""
        return {**(self.ray_remote_args or {}), "num_cpus": self.cpus, "num_gpus": self.gpus}


class Scorer:
    """What runs in an actor: a predictor, and the columns around it."""

    def __init__(
        self,
        stored: Any,
        preprocessor: Preprocessor | None,
        scoring: Scoring,
    ) -> None:
        predictor_cls, checkpoint, kwargs = skate.get(stored)
        self._predictor = predictor_cls.from_checkpoint(checkpoint, **kwargs)
        # Columns are chosen after preprocessing, which happens before the predictor, or here.
        self._predictor.set_preprocessor(None)
        self._preprocessor = preprocessor
        self._feature_columns = list(scoring.feature_columns or ())
        self._keep_columns = list(scoring.keep_columns or ())
        self._predict_kwargs = scoring.predict_kwargs

    def __call__(self, batch: Batch) -> Batch:
        if self._preprocessor is not None:
            batch = preprocess(self._preprocessor, batch)
        check_columns(batch, self._keep_columns, "keep_columns")
        # Copies, because a predictor may change its batch in place.
        kept = {name: np.array(batch[name]) for name in self._keep_columns}
        features = select(batch, self._feature_columns) if self._feature_columns else batch
        predictions = self._predictor.predict(features, **self._predict_kwargs)
        if isinstance(predictions, np.ndarray):
            predictions = {"predictions": predictions}
        if isinstance(predictions, dict):
            return {**predictions, **kept}
        return predictions.assign(**kept) if kept else predictions


def _room_for(cpus: float, gpus: float) -> int:
    """Return how many actors of this size the machine holds, at least one."""
    total = skate.cluster_resources()
    rooms = [total.get(name, 0) // size for name, size in (("CPU", cpus), ("GPU", gpus)) if size]
    return max(1, int(min(rooms, default=1)))
