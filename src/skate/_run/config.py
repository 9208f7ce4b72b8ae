"""How a run fails, keeps checkpoints, logs, and where it goes: one class each, for all eras."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from skate._run.callbacks import Callback, UserCallback
from skate._run.config_checks import (
    Configuration,
    as_config,
    check_folder_name,
    check_whole,
    checked_durability,
)

RESTARTS = ("group", "worker")


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


@dataclass(repr=False)
class FailureConfig(Configuration):
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
class CheckpointConfig(Configuration):
    """Say which checkpoints are kept: the last one always, and the best.

    Args:
        num_to_keep: How many; `None` keeps all.
        checkpoint_score_attribute: The reported metric by which they are compared, "a/b" for
            nested ones; by default the most recent ones are the best.
        checkpoint_score_order: Whether a larger value is better, "max", or a smaller one, "min".
        checkpoint_frequency: Results between two checkpoints, for a `Trainable`, which saves when
            it is asked to; loops report checkpoints by themselves.
        checkpoint_at_end: Whether a `Trainable` saves at its end; by default those of a `Tuner`
            do, if they have `save_checkpoint`.

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
class SyncConfig(Configuration):
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
class LoggingConfig(Configuration):
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
class RunConfig(Configuration):
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
