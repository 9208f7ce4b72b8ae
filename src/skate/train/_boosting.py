"""What the trainers of gradient boosting libraries share: the spelling without a loop."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from skate._run.checkpoint import Checkpoint
from skate._run.config import CheckpointConfig, RunConfig
from skate._run.config_checks import as_config
from skate._run.scaling_config import ScalingConfig
from skate._run.session import get_checkpoint, get_dataset_shard
from skate._run.types import Config
from skate._run.validation import ValidationConfig
from skate.train._data import TRAIN_DATASET_KEY, DataConfig
from skate.train.backend import BackendConfig
from skate.train.data_parallel_trainer import DataParallelTrainer

if TYPE_CHECKING:
    from skate.data.preprocessor import Preprocessor


DEFAULT_ROUNDS = 10

Table = tuple[Any, Any]  # features and labels


class MissingDatasetError(KeyError, ValueError):
    """There is nothing to learn from."""

    __str__ = ValueError.__str__  # that of a KeyError quotes the text


@dataclass
class BoostingSettings:
    """What stands in for a loop."""

    label_column: str | None = None
    params: Config | None = None
    num_boost_round: int | None = None
    dmatrix_params: dict[str, dict[str, Any]] | None = None
    train_kwargs: dict[str, Any] = field(default_factory=dict)

    def check(self, datasets: Mapping[str, object]) -> None:
        if TRAIN_DATASET_KEY not in datasets:
            raise MissingDatasetError(
                f"without train_loop_per_worker, datasets needs {TRAIN_DATASET_KEY!r}; "
                f"it has {sorted(datasets)}"
            )
        if not self.label_column:
            raise ValueError(
                "without train_loop_per_worker, label_column must name the column to predict; "
                f"got {self.label_column!r}"
            )
        unknown = [name for name in self.dmatrix_params or () if name not in datasets]
        if unknown:
            raise KeyError(f"dmatrix_params has {unknown}; the datasets are {sorted(datasets)}")

    def refuse(self) -> None:
        """Raise if any setting was given, because a loop was given too."""
        names = [name for name, value in asdict(self).items() if value and name != "train_kwargs"]
        given = [*names, *self.train_kwargs]
        if given:
            raise ValueError(
                f"{given} cannot be used with train_loop_per_worker, which calls the library's "
                "train itself: give them to that, or leave train_loop_per_worker out"
            )


def _report_options(keep: CheckpointConfig) -> dict[str, Any]:
    at_end = keep.checkpoint_at_end
    return {
        "frequency": keep.checkpoint_frequency or 0,
        "checkpoint_at_end": True if at_end is None else at_end,
    }


def _without_saving(keep: CheckpointConfig) -> CheckpointConfig:
    """Copy it without asking for saves: the loop decides when to, knowing what was asked for."""
    return replace(keep, checkpoint_frequency=0, checkpoint_at_end=None)


Model = TypeVar("Model")


class BoostingLoop(ABC, Generic[Model]):
    """A training loop made of settings."""

    def __init__(
        self, settings: BoostingSettings, names: list[str], checkpoints: CheckpointConfig
    ) -> None:
        self.settings = settings
        self.names: list[str] = sorted(names, key=lambda name: name != TRAIN_DATASET_KEY)
        self.report_options: dict[str, Any] = _report_options(checkpoints)

    def __call__(self, config: Config) -> None:
        checkpoint = get_checkpoint()
        before = None if checkpoint is None else self.model_in(checkpoint)
        rounds = self.settings.num_boost_round or DEFAULT_ROUNDS
        if before is not None:
            rounds -= self.rounds_of(before)
        if rounds > 0:
            tables = {name: self._table(name) for name in self.names}
            self.train(dict(config), tables, rounds, before)

    def _table(self, name: str) -> Table:
        frame = get_dataset_shard(name).materialize().to_pandas()
        label = self.settings.label_column
        if label not in frame:
            raise ValueError(
                f"the dataset {name!r} has no column {label!r}, the label_column; "
                f"it has {list(frame.columns)}"
            )
        return frame.drop(columns=label), frame[label]

    def table_options(self, name: str) -> dict[str, Any]:
        """Return the options of this dataset for the library's own kind of table."""
        return (self.settings.dmatrix_params or {}).get(name, {})

    def train_options(self, reporter: type[object]) -> dict[str, Any]:
        """Return options for the library's `train`, with a callback that reports, if none does
        yet."""
        options = dict(self.settings.train_kwargs)
        callbacks = list(options.get("callbacks") or ())
        if not any(isinstance(callback, reporter) for callback in callbacks):
            callbacks.append(reporter(**self.report_options))
        return {**options, "callbacks": callbacks}

    @abstractmethod
    def model_in(self, checkpoint: Checkpoint) -> Model:
        """Return the model to go on with."""

    @abstractmethod
    def rounds_of(self, model: Model) -> int:
        """Return how many rounds a model has had."""

    @abstractmethod
    def train(
        self, params: Config, tables: dict[str, Table], rounds: int, before: Model | None
    ) -> None:
        """Boost; the first of the tables is the one to learn."""


