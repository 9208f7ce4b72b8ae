"""How a run scales, fails, keeps checkpoints, and where it goes: one class each, for all eras."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, TypeVar

from skate._core.nearest import SpelledOut
from skate._run.callbacks import Callback, UserCallback

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
STORAGE_VARIABLE = "SKATE_STORAGE"
RESTARTS = ("group", "worker")
DURABILITIES = ("process", "power")
DURABILITY_VARIABLE = "SKATE_DURABILITY"

AnyConfig = TypeVar("AnyConfig")


def default_storage_path() -> str:
    """Where runs go that name no place of their own."""
    return os.environ.get(STORAGE_VARIABLE) or os.path.expanduser("~/skate_results")


def checked_durability(value: str | None) -> str:
    """Return what a run's records must survive, as it was given or as the environment says."""
    source = "durability"
    if value is None and os.environ.get(DURABILITY_VARIABLE):
        value, source = os.environ[DURABILITY_VARIABLE], DURABILITY_VARIABLE
    value = "process" if value is None else value
    if value not in DURABILITIES:
        raise ValueError(
            f"{source} is one of {DURABILITIES}: what is recorded survives the death of every "
            f"process, or a power cut as well; got {value!r}"
        )
    return value


class WrongKindError(TypeError, ValueError):
    """An argument of a trainer is something else than it should be. Ray raises a ValueError."""


def as_config(cls: type[AnyConfig], value: object) -> AnyConfig:
    """A configuration from what a user may write: itself, a dict, or None for the defaults."""
    if value is None:
        return cls()
    if isinstance(value, cls):
        return value
    if isinstance(value, Mapping):
        known = [f.name for f in fields(cls)]  # type: ignore[arg-type]
        unknown = [name for name in value if name not in known]
        if unknown:
            raise ValueError(f"{cls.__name__} has no {unknown}; it has {known}")
        return cls(**value)
    raise WrongKindError(
        f"expected a {cls.__name__} or a dict; got {type(value).__name__}: {value!r}"
    )


