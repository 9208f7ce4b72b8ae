"""One trial: a configuration, where it stands, and what it has come to."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from skate._run.checkpoint import Checkpoint
from skate._run.checkpoint_manager import CheckpointManager, RecordedCheckpoint
from skate._run.config import CheckpointConfig
from skate._run.storage import Storage
from skate._run.stored_references import LostReference
from skate._run.types import Config, MetricsLike, ResultRow
from skate._run.values import lookup, reached, to_json
from skate.tune.execution.placement_groups import PlacementGroupFactory, as_resources
from skate.tune.experiment._errors import TrialErrors
from skate.tune.experiment._metrics import MetricHistory
from skate.tune.experiment.state_file import packed, unpacked
from skate.tune.result import TRAINING_ITERATION

if TYPE_CHECKING:
    from skate.tune.experiment.state_file import Record


logger: logging.Logger = logging.getLogger(__name__)

_USUAL_KEEPING = CheckpointConfig()
_MISSED: set[tuple[str, str]] = set()  # experiments, with a criterion that was warned of


class Trial(TrialErrors):
    """A configuration and its run. Made by search algorithms; read by callbacks and reporters.

    Args:
        trainable_name: The name of what runs, as it was registered.
        config: The configuration.
        trial_id: Its id; by default a new one.
        storage: Where the experiment is kept.
        evaluated_params: The part of the configuration that was chosen for this trial.
        experiment_tag: What its folder's name tells of that.
        placement_group_factory: The resources that it needs.
        stopping_criterion: The values of metrics at which it stops.
        checkpoint_config: Which checkpoints are kept.
        export_formats: What is exported when it ends.
        restore_path: A checkpoint that it begins with.
        trial_name_creator: What makes its name of it.
        trial_dirname_creator: What makes its folder's name of it.
        log_to_file: Whether what it prints goes to files, or the names of these.
        max_failures: How often it may fail before it is given up; -1 for without end.
        stub: Whether it is there to be looked at only, where what runs is not known.
    """

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    TERMINATED = "TERMINATED"
    ERROR = "ERROR"

    lost_references: Sequence[LostReference] = ()  # in its configuration, as a file has it

    # What few trials have is of the class until then: an object takes a third of the memory if
    # it has no more than 30 attributes of its own, all of them from the beginning.
    num_failures: int = 0  # in all, and since the search was taken up again
    num_failures_after_restore: int = 0
    error: BaseException | None = None
    next_checkpoint: int = 0
    experiment_number: int = 0  # of those with its folder and trainable
    _adopted: RecordedCheckpoint | None = None
    is_saving: bool = False  # paused, and its checkpoint is still to come

    def __init__(
        self,
        trainable_name: str,
        *,
        config: Config | None = None,
        trial_id: str | None = None,
        storage: Storage | None = None,
        evaluated_params: Config | None = None,
        experiment_tag: str = "",
        placement_group_factory: PlacementGroupFactory | None = None,
        stopping_criterion: dict[str, Any] | None = None,
        checkpoint_config: CheckpointConfig | None = None,
        export_formats: list[str] | None = None,
        restore_path: str | None = None,
        trial_name_creator: Callable[[Trial], str] | None = None,
        trial_dirname_creator: Callable[[Trial], str] | None = None,
        log_to_file: Any = False,
        max_failures: int = 0,
        stub: bool = False,
        _setup_default_resource: bool = True,
    ) -> None:
        self.trainable_name = trainable_name
        self.stub = stub
        self.config = config or {}
        self.trial_id: str = trial_id or self.generate_id()
        self.evaluated_params: dict[str, Any] = evaluated_params or {}
        self.experiment_tag = experiment_tag
        self.stopping_criterion: dict[str, Any] = stopping_criterion or {}
        self.checkpoint_config: CheckpointConfig = checkpoint_config or CheckpointConfig()
        self.checkpoints: CheckpointManager = CheckpointManager(self.checkpoint_config)
        self.export_formats: list[str] = export_formats or []
        self.log_to_file = log_to_file
        self.max_failures = max_failures
        self.status: str = Trial.PENDING
        self.location: str = ""
        self.start_time: float | None = None
        self.num_results: int = 0
        self._last_result: ResultRow = {}
        self._courses = MetricHistory()
        self._last_counts = True  # the last result is in the courses
        if restore_path:
            self._adopted = RecordedCheckpoint(Checkpoint(restore_path), results=0)
        self._resources = placement_group_factory
        if placement_group_factory is None and _setup_default_resource:
            self._resources = as_resources(None)
        self._place(storage, trial_name_creator, trial_dirname_creator)

    @staticmethod
    def generate_id() -> str:
        """Make a new id, of eight hexadecimal digits."""
        return uuid.uuid4().hex[:8]

    # -- resources ---------------------------------------------------------------------------

    @property
    def placement_group_factory(self) -> PlacementGroupFactory:
        """The resources of the trial."""
        if self._resources is None:
            self._resources = as_resources(None)
        return self._resources

    @placement_group_factory.setter
    def placement_group_factory(self, value: PlacementGroupFactory | None) -> None:
        self._resources = value

    def create_placement_group_factory(self) -> None:
        """Settle the resources, which are worked out when they are first asked for otherwise."""
        self._resources = self.placement_group_factory

    def update_resources(self, resources: object) -> None:
        """Set other resources, from the trial's next start on.

        Args:
            resources: A dictionary as `{"cpu": 2}`, or a PlacementGroupFactory.

        Raises:
            ValueError: If the trial is running.
        """
        if self.status == Trial.RUNNING:
            raise ValueError(f"the resources of {self} cannot change while it is running")
        self._resources = as_resources(resources)

    # -- status ------------------------------------------------------------------------------

    def set_status(self, status: str) -> None:
        """Set the status, and note when the trial first runs.

        Args:
            status: One of PENDING, RUNNING, PAUSED, TERMINATED and ERROR.
        """
        if status == Trial.RUNNING and self.start_time is None:
            self.start_time = time.time()
        if status != Trial.RUNNING:
            self.location = ""
        self.status = status

    def is_finished(self) -> bool:
        """Return whether the trial has ended, well or not."""
        return self.status in (Trial.TERMINATED, Trial.ERROR)

    def set_config(self, config: Config) -> None:
        """Set another configuration, from the trial's next start on.

        Args:
            config: The configuration.
        """
        self.config: dict[str, Any] = config

    def set_experiment_tag(self, experiment_tag: str) -> None:
        """Set another tag, the part of its folder's name that tells what was chosen.

        Args:
            experiment_tag: The tag.
        """
        self.experiment_tag: str = experiment_tag

    def reset(self) -> Trial:
        """Make a trial with the same id and configuration that has not begun."""
        fresh = Trial(
            self.trainable_name,
            config=self.config,
            trial_id=self.trial_id,
            storage=self._experiment_storage,
            evaluated_params=self.evaluated_params,
            experiment_tag=self.experiment_tag,
            placement_group_factory=self._resources,
            stopping_criterion=self.stopping_criterion,
            checkpoint_config=self.checkpoint_config,
            export_formats=self.export_formats,
            log_to_file=self.log_to_file,
            max_failures=self.max_failures,
        )
        fresh.custom_trial_name = self.custom_trial_name
        fresh.custom_dirname = self.custom_dirname
        fresh.be_of(self.experiment_number)
        return fresh

    def be_of(self, experiment_number: int) -> None:
        """Set which experiment it is of, of those with the same folder and trainable.

        Args:
            experiment_number: The number of the experiment.
        """
        if experiment_number != self.experiment_number:
            self.experiment_number = experiment_number

    # -- results -----------------------------------------------------------------------------

    @property
    def last_result(self) -> ResultRow:
        """The last result; what is known of every trial if there is none."""
        return self._last_result

    @last_result.setter
    def last_result(self, result: ResultRow) -> None:
        self._last_result = result

    @property
    def run_metadata(self) -> Trial:
        """The trial itself, which knows what it has come to: `run_metadata.last_result`."""
        return self

    @property
    def has_reported_at_least_once(self) -> bool:
        """Whether there is a result."""
        return bool(self._last_result)

    @property
    def metric_analysis(self) -> MetricHistory:
        """`trial.metric_analysis["loss"]["min"]`, also max, avg, last, last-5-avg …"""
        self._count_last()
        return self._courses

    @property
    def metric_n_steps(self) -> dict[str, Any]:
        """The summaries of the last 5 and 10 values."""
        return {
            name: {"5": summary["last-5-avg"], "10": summary["last-10-avg"]}
            for name, summary in self.metric_analysis.items()
        }

    def update_last_result(self, result: ResultRow) -> None:
        """Take a result that came: it is the last one now, and counts in the summaries."""
        if self.experiment_tag:
            result.setdefault("experiment_tag", self.experiment_tag)
        self.num_results += 1
        self._count_last()
        self._last_result = result
        # Not yet: callbacks may add to it. Most trials are stopped at their first result, and
        # need no courses then.
        self._last_counts = False

    def _count_last(self) -> None:
        if not self._last_counts:
            self._courses.add(self._last_result)
            self._last_counts = True

    def settle(self) -> None:
        """Keep what it has come to in little memory: there may be many that have ended."""
        result = self._last_result
        if result.get("config") == self.config:
            result["config"] = self.config
        self._last_result = {
            sys.intern(str(name)): sys.intern(value) if type(value) is str else value
            for name, value in result.items()
        }

    def take_history(self, results: Iterable[ResultRow]) -> None:
        """Take these results, read from the trial's file, for all that it has come to so far."""
        self._forget_results()
        for result in results:
            self.update_last_result(result)

    def _forget_results(self) -> None:
        self.num_results = 0
        self._last_result = {}
        self._courses, self._last_counts = MetricHistory(), True

    def should_stop(self, result: MetricsLike) -> bool:
        """Return whether a result ends the trial by its own criteria.

        Args:
            result: What the trial has reported, with what was filled in.
        """
        if result.get("done"):
            return True
        for name in self.stopping_criterion:
            if lookup(result, name) is None:
                self._warn_of_missing(name, result)
        return reached(self.stopping_criterion, result)

    def _warn_of_missing(self, name: str, result: MetricsLike) -> None:
        """Say, once per experiment, that a criterion can never be met: it may be misspelt."""
        where = self._experiment_storage.path if self._experiment_storage else self.trial_id
        if (where, name) not in _MISSED:
            _MISSED.add((where, name))
            logger.warning(
                "Stopping criterion %r not found in result dict! Available keys are %s. "
                "A trial that never reports it is not ended by it",
                name,
                sorted(map(str, result)),
            )

    # -- checkpoints -------------------------------------------------------------------------

    @property
    def checkpoint_freq(self) -> int:
        """Steps between checkpoints; 0 for none."""
        return self.checkpoint_config.checkpoint_frequency or 0

    @property
    def checkpoint_at_end(self) -> bool:
        """Whether a checkpoint is made at the end."""
        return bool(self.checkpoint_config.checkpoint_at_end)

    @property
    def latest_checkpoint_result(self) -> RecordedCheckpoint | None:
        """The checkpoint to go on from, with its metrics."""
        return self._adopted or self.checkpoints.latest

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The checkpoint to go on from."""
        latest = self.latest_checkpoint_result
        return latest.checkpoint if latest else None

    def has_checkpoint(self) -> bool:
        """Return whether there is a checkpoint to go on from."""
        return self.checkpoint is not None

    def should_checkpoint(self) -> bool:
        """Return whether the last result is one to save at."""
        if self._last_result.get("done") and self.checkpoint_at_end:
            return True
        iteration = self._last_result.get(TRAINING_ITERATION, 0)
        return bool(self.checkpoint_freq and iteration % self.checkpoint_freq == 0)

    def on_checkpoint(self, checkpoint_result: RecordedCheckpoint) -> list[Checkpoint]:
        """Take a checkpoint that came, and return those that need not be kept any more.

        Args:
            checkpoint_result: The checkpoint, and what was reported with it.
        """
        self._adopted = None
        return self.checkpoints.keep(checkpoint_result)

    def on_restore(self) -> None:
        """Note that the trial goes on from its checkpoint; by itself this does nothing."""

    def begin_anew(self) -> None:
        """Forget results and checkpoints: the trial begins without what it has come to so far."""
        self._forget_results()
        self.checkpoints = CheckpointManager(self.checkpoint_config)
        self._adopted = None

    def get_best_checkpoints(self) -> list[tuple[Checkpoint, ResultRow]]:
        """List all checkpoints that were kept, with their metrics, the best last."""
        return self.checkpoints.best_checkpoints

    # -- state -------------------------------------------------------------------------------

    def get_json_state(self) -> tuple[str, str]:
        """Return `record()` and `progress()`, what the trial is and how far it is, as JSON."""
        return to_json(self.record()), to_json(self.progress())

    def record(self) -> Record:
        """Describe what the trial is, for the state file: written once."""
        return {
            "trial_id": self.trial_id,
            "trainable_name": self.trainable_name,
            "dirname": self.dirname,
            "custom_name": self.custom_trial_name,
            "tag": self.experiment_tag,
            "evaluated_params": packed(self.evaluated_params),
            "config": packed(self.config),
            **self._keeping(),
            **({"experiment_number": self.experiment_number} if self.experiment_number else {}),
        }

    def _keeping(self) -> Record:
        """Tell which checkpoints are kept, and when they are made, unless that is as always."""
        config = self.checkpoint_config
        if config == _USUAL_KEEPING:
            return {}
        names = [field.name for field in fields(config) if not field.name.startswith("_")]
        return {"checkpoint_config": {name: getattr(config, name) for name in names}}

    def progress(self) -> Record:
        """Describe how far the trial is: written when it ends, pauses or changes."""
        return {
            "trial_id": self.trial_id,
            "status": self.status,
            "num_failures": self.num_failures,
            "last_result": packed(self._last_result),
            "courses": self.metric_analysis.state()
            if self._courses or self._last_counts
            else None,
        }

    def take_progress(self, state: Mapping[str, Any]) -> None:
        """Take over what `progress` said of the trial.

        Args:
            state: What it has returned.
        """
        _check_text("status", state["status"])
        self.status = state["status"]
        self.num_failures = int(state["num_failures"])
        # its config may hold references that are gone; the trial's own tells of these
        result = unpacked(state["last_result"], self._experiment_storage, self.stub, [])
        self._last_result = {**result, "config": self.config} if "config" in result else result
        courses = state["courses"]
        self._last_counts = courses is not None  # else they are of the last result alone
        self._courses = MetricHistory.of(courses or {})

    @classmethod
    def from_record(
        cls, record: Mapping[str, Any], storage: Storage | None = None, **kwargs: Any
    ) -> Trial:
        """Make the trial that `record` described.

        What is said of its checkpoints now counts; if nothing is, what was said then.

        Args:
            record: What that has returned.
            storage: Where its experiment is kept now.
            kwargs: What else is said of it now, as the constructor takes it.
        """
        if kwargs.get("checkpoint_config") in (None, CheckpointConfig()):
            kept = record.get("checkpoint_config", {})
            kwargs["checkpoint_config"] = CheckpointConfig(**kept)
        looking = kwargs.get("stub", False)
        lost: list[LostReference] = []
        for name in ("trainable_name", "trial_id", "tag", "dirname"):
            _check_text(name, record[name])
        trial = cls(
            record["trainable_name"],
            config=unpacked(record["config"], storage, looking, lost),
            trial_id=record["trial_id"],
            storage=storage,
            evaluated_params=unpacked(record["evaluated_params"], storage, looking, []),
            experiment_tag=record["tag"],
            **kwargs,
        )
        trial.lost_references = lost
        trial.custom_trial_name = record["custom_name"]
        trial._dirname = record["dirname"]
        trial.be_of(record.get("experiment_number", 0))
        return trial

    @classmethod
    def from_json_state(cls, json_state: str, stub: bool = False) -> Trial:
        """Make the trial that the first text of `get_json_state` describes.

        Args:
            json_state: That text.
            stub: Whether the trial is only looked at.
        """
        return cls.from_record(json.loads(json_state), stub=stub)

    @classmethod
    def from_directory(cls, path: str, stub: bool = False) -> Trial:
        """Return the trial whose folder this is.

        Args:
            path: The folder.
            stub: Whether it is there to be looked at only, where what runs is not known.

        Raises:
            ValueError: If the folder has no trial in it.
        """
        from skate.tune.experiment.state_file import trials_of

        storage = Storage.at(os.path.dirname(os.path.abspath(path)))
        name = os.path.basename(os.path.abspath(path))
        for trial in trials_of(storage, stub=stub):
            if trial.dirname == name:
                return trial
        raise ValueError(f"{path!r} is not the folder of a trial")

    def get_trainable_cls(self) -> Any:
        """Return what the trial runs; None for one that was only read from a file."""
        from skate.tune.registry import get_trainable_cls

        return None if self.stub else get_trainable_cls(self.trainable_name)


def _check_text(name: str, value: object) -> None:
    """Raise a TypeError if what a file has in the place of a text is no string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a text; got {value!r}")