class BoostingTrainer(DataParallelTrainer):
    """Trains what boosts trees: with a loop of the user's, or without one."""

    _loop_class: type[BoostingLoop[Any]]

    def __init__(
        self,
        train_loop_per_worker: Callable[..., object] | None,
        settings: BoostingSettings,
        *,
        train_loop_config: Config | None,
        backend_config: BackendConfig,
        scaling_config: ScalingConfig | Mapping[str, object] | None,
        run_config: RunConfig | Mapping[str, object] | None,
        datasets: Mapping[str, object] | None,
        dataset_config: DataConfig | Mapping[str, object] | None,
        preprocessor: Preprocessor | None,
        resume_from_checkpoint: Checkpoint | None,
        metadata: dict[str, Any] | None,
        validation_config: ValidationConfig | None,
    ) -> None:
        run = as_config(RunConfig, run_config)
        loop = train_loop_per_worker
        if loop is None:
            settings.check(datasets or {})
            keep = as_config(CheckpointConfig, run.checkpoint_config)
            loop = self._loop_class(settings, list(datasets or {}), keep)
            run = replace(run, checkpoint_config=_without_saving(keep))
            train_loop_config = settings.params
            # Metrics of a whole dataset are exact; those of parts can only be averaged.
            dataset_config = dataset_config or DataConfig([TRAIN_DATASET_KEY])
        else:
            settings.refuse()
        super().__init__(
            loop,
            train_loop_config=train_loop_config,
            backend_config=backend_config,
            scaling_config=scaling_config,
            run_config=run,
            datasets=datasets,
            dataset_config=dataset_config,
            preprocessor=preprocessor,
            resume_from_checkpoint=resume_from_checkpoint,
            metadata=metadata,
            validation_config=validation_config,
        )

    def _saving_as(self, keep: CheckpointConfig) -> tuple[BoostingTrainer, CheckpointConfig]:
        loop = self._train_loop_per_worker
        says = keep.checkpoint_frequency or keep.checkpoint_at_end is not None
        if not says or not isinstance(loop, BoostingLoop):
            return self, keep
        own, own_loop = copy.copy(self), copy.copy(loop)
        own_loop.report_options = _report_options(keep)
        own._train_loop_per_worker = own_loop
        return own, _without_saving(keep)

    @property
    def params(self) -> dict[str, Any]:
        """The library's parameters, where there is no loop of the user's."""
        return self.train_loop_config or {}

    @params.setter
    def params(self, value: dict[str, Any]) -> None:
        self.train_loop_config = value

    @property
    def num_boost_round(self) -> int | None:
        """How many rounds there are, where there is no loop of the user's."""
        loop = self._train_loop_per_worker
        return loop.settings.num_boost_round if isinstance(loop, BoostingLoop) else None

    @num_boost_round.setter
    def num_boost_round(self, value: int) -> None:
        loop = self._train_loop_per_worker
        if not isinstance(loop, BoostingLoop):
            raise ValueError(
                "num_boost_round cannot be used with train_loop_per_worker, which calls the "
                "library's train itself"
            )
        own = copy.copy(loop)  # a copy of a trainer shares the other one
        own.settings = replace(loop.settings, num_boost_round=value)
        self._train_loop_per_worker = own
