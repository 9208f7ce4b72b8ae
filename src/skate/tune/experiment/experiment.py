"""An experiment: what is run, on which space, where, and with which limits."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import os
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from skate._run.checkpoint import Checkpoint
from skate._run.config import CheckpointConfig, SyncConfig
from skate._run.config_checks import as_config, default_storage_path
from skate._run.storage import Storage
from skate._run.types import Config
from skate.tune._older_spellings import without_checkpoints
from skate.tune.error import TuneError
from skate.tune.execution.placement_groups import PlacementGroupFactory, as_resources
from skate.tune.experiment.trial import Trial
from skate.tune.registry import get_trainable_cls, is_registered, register_trainable
from skate.tune.stopper._criteria import as_stopper
from skate.tune.stopper.stopper import Stopper


class Experiment:
    """Say what is run, on which space, where, and with which limits.

    Args:
        name: The name of its folder; by default the trainable's name and the date.
        run: A function of a configuration, a `Trainable`, a trainer, or the name of a registered
            one.
        stop: Ends trials: limits as `{"training_iteration": 10}`, a function, or a `Stopper`.
        time_budget_s: Seconds after which everything ends.
        config: The search space.
        resources_per_trial: As `{"cpu": 2}`.
        num_samples: How many times to sample the space.
        storage_path: Where its folder is; by default `~/skate_results`.
        storage_filesystem: The Arrow file system of `storage_path`, if not this machine's.
        sync_config: Older settings of uploads, of which `upload_dir` has a meaning.
        checkpoint_config: Which checkpoints stay, and when a `Trainable` saves.
        trial_name_creator: Makes the name of a trial.
        trial_dirname_creator: Makes the name of a trial's folder.
        log_to_file: Whether trials write their output to files too; or the names of these.
        export_formats: In which a `Trainable` exports its model at the end of a trial.
        max_failures: How often a trial that fails is tried again; -1 is without end.
        restore: The place of a checkpoint that all trials begin with.
        local_dir: An older name of `storage_path`.
        durability: What is recorded survives: see `RunConfig`.

    Raises:
        ValueError: If the space is no dict, or a function is asked for what only classes can do.
        TuneError: If `run` cannot be run.
    """

    PUBLIC_KEYS = frozenset(("stop", "num_samples", "time_budget_s"))

    checkpoint_config: CheckpointConfig
    run_identifier: str
    number: int = 0  # of those with its folder and trainable
    keeps_space: bool = False  # whether its objects are found again by a file in its folder
    previous_space: dict[str, Any] | None = None  # where it is taken up with another

    def __init__(
        self,
        name: str | None,
        run: Any,
        *,
        stop: object = None,
        time_budget_s: object = None,
        config: Config | None = None,
        resources_per_trial: object = None,
        num_samples: int = 1,
        storage_path: object = None,
        storage_filesystem: object = None,
        sync_config: SyncConfig | None = None,
        checkpoint_config: Any = None,
        trial_name_creator: Callable[[Trial], str] | None = None,
        trial_dirname_creator: Callable[[Trial], str] | None = None,
        log_to_file: object = False,
        export_formats: list[str] | None = None,
        max_failures: int = 0,
        restore: str | None = None,
        local_dir: object = None,
        durability: str | None = None,
    ) -> None:
        self.run_identifier = self.register_if_needed(run)
        self.trainable: Any = get_trainable_cls(self.run_identifier)
        space = as_space(config)
        place = storage_path or local_dir or (sync_config and sync_config.upload_dir)
        place = place or default_storage_path()
        self.name: str = name or _free_name(
            self.run_identifier, Storage(place, "", storage_filesystem, durability)
        )
        self.storage: Storage = Storage(place, self.name, storage_filesystem, durability)
        self.checkpoint_config = as_config(CheckpointConfig, checkpoint_config)
        if hasattr(self.trainable, "saving_as"):  # of a trainer, which saves by itself
            self.trainable, self.checkpoint_config = self.trainable.saving_as(
                self.checkpoint_config
            )
        self._check_what_classes_have(export_formats)
        _check_restore(restore)
        self._criteria = dict(stop) if isinstance(stop, Mapping) else {}
        self._stopper = as_stopper(stop, time_budget_s)
        self._resources = resources_per_trial
        self._creators = (trial_name_creator, trial_dirname_creator)
        self._log_to_file = _log_files(log_to_file)
        self._export_formats = export_formats
        self._max_failures = max_failures
        self._restore = restore
        self._usual_resources = as_resources(None)
        self._known_resources = {self._usual_resources: self._usual_resources}
        self._dirnames: set[str] = set()
        self.trial_ids: set[str] = set()
        self.spec: Config = {
            "run": self.run_identifier,
            "stop": stop if stop is not None else {},
            "time_budget_s": time_budget_s,
            "config": space,
            "resources_per_trial": resources_per_trial,
            "num_samples": num_samples,
            "storage_path": place,
            "checkpoint_config": self.checkpoint_config,
        }

    def _check_what_classes_have(self, export_formats: object) -> None:
        from skate.tune.trainable.trainable import Trainable

        if inspect.isclass(self.trainable) and issubclass(self.trainable, Trainable):
            return
        for name in ("checkpoint_frequency", "checkpoint_at_end"):
            if getattr(self.checkpoint_config, name):
                raise ValueError(
                    f"{name} is for class Trainables: a function saves when it reports a "
                    "checkpoint, tune.report(metrics, checkpoint=...)"
                )
        if export_formats:
            raise ValueError(
                f"export_formats={export_formats!r} is for class Trainables, whose export_model "
                f"is called: a function writes its files by itself"
            )

    # -- trials ------------------------------------------------------------------------------

    def make_trial(
        self,
        config: Config,
        evaluated_params: Config,
        trial_id: str,
        experiment_tag: str,
    ) -> Trial:
        """Make a trial of this experiment.

        Args:
            config: Its configuration.
            evaluated_params: What of it was searched.
            trial_id: Its id.
            experiment_tag: What its name ends with.
        """
        name_creator, dirname_creator = self._creators
        trial = Trial(
            self.run_identifier,
            config=config,
            trial_id=trial_id,
            evaluated_params=evaluated_params,
            experiment_tag=experiment_tag,
            trial_name_creator=name_creator,
            trial_dirname_creator=dirname_creator,
            restore_path=self._restore,
            **self.trial_options(config),
        )
        trial.be_of(self.number)
        if trial.custom_dirname in self._dirnames:
            trial.custom_dirname = f"{trial.custom_dirname}_{trial_id}"
        self.note_trial(trial)
        return trial

    def note_trial(self, trial: Trial) -> None:
        """Note a trial of this experiment, and its folder, which no other one may have.

        Args:
            trial: The trial.
        """
        self.trial_ids.add(trial.trial_id)
        self._dirnames.add(trial.dirname)

    def share_dirnames(self, other: Experiment) -> None:
        """Have trials in the folder of another experiment, and none in one of its trials'.

        Args:
            other: The experiment with the same folder.
        """
        self._dirnames = other._dirnames

    def trial_options(self, config: Config) -> dict[str, Any]:
        """Return what is the same for all trials, and the resources of one.

        Args:
            config: The configuration of that one.
        """
        return {
            "storage": self.storage,
            "placement_group_factory": self.resources_for(config),
            "stopping_criterion": self._criteria,
            "checkpoint_config": self.checkpoint_config,
            "export_formats": self._export_formats,
            "log_to_file": self._log_to_file,
            "max_failures": self._max_failures,
        }

    def resources_for(self, config: Config) -> PlacementGroupFactory:
        """Return the resources of a trial.

        Args:
            config: Its configuration.

        Raises:
            ValueError: If the trainable says by itself what it needs, and the search does, too.
        """
        wanted = self._resources
        own = _own_request(self.trainable, config)
        if wanted is not None and own is not None and inspect.isclass(self.trainable):
            raise ValueError(
                f"{self.run_identifier} says by itself which resources it needs "
                f"(default_resource_request): leave resources_per_trial={wanted!r} out"
            )
        if callable(wanted) and not isinstance(wanted, PlacementGroupFactory):
            wanted = wanted(config)
        asked_for = wanted if wanted is not None else own
        if asked_for is None:
            return self._usual_resources
        found = as_resources(asked_for)
        return self._known_resources.setdefault(found, found)  # one object for all trials

    # -- who it is ---------------------------------------------------------------------------

    @property
    def stopper(self) -> Stopper | None:
        """The stop conditions."""
        return self._stopper

    @property
    def path(self) -> str:
        """The experiment's folder."""
        return self.storage.path

    @property
    def local_path(self) -> str:
        """Where its files are written."""
        return self.storage.local_path

    @property
    def local_dir(self) -> str:
        """The folder that holds the experiment's."""
        return os.path.dirname(self.path)

    @property
    def remote_path(self) -> str:
        """The experiment's folder on the storage's file system."""
        return self.path

    @property
    def checkpoint_dir(self) -> str:
        """An older name of `local_path`."""
        return self.local_path

    @property
    def public_spec(self) -> dict[str, Any]:
        """What searchers and schedulers are told."""
        return {key: self.spec[key] for key in self.PUBLIC_KEYS}

    @classmethod
    def from_json(cls, name: str, spec: Config) -> Experiment:
        """Make an experiment of a dictionary.

        Args:
            name: The experiment's name.
            spec: As `{"run": …, "config": …, "num_samples": 3}`.

        Raises:
            TuneError: If there is no "run".
        """
        if "run" not in spec:
            raise TuneError(f"an experiment needs 'run'; {name!r} has {sorted(spec)}")
        options = without_checkpoints(spec)
        run = options.pop("run")
        if "env" in options:
            options["config"] = {**options.get("config", {}), "env": options.pop("env")}
        known = inspect.signature(cls).parameters
        if unknown := [option for option in options if option not in known]:
            raise TuneError(f"an experiment has no {unknown}; it has {sorted(known)}")
        return cls(name, run, **options)

    @classmethod
    def get_trainable_name(cls, run_object: object) -> str:
        """Return the name that trials of a trainable have.

        Args:
            run_object: The trainable: a function, a class, a trainer, or its name.

        Raises:
            TuneError: If it is none of them.
        """
        if isinstance(run_object, str):
            return run_object
        if isinstance(run_object, partial):
            return cls.get_trainable_name(run_object.func)
        if inspect.isclass(run_object) or inspect.isroutine(run_object):
            name: str = run_object.__name__
            return "lambda" if name == "<lambda>" else name
        if hasattr(run_object, "fit"):
            return type(run_object).__name__
        if callable(run_object):
            return getattr(run_object, "__name__", type(run_object).__name__)
        raise TuneError(
            f"what is run must be a function, a Trainable, a trainer or a name; got {run_object!r}"
        )

    @classmethod
    def register_if_needed(cls, run_object: Any) -> str:
        """Register a trainable, and return the name under which it is.

        Args:
            run_object: The trainable: a function, a class, a trainer, or its name.
        """
        name = cls.get_trainable_name(run_object)
        if not isinstance(run_object, str):
            is_trainer = hasattr(run_object, "as_trainable") and not inspect.isclass(run_object)
            register_trainable(name, run_object.as_trainable() if is_trainer else run_object)
        elif not is_registered(run_object):
            get_trainable_cls(run_object)
        return name