def check_whole(name: str, value: Any, least: int, meaning: str = "") -> None:
    """That an argument is a whole number from `least` on."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name} takes a whole number from {least} on{meaning}; got {value!r}")


def may_retry(failures: int, max_failures: int) -> bool:
    """Return whether what has failed so often may be tried again.

    Args:
        failures: How often it has failed, with the last time.
        max_failures: How often it may; -1 is without end.
    """
    return max_failures < 0 or failures <= max_failures


def check_folder_name(parameter: str, name: object, place: str) -> None:
    """That it is the name of a folder inside of another, and does not lead out of that."""
    if not isinstance(name, str):
        raise TypeError(f"{parameter} is the name of a folder, a string; got {name!r}")
    if not name or name.startswith(("/", "~")) or ".." in name.split("/"):
        raise ValueError(
            f"{parameter} is the name of a folder inside of {place}, and cannot lead out of it; "
            f"got {name!r}"
        )


def _check_callbacks(given: object) -> None:
    if given is not None and not isinstance(given, (list, tuple)):
        raise TypeError(f"callbacks is a list of callbacks; got {given!r}")
    hooks = [name for kind in (Callback, UserCallback) for name in vars(kind) if name[0] != "_"]
    for callback in given or ():
        if isinstance(callback, type) or not any(hasattr(callback, name) for name in hooks):
            raise TypeError(
                "callbacks are instances of classes derived from Callback or UserCallback; "
                f"got {callback!r}"
            )


class _Config(SpelledOut):
    """Shows only what differs from the defaults."""

    def __repr__(self) -> str:
        parts = []
        for f in fields(self):  # type: ignore[arg-type]
            value = getattr(self, f.name)
            default = f.default_factory() if f.default_factory is not MISSING else f.default
            if not _same(value, default):
                parts.append(f"{f.name}={value!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


def _same(value: object, default: object) -> bool:
    if value is None or default is None:
        return value is default
    return bool(value == default)


@dataclass(repr=False)
class ScalingConfig(_Config):
    """Say how many workers train together, and what each of them gets.

    Args:
        trainer_resources: Reserved for the calling side; by default nothing.
        num_workers: How many workers; 0 runs the loop in the calling process. With a pair
            `(least, most)` there are as many as there is room for, more or fewer while it runs as
            resources come and go.
        use_gpu: Whether each worker has a GPU.
        resources_per_worker: What each worker reserves, as `{"CPU": 2}`; by default a CPU, or a
            GPU with `use_gpu`.
        placement_strategy: How workers are spread over the machines of a cluster: "PACK",
            "SPREAD", "STRICT_PACK" or "STRICT_SPREAD"; on one machine all are the same.
        accelerator_type: Asks for a resource of that name.
        label_selector: Labels that a machine must have, as `skate.init(labels={…})` gives them; a
            list has one dict per worker.
        use_tpu: Must be `False`: there are no TPUs here.
        topology: Must be `None`, as it is about TPUs.
        elastic_resize_monitor_interval_s: How many seconds pass until it is looked again whether
            there is room for more workers of such a pair, or for fewer.

    Raises:
        ValueError: For numbers that make no sense, or that contradict each other.
        TypeError: If resources are not amounts by name.

    Example:
        >>> from skate.train import ScalingConfig
        >>> ScalingConfig(num_workers=2, resources_per_worker={"CPU": 2}).total_resources
        {'CPU': 4.0}
    """

    trainer_resources: dict[str, float] | None = None
    num_workers: Any = 1
    use_gpu: Any = False
    resources_per_worker: Any = None
    placement_strategy: Any = "PACK"
    accelerator_type: str | None = None
    label_selector: dict[str, str] | list[dict[str, str]] | None = None
    use_tpu: bool = False
    topology: str | None = None
    elastic_resize_monitor_interval_s: float = 1.0
    _max_cpu_fraction_per_node: float | None = None

    def __post_init__(self) -> None:
        if self.num_workers is None:  # its default until Ray 2.3
            self.num_workers = 1
        if not _is_search_space(self.num_workers):
            self._check_workers()
        if self.use_gpu is True and self.use_tpu:
            raise ValueError("Cannot specify both `use_gpu` and `use_tpu`; there are no TPUs here")
        if self.use_tpu or self.topology is not None:
            raise ValueError("there are no TPUs here: use_tpu and topology cannot be used")
        if isinstance(self.placement_strategy, str) and (
            self.placement_strategy not in STRATEGIES
        ):
            raise ValueError(
                f"placement_strategy is one of {STRATEGIES}; got {self.placement_strategy!r}"
            )
        interval = self.elastic_resize_monitor_interval_s
        if not _is_amount(interval):
            raise ValueError(
                "elastic_resize_monitor_interval_s is a number of seconds that is not negative; "
                f"got {interval!r}"
            )
        self._check_gpus()

    def _check_workers(self) -> None:
        number = self.num_workers
        if isinstance(number, list):
            number = self.num_workers = tuple(number)
        pair = number if isinstance(number, tuple) else (number, number)
        whole = len(pair) == 2 and all(
            isinstance(n, int) and not isinstance(n, bool) for n in pair
        )
        if not whole:
            raise ValueError(f"num_workers is a number or a pair (least, most); got {number!r}")
        if isinstance(number, tuple) and number[0] == 0:
            raise ValueError(f"the least number of a pair is at least 1; got {number!r}")
        labels = self.label_selector
        if isinstance(labels, list) and len(labels) != pair[1]:
            raise ValueError(
                f"a list of label selectors has one per worker, here {pair[1]}; got {labels!r}"
            )
        if pair[0] < 0 or pair[0] > pair[1]:
            raise ValueError(f"num_workers cannot be negative, nor least > most; got {number!r}")

    def _check_gpus(self) -> None:
        _check_amounts("resources_per_worker", self.resources_per_worker)
        _check_amounts("trainer_resources", self.trainer_resources)
        if isinstance(self.use_gpu, str):
            raise TypeError(f"use_gpu is True or False; got {self.use_gpu!r}")
        if not isinstance(self.resources_per_worker, dict) or not isinstance(self.use_gpu, bool):
            return
        wanted = self.resources_per_worker.get("GPU")
        if not self.use_gpu and wanted:
            raise ValueError(
                f"`use_gpu` is False but `GPU` was found in resources_per_worker: {wanted}; "
                "set use_gpu=True or leave the GPU out"
            )
        if self.use_gpu and wanted == 0:
            raise ValueError(
                "`use_gpu` is True, but resources_per_worker gives each worker 0 `GPU`; "
                "set use_gpu=False or give a positive number"
            )

    def __eq__(self, other: object) -> bool:
        """Two that ask for the same are equal, however they were written."""
        if not isinstance(other, ScalingConfig):
            return NotImplemented
        return bool(self._request() == other._request())

    def _request(self) -> Any:
        if not isinstance(self.num_workers, int):
            return vars(self)
        try:
            return self.as_placement_group_factory(), self.accelerator_type, self.label_selector
        except TypeError:  # tuning fills something in
            return vars(self)

    @property
    def min_workers(self) -> int:
        return int(self.num_workers[0] if self.elasticity_enabled else self.num_workers)

    @property
    def max_workers(self) -> int:
        return int(self.num_workers[1] if self.elasticity_enabled else self.num_workers)

    @property
    def elasticity_enabled(self) -> bool:
        return isinstance(self.num_workers, tuple)

    @property
    def _resources_per_worker_not_none(self) -> dict[str, float]:
        if self.resources_per_worker is None:
            wanted: dict[str, float] = {"GPU": 1} if self.use_gpu else {"CPU": 1}
        else:
            wanted = {name: n for name, n in self.resources_per_worker.items() if n != 0}
        if self.use_gpu:
            wanted.setdefault("GPU", 1)
        if self.accelerator_type is not None:
            wanted.setdefault(f"accelerator_type:{self.accelerator_type}", 0.001)
        return wanted

    @property
    def _trainer_resources_not_none(self) -> dict[str, float]:
        return {name: n for name, n in (self.trainer_resources or {}).items() if n != 0}

    @property
    def total_resources(self) -> dict[str, float]:
        """What the workers and the calling side take together."""
        total = dict(self._trainer_resources_not_none)
        for name, number in self._resources_per_worker_not_none.items():
            total[name] = total.get(name, 0.0) + number * self.max_workers
        return total

    @property
    def num_cpus_per_worker(self) -> float:
        return self._resources_per_worker_not_none.get("CPU", 0)

    @property
    def num_gpus_per_worker(self) -> float:
        return self._resources_per_worker_not_none.get("GPU", 0)

    @property
    def num_tpus_per_worker(self) -> float:
        return 0

    @property
    def additional_resources_per_worker(self) -> dict[str, float]:
        """What each worker gets besides CPUs and GPUs."""
        wanted = self._resources_per_worker_not_none
        return {name: number for name, number in wanted.items() if name not in ("CPU", "GPU")}

    def as_placement_group_factory(self) -> Any:
        """Return the resources of a trial of tuning that trains with this configuration."""
        from skate import tune

        worker = self._resources_per_worker_not_none
        workers = [worker] * self.max_workers if worker else []  # who asks for nothing needs none
        return tune.PlacementGroupFactory(
            [self._trainer_resources_not_none, *workers], strategy=self.placement_strategy
        )

    @classmethod
    def from_placement_group_factory(cls, pgf: Any) -> ScalingConfig:
        """Return the configuration that has given resources.

        Args:
            pgf: The bundle of the trainer, then one per worker.
        """
        workers = pgf.bundles[0 if pgf.head_bundle_is_empty else 1 :]
        per_worker = dict(workers[0]) if workers else {}
        return cls(
            trainer_resources=dict(pgf.head_bundle),
            num_workers=max(len(workers), 1),
            use_gpu=bool(per_worker.get("GPU")),
            resources_per_worker=per_worker,
            placement_strategy=pgf.strategy,
        )


def _check_amounts(parameter: str, given: object) -> None:
    """Resources are amounts by name, as far as tuning does not fill them in."""
    if given is None or hasattr(given, "sample"):
        return
    amounts = given.values() if isinstance(given, dict) and "grid_search" not in given else ()
    right = all(_is_search_space(amount) or _is_amount(amount) for amount in amounts)
    if not isinstance(given, dict) or not right:
        raise TypeError(
            f"{parameter} is a dict of amounts by name, as in {{'CPU': 2}}; got {given!r}"
        )


def _is_amount(value: object) -> bool:
    return isinstance(value, Real) and float(value) >= 0


def _is_search_space(value: object) -> bool:
    """Whether it is something that tuning fills in."""
    return isinstance(value, dict) or hasattr(value, "sample")


@dataclass(repr=False)
class FailureConfig(_Config):
    """Say how often a run is taken up again from its last checkpoint when workers die or fail.

    Args:
        max_failures: How often; -1 is without end.
        fail_fast: Whether the first failed trial ends a search; "raise" raises its error.
        controller_failure_limit: Of clusters, whose machines come and go; as are the next three.
        max_preemption_failures: How often a machine may be taken away.
        relax_collectives_on_preemption: Whether collectives go on without it.
        preemption_grace_s: Seconds that a machine has before it goes.
        restart: What begins again when a worker's process dies: the whole "group", from the last
            checkpoint, or only that "worker". The others keep what they have in memory, and give
            it to the new one; `train.torch.ResilientState` says how a loop takes part. With
            "worker", 0 as `max_failures` is without end too.

    Raises:
        ValueError: If `fail_fast` contradicts `max_failures` or `restart`.

    Example:
        >>> from skate.train import FailureConfig
        >>> FailureConfig(max_failures=3)
        FailureConfig(max_failures=3)
    """

    max_failures: int = 0
    fail_fast: bool | str = False
    controller_failure_limit: int = -1
    max_preemption_failures: int = -1
    relax_collectives_on_preemption: bool = False
    preemption_grace_s: float = 0.0
    restart: str = "group"

    def __post_init__(self) -> None:
        check_whole("max_failures", self.max_failures, -1, ", -1 is without end")
        if not isinstance(self.fail_fast, bool) and str(self.fail_fast).upper() != "RAISE":
            raise ValueError(f"fail_fast is True, False or 'raise'; got {self.fail_fast!r}")
        if self.fail_fast and self.max_failures != 0:
            raise ValueError(
                f"fail_fast={self.fail_fast!r} ends at the first failure, so max_failures "
                f"must be 0; got {self.max_failures}"
            )
        if self.restart not in RESTARTS:
            raise ValueError(f"restart is one of {RESTARTS}; got {self.restart!r}")
        if self.restart == "worker":
            if self.fail_fast:
                raise ValueError(
                    f"fail_fast={self.fail_fast!r} ends at the first failure, so restart must be "
                    "'group'; got 'worker'"
                )
            self.max_failures = self.max_failures or -1


@dataclass(repr=False)
class CheckpointConfig(_Config):
    """Say which checkpoints are kept: the last one always, and the best.

    Args:
        num_to_keep: How many; `None` keeps all.
        checkpoint_score_attribute: The reported metric by which they are compared, "a/b" for
            nested ones; by default the most recent ones are the best.
        checkpoint_score_order: Whether a larger value is better, "max", or a smaller one, "min".
        checkpoint_frequency: Results between two checkpoints, for a `Trainable`, which saves when
            it is asked to; loops report checkpoints by themselves.
        checkpoint_at_end: Whether a `Trainable` saves at its end.

    Names that begin with an underscore are older, and are the rule today: workers save by
    themselves, and the files of all ranks are kept.

    Example:
        >>> from skate.train import CheckpointConfig
        >>> CheckpointConfig(num_to_keep=2, checkpoint_score_attribute="accuracy")
        CheckpointConfig(num_to_keep=2, checkpoint_score_attribute='accuracy')
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str = "max"
    checkpoint_frequency: int | None = 0
    checkpoint_at_end: bool | None = None
    _checkpoint_keep_all_ranks: bool | None = None
    _checkpoint_upload_from_workers: bool | None = None

    def __post_init__(self) -> None:
        if self.num_to_keep is not None:
            check_whole("num_to_keep", self.num_to_keep, 1, ", None keeps all")
        if not isinstance(self.checkpoint_score_attribute, (str, type(None))):
            raise TypeError(
                "checkpoint_score_attribute is the name of a reported metric; "
                f"got {self.checkpoint_score_attribute!r}"
            )
        if self.checkpoint_score_order not in ("max", "min"):
            raise ValueError(
                f"checkpoint_score_order is 'max' or 'min'; got {self.checkpoint_score_order!r}"
            )
        if self.checkpoint_frequency is not None:
            check_whole("checkpoint_frequency", self.checkpoint_frequency, 0)


