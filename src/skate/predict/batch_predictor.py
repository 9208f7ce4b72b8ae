"""Predictions for datasets: a predictor in each of several actors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import skate
from skate._run.checkpoint import Checkpoint
from skate.predict._batches import Batch, select
from skate.predict._tensor_predictor import TensorPredictor
from skate.predict.predictor import FunctionPredictor, Predictor, preprocess

if TYPE_CHECKING:
    from skate.data import Dataset

BATCH_SIZE = 4096


class BatchPredictor:
    """Runs a predictor on datasets.

        predictor = BatchPredictor.from_checkpoint(checkpoint, TorchPredictor, model=MyModel())
        predictor.predict(dataset, min_scoring_workers=2).to_pandas()["predictions"]

    The checkpoint, and what the predictor class takes besides, are put into the object store once;
    all actors read them there.
    """

    def __init__(
        self, checkpoint: Checkpoint, predictor_cls: type[Predictor], **predictor_kwargs: Any
    ) -> None:
        given: Any = predictor_cls
        if not (inspect.isclass(given) and issubclass(given, Predictor)):
            raise TypeError(f"predictor_cls is a class of predictors; got {given!r}")
        self._checkpoint = checkpoint
        self._predictor_cls = predictor_cls
        self._predictor_kwargs = predictor_kwargs
        self._preprocessor: Any = None
        self._stored: dict[bool, Any] = {}

    def __repr__(self) -> str:
        return (
            f"BatchPredictor(checkpoint={self._checkpoint}, "
            f"predictor_cls={self._predictor_cls.__name__})"
        )

    @classmethod
    def from_checkpoint(
        cls, checkpoint: Checkpoint, predictor_cls: type[Predictor], **kwargs: Any
    ) -> BatchPredictor:
        """`kwargs` go to `predictor_cls.from_checkpoint`, in each actor."""
        return cls(checkpoint, predictor_cls, **kwargs)

    @classmethod
    def from_pandas_udf(cls, pandas_udf: Callable[..., Any]) -> BatchPredictor:
        """Run a function of DataFrames."""
        return cls(Checkpoint.from_dict({"function": pandas_udf}), FunctionPredictor)

    def get_preprocessor(self) -> Any:
        """The one that was set, or the checkpoint's."""
        if self._preprocessor is not None:
            return self._preprocessor
        return self._checkpoint.get_preprocessor()

    def set_preprocessor(self, preprocessor: Any) -> None:
        """Use this one instead of the checkpoint's."""
        self._preprocessor = preprocessor

    def predict(
        self,
        data: Dataset,
        *,
        feature_columns: Sequence[str] | None = None,
        keep_columns: Sequence[str] | None = None,
        batch_size: int = BATCH_SIZE,
        min_scoring_workers: int = 1,
        max_scoring_workers: int | None = None,
        num_cpus_per_worker: float | None = None,
        num_gpus_per_worker: float | None = None,
        separate_gpu_stage: bool = True,
        ray_remote_args: dict[str, Any] | None = None,
        **predict_kwargs: Any,
    ) -> Dataset:
        """The predictions for a dataset, as a dataset that has been computed.

        Args:
            feature_columns: what the predictor sees, of the preprocessed columns; by default all.
            keep_columns: preprocessed columns to be in the result, beside the predictions.
            batch_size: rows per call of the predictor.
            min_scoring_workers, max_scoring_workers: how many actors. More than the least are
                started while all are busy.
            num_cpus_per_worker, num_gpus_per_worker: per actor; by default 1 CPU, or none beside
                GPUs. With GPUs, predictors that take `use_gpu` get True.
            separate_gpu_stage: preprocess outside of the actors that have GPUs.
            ray_remote_args: further options of the actors.
            predict_kwargs: for the predictor's `predict`.
        """
        return self._predictions(
            data, feature_columns, keep_columns, batch_size, min_scoring_workers,
            max_scoring_workers, num_cpus_per_worker, num_gpus_per_worker, separate_gpu_stage,
            ray_remote_args, predict_kwargs,
        ).materialize()  # fmt: skip

    def predict_pipelined(
        self,
        data: Dataset,
        *,
        blocks_per_window: int | None = None,
        bytes_per_window: int | None = None,
        feature_columns: Sequence[str] | None = None,
        keep_columns: Sequence[str] | None = None,
        batch_size: int = BATCH_SIZE,
        min_scoring_workers: int = 1,
        max_scoring_workers: int | None = None,
        num_cpus_per_worker: float | None = None,
        num_gpus_per_worker: float | None = None,
        separate_gpu_stage: bool = True,
        ray_remote_args: dict[str, Any] | None = None,
        **predict_kwargs: Any,
    ) -> Dataset:
        """As `predict`, but nothing is computed before it is asked for, and then piece by piece:
        reading, predicting and using the predictions go on at the same time, in bounded memory.

        The dataset finds the size of the pieces by itself, so `blocks_per_window` and
        `bytes_per_window`, of which at most one may be given, change nothing.
        """
        if blocks_per_window is not None and bytes_per_window is not None:
            raise ValueError("give blocks_per_window or bytes_per_window, not both")
        return self._predictions(
            data, feature_columns, keep_columns, batch_size, min_scoring_workers,
            max_scoring_workers, num_cpus_per_worker, num_gpus_per_worker, separate_gpu_stage,
            ray_remote_args, predict_kwargs,
        )  # fmt: skip

    def _predictions(
        self,
        data: Dataset,
        feature_columns: Sequence[str] | None,
        keep_columns: Sequence[str] | None,
        batch_size: int,
        min_scoring_workers: int,
        max_scoring_workers: int | None,
        num_cpus_per_worker: float | None,
        num_gpus_per_worker: float | None,
        separate_gpu_stage: bool,
        ray_remote_args: dict[str, Any] | None,
        predict_kwargs: dict[str, Any],
    ) -> Dataset:
        from skate.data import ActorPoolStrategy

        gpus = num_gpus_per_worker or 0
        cpus = num_cpus_per_worker if num_cpus_per_worker is not None else float(not gpus)
        preprocessor = self.get_preprocessor()
        if preprocessor is not None and (separate_gpu_stage or not gpus):
            data = preprocessor.transform(data)
            preprocessor = None
        largest = max_scoring_workers or max(min_scoring_workers, _room_for(cpus, gpus))
        return data.map_batches(
            Scorer,
            fn_constructor_kwargs={
                "stored": self._store(use_gpu=bool(gpus)),
                "preprocessor": preprocessor,
                "feature_columns": list(feature_columns or ()),
                "keep_columns": list(keep_columns or ()),
                "predict_kwargs": predict_kwargs,
            },
            compute=ActorPoolStrategy(min_size=min_scoring_workers, max_size=largest),
            batch_size=batch_size,
            batch_format=self._predictor_cls._batch_format_to_use().value,
            # Tensors are copies of read-only arrays by themselves; other code may change a batch.
            zero_copy_batch=preprocessor is None
            and issubclass(self._predictor_cls, TensorPredictor),
            **{**(ray_remote_args or {}), "num_cpus": cpus, "num_gpus": gpus},
        )

    def _store(self, use_gpu: bool) -> Any:
        """A reference to what actors make their predictors of; put once."""
        if use_gpu not in self._stored:
            takes = inspect.signature(self._predictor_cls.from_checkpoint).parameters
            kwargs = self._predictor_kwargs
            if use_gpu and "use_gpu" in takes:
                kwargs = {"use_gpu": True, **kwargs}
            self._stored[use_gpu] = skate.put((self._predictor_cls, self._checkpoint, kwargs))
        return self._stored[use_gpu]


class Scorer:
    """What runs in an actor: a predictor, and the columns around it."""

    def __init__(
        self,
        stored: Any,
        preprocessor: Any,
        feature_columns: list[str],
        keep_columns: list[str],
        predict_kwargs: dict[str, Any],
    ) -> None:
        predictor_cls, checkpoint, kwargs = skate.get(stored)
        self._predictor = predictor_cls.from_checkpoint(checkpoint, **kwargs)
        # Columns are chosen after preprocessing, which happens before the predictor, or here.
        self._predictor.set_preprocessor(None)
        self._preprocessor = preprocessor
        self._feature_columns = feature_columns
        self._keep_columns = keep_columns
        self._predict_kwargs = predict_kwargs

    def __call__(self, batch: Batch) -> Batch:
        if self._preprocessor is not None:
            batch = preprocess(self._preprocessor, batch)
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
    """How many actors of this size the machine holds, at least one."""
    total = skate.cluster_resources()
    rooms = [total.get(name, 0) // size for name, size in (("CPU", cpus), ("GPU", gpus)) if size]
    return max(1, int(min(rooms, default=1)))