def _free_name(identifier: str, root: Storage) -> str:
    """Find a name that no other experiment has, also of those that begin at this moment."""
    if os.environ.get("TUNE_DISABLE_DATED_SUBDIR", "0") not in ("", "0"):  # as with Ray
        return identifier
    stamp = f"{identifier}_{time.strftime('%Y-%m-%d_%H-%M-%S')}"
    for number in itertools.count():
        name = f"{stamp}_{number}" if number else stamp
        if root.is_local:
            with contextlib.suppress(FileExistsError):
                os.mkdir(os.path.join(root.local_path, name))
                root.settle(name)
                return name
        elif not root.exists(name):
            return name
    raise AssertionError("there is always another number")


def is_default_name(name: str, identifier: str) -> bool:
    """Return whether an experiment of this trainable was given no other name."""
    stamp = r"(_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d(_\d+)?)?"
    return re.fullmatch(re.escape(identifier) + stamp, name) is not None


def _check_restore(path: Any) -> None:
    if path is not None and not Checkpoint(path)._place().exists():
        raise FileNotFoundError(f"restore takes the place of a checkpoint; got {path!r}")


def _own_request(trainable: object, config: Config) -> Any:
    """Return the resources that the trainable itself says it needs; None if it does not."""
    request = getattr(trainable, "default_resource_request", None)
    if request is not None:
        return request(config)
    wanted = getattr(trainable, "_resources", None)
    if wanted is None and isinstance(trainable, partial):
        wanted = getattr(trainable.func, "_resources", None)
    if callable(wanted) and not isinstance(wanted, PlacementGroupFactory):
        return wanted(config)
    return wanted