@dataclass(repr=False)
class SyncConfig(_Config):
    """Say when a run's folder is copied to storage elsewhere, as earlier Rays did.

    Everything is written as it happens here, so that most of it is not needed.

    Args:
        sync_period: Seconds between two copies; not needed.
        sync_timeout: Seconds that one may take; not needed.
        sync_artifacts: Whether files of trials are copied; they are.
        sync_artifacts_on_checkpoint: Whether that is done with each checkpoint; it is.
        upload_dir: An older name of `RunConfig.storage_path`.
        syncer: Who copies; there is one way.
    """

    sync_period: int = 300
    sync_timeout: int = 1800
    sync_artifacts: bool = False
    sync_artifacts_on_checkpoint: bool = True
    upload_dir: str | None = None
    syncer: str | None = "auto"


@dataclass(repr=False)
class LoggingConfig(_Config):
    """Say how much the library says about itself in the workers; ours says nothing.

    Args:
        log_level: One of "CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG" and "NOTSET".
    """

    log_level: str = "INFO"

    def __post_init__(self) -> None:
        levels = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG", "NOTSET")
        if str(self.log_level).upper() not in levels:
            raise ValueError(f"Invalid log_level: {self.log_level!r}; it is one of {levels}")
        self.log_level = self.log_level.upper()


