"""Predictions for datasets: a predictor in each of several actors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import skate
from skate._run.checkpoint import Checkpoint, check_checkpoint
from skate.predict._scoring import Scorer, Scoring
from skate.predict._tensor_predictor import TensorPredictor
from skate.predict.predictor import FunctionPredictor, Predictor

if TYPE_CHECKING:
    from skate.data import Dataset
    from skate.data.preprocessor import Preprocessor

BATCH_SIZE = 4096


class BatchPredictor:
    """Run a predictor on datasets, in actors that each load the model once.

    Args:
        checkpoint: The checkpoint that the model is in.
        predictor_cls: The class of the predictor, such as `TorchPredictor`.
        **predictor_kwargs: For `predictor_cls.from_checkpoint`, in each actor.

    Raises:
        TypeError: If `predictor_cls` is no class of predictors.

    Example:
        >>> from skate.predict import BatchPredictor
        >>> predictor = BatchPredictor.from_pandas_udf(lambda frame: frame[["id"]] * 2)
        >>> predictor.predict(skate.data.range(3)).take_all()
        [{'id': 0}, {'id': 2}, {'id': 4}]
    """

    def __init__(
        self, checkpoint: Checkpoint, predictor_cls: type[Predictor], **predictor_kwargs: object
    ) -> None:
        given: Any = predictor_cls
        if not (inspect.isclass(given) and issubclass(given, Predictor)):
            raise TypeError(f"predictor_cls is a class of predictors; got {given!r}")
        check_checkpoint(checkpoint, "BatchPredictor")
        self._checkpoint = checkpoint
        self._predictor_cls = predictor_cls
        self._predictor_kwargs = predictor_kwargs
        self._preprocessor: Any = None
        self._stored: dict[tuple[str, bool], Any] = {}  # by session, and whether it has a GPU

    def __repr__(self) -> str:
        return (
            f"BatchPredictor(checkpoint={self._checkpoint}, "
            f"predictor_cls={self._predictor_cls.__name__})"
        )

    @classmethod
    def from_checkpoint(
        cls, checkpoint: Checkpoint, predictor_cls: type[Predictor], **kwargs: Any
    ) -> BatchPredictor:
        """Make a predictor of a model in a checkpoint.

        Args:
            checkpoint: The checkpoint.
            predictor_cls: The class of the predictor, such as `TorchPredictor`.
            **kwargs: For `predictor_cls.from_checkpoint`, in each actor.
        """
        return cls(checkpoint, predictor_cls, **kwargs)

    @classmethod
    def from_pandas_udf(cls, pandas_udf: Callable[..., Any]) -> BatchPredictor:
        """Make a predictor of a function, without a model.

        Args:
            pandas_udf: Takes a DataFrame, and returns one.
        """
        return cls(Checkpoint.from_dict({"function": pandas_udf}), FunctionPredictor)

    def get_preprocessor(self) -> Any:
        """Return the preprocessor that was set, or the checkpoint's."""
        if self._preprocessor is not None:
            return self._preprocessor
        allowed = bool(self._predictor_kwargs.get("allow_pickle"))
        return self._checkpoint.get_preprocessor(allow_pickle=allowed)

    def set_preprocessor(self, preprocessor: Preprocessor | None) -> None:
        """Use another preprocessor than the checkpoint's.

        Args:
            preprocessor: The preprocessor, fitted.
        """
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
        """Predict for a dataset.

        Args:
            data: The dataset.
            feature_columns: What the predictor sees, of the preprocessed columns; None is all.
            keep_columns: Preprocessed columns to be in the result, beside the predictions.
            batch_size: Rows per call of the predictor.
            min_scoring_workers: How many actors at least.
            max_scoring_workers: How many at the most; more than the least are started while all
                are busy. None is as many as the machine has room for.
            num_cpus_per_worker: CPUs per actor; by default 1, or none beside GPUs.
            num_gpus_per_worker: GPUs per actor; with some, predictors that take `use_gpu` get
                True.
            separate_gpu_stage: Whether to preprocess outside of the actors that have GPUs.
            ray_remote_args: Further options of the actors.
            **predict_kwargs: For the predictor's `predict`.

        Returns:
            The predictions, as a dataset that has been computed.
        """
        scoring = Scoring(
            feature_columns, keep_columns, batch_size, min_scoring_workers, max_scoring_workers,
            num_cpus_per_worker, num_gpus_per_worker, separate_gpu_stage, ray_remote_args,
            predict_kwargs,
        )  # fmt: skip
        return self._predictions(data, scoring).materialize()

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
        """Predict for a dataset piece by piece, when the predictions are asked for.

        Reading, predicting and using the predictions go on at the same time, in bounded memory.

        Args:
            data: The dataset.
            blocks_per_window: Without effect: the dataset finds the size of pieces by itself.
            bytes_per_window: Without effect, likewise; at most one of the two may be given.
            feature_columns: As in `predict`.
            keep_columns: As in `predict`.
            batch_size: As in `predict`.
            min_scoring_workers: As in `predict`.
            max_scoring_workers: As in `predict`.
            num_cpus_per_worker: As in `predict`.
            num_gpus_per_worker: As in `predict`.
            separate_gpu_stage: As in `predict`.
            ray_remote_args: As in `predict`.
            **predict_kwargs: As in `predict`.

        Returns:
            The predictions, as a dataset that is computed as it is read.

        Raises:
            ValueError: If both `blocks_per_window` and `bytes_per_window` are given.
        """
        if blocks_per_window is not None and bytes_per_window is not None:
            raise ValueError("give blocks_per_window or bytes_per_window, not both")
        scoring = Scoring(
            feature_columns, keep_columns, batch_size, min_scoring_workers, max_scoring_workers,
            num_cpus_per_worker, num_gpus_per_worker, separate_gpu_stage, ray_remote_args,
            predict_kwargs,
        )  # fmt: skip
        return self._predictions(data, scoring)

    def _predictions(self, data: Dataset, scoring: Scoring) -> Dataset:
        _check_dataset(data)
        preprocessor = self.get_preprocessor()
        if preprocessor is not None and scoring.preprocesses_first:
            data = preprocessor.transform(data)
            preprocessor = None
        return data.map_batches(
            Scorer,
            fn_constructor_kwargs={
                "stored": self._store(use_gpu=bool(scoring.gpus)),
                "preprocessor": preprocessor,
                "scoring": scoring,
            },
            compute=scoring.pool(),
            batch_size=scoring.batch_size,
            batch_format=self._predictor_cls._batch_format_to_use().value,
            # Tensors are copies of read-only arrays by themselves; other code may change a batch.
            zero_copy_batch=preprocessor is None
            and issubclass(self._predictor_cls, TensorPredictor),
            **scoring.remote_args(),
        )

    def _store(self, use_gpu: bool) -> Any:
        """Return a reference to what actors make their predictors of; put once in a session."""
        key = (skate.get_runtime_context().get_session_name(), use_gpu)
        if key not in self._stored:
            takes = inspect.signature(self._predictor_cls.from_checkpoint).parameters
            kwargs = self._predictor_kwargs
            if use_gpu and "use_gpu" in takes:
                kwargs = {"use_gpu": True, **kwargs}
            self._stored[key] = skate.put((self._predictor_cls, self._checkpoint, kwargs))
        return self._stored[key]


def _check_dataset(data: object) -> None:
    if not hasattr(data, "map_batches"):
        raise TypeError(
            f"BatchPredictor.predict takes a dataset; got {type(data).__name__}. Make one with "
            "skate.data.from_items, from_numpy, from_pandas, read_parquet, …, or predict a batch "
            "in this process with the predictor itself"
        )