def _log_files(log_to_file: object) -> tuple[str, str] | None:
    """Return the names of the files for stdout and stderr; None if there are to be none."""
    if not log_to_file:
        return None
    if log_to_file is True:
        return "stdout", "stderr"
    if isinstance(log_to_file, str):
        return log_to_file, log_to_file
    if isinstance(log_to_file, (list, tuple)) and len(log_to_file) == 2:
        return log_to_file[0], log_to_file[1]
    raise ValueError(f"log_to_file takes a bool, a name, or a pair of names; got {log_to_file!r}")


def as_experiments(experiments: object) -> list[Experiment]:
    """Make a list of one experiment, of a list of them, or of a dictionary of specs."""
    if isinstance(experiments, Experiment):
        return [experiments]
    if isinstance(experiments, Mapping):
        return [
            spec if isinstance(spec, Experiment) else Experiment.from_json(name, spec)
            for name, spec in experiments.items()
        ]
    if isinstance(experiments, (list, tuple)) and all(
        isinstance(one, Experiment) for one in experiments
    ):
        return list(experiments)
    raise TuneError(f"experiments are Experiments or a dictionary of specs; got {experiments!r}")


def as_space(given: object) -> dict[str, Any]:
    """Return a search space as a dictionary, from one, None, or an object with `to_dict`.

    Raises:
        ValueError: If it is something else.
    """
    space: Any = {} if given is None else given
    if not isinstance(space, Mapping) and hasattr(space, "to_dict"):
        space = space.to_dict()
    if not isinstance(space, Mapping):
        raise ValueError(
            f"the search space is a dictionary, or an object with to_dict(); got {given!r}"
        )
    return dict(space)