@dataclass(repr=False)
class RunConfig(_Config):
    """Say where a run goes, what happens when it fails, and who is told about it.

    Args:
        name: The name of its folder in `storage_path`; by default made of the date.
        storage_path: Where runs go, a folder or a URI; by default `~/skate_results`, or what
            SKATE_STORAGE says.
        storage_filesystem: The Arrow file system of `storage_path`, if not this machine's.
        failure_config: How often it is taken up again.
        checkpoint_config: Which checkpoints are kept.
        sync_config: Older settings of uploads.
        verbose: 0 is silent, 1 a live view on a terminal (the default), 2 adds one line per report
            where there is no terminal.
        stop: Ends it: limits as `{"training_iteration": 10}`, or a function of the id and the
            last result; a search takes a `Stopper` too.
        callbacks: Instances of `Callback` or `UserCallback`, which are told what happens.
        progress_reporter: Shows the trials of a search.
        log_to_file: Whether trials write their output to files too; or the names of these.
        worker_runtime_env: The runtime environment of the workers.
        logging_config: How much the library says about itself.
        local_dir: An older name of `storage_path`.
        durability: What reports survive once they are recorded: "process" (the default, or what
            SKATE_DURABILITY says) the death of every process; "power" a power cut too, because
            files and folders are brought to the disk before `report` returns. That is for storage
            on this machine; object stores do so by themselves.

    Raises:
        TypeError: If something is of the wrong kind.
        ValueError: If `name` leads out of `storage_path`, or a value is not one of those above.

    Example:
        >>> from skate.train import RunConfig
        >>> RunConfig(name="first", verbose=0)
        RunConfig(name='first', verbose=0)
    """

    name: str | None = None
    storage_path: str | os.PathLike[str] | None = None
    storage_filesystem: Any = None
    failure_config: FailureConfig | None = field(default_factory=FailureConfig)
    checkpoint_config: CheckpointConfig | None = field(default_factory=CheckpointConfig)
    sync_config: SyncConfig | None = field(default_factory=SyncConfig)
    verbose: int | bool | None = None
    stop: Mapping[str, Any] | Callable[[str, Mapping[str, Any]], bool] | Any = None
    callbacks: list[Any] | None = None
    progress_reporter: Any = None
    log_to_file: bool | str | tuple[str, str] = False
    worker_runtime_env: dict[str, Any] | Any = None
    logging_config: LoggingConfig | None = None
    local_dir: str | os.PathLike[str] | None = None
    durability: str | None = None

    def __post_init__(self) -> None:
        checked_durability(self.durability)
        self.failure_config = as_config(FailureConfig, self.failure_config)
        self.checkpoint_config = as_config(CheckpointConfig, self.checkpoint_config)
        self.sync_config = as_config(SyncConfig, self.sync_config)
        places = [p for p in (self.storage_path, self.sync_config.upload_dir, self.local_dir) if p]
        if self.storage_path is None and places:
            self.storage_path = places[0]
        if isinstance(self.storage_path, os.PathLike):
            self.storage_path = os.fspath(self.storage_path)
        if self.name is not None:
            check_folder_name("name", self.name, "storage_path")
        if self.storage_path is not None and not isinstance(self.storage_path, str):
            raise TypeError(
                f"storage_path is a path or a URI, as in 's3://bucket/runs'; "
                f"got {self.storage_path!r}"
            )
        _check_callbacks(self.callbacks)
        if self.verbose is not None:
            self.verbose = int(self.verbose) if isinstance(self.verbose, bool) else self.verbose
            check_whole("verbose", self.verbose, 0)
