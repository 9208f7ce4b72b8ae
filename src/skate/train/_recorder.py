"""Records what all workers have reported: in the ledger of the run, with loggers and callbacks."""

from __future__ import annotations

import secrets
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from skate._core.live_rows import announce
from skate._run.callbacks import CallbackList
from skate._run.checkpoint import PREPROCESSOR_FILE, Checkpoint
from skate._run.checkpoint_manager import CheckpointManager, RecordedCheckpoint, number_of
from skate._run.config import RunConfig
from skate._run.environment_callbacks import callbacks_for_training
from skate._run.errors import delete_error, write_error
from skate._run.folders import LocalFolder
from skate._run.ledger import Ledger, Line, NewCheckpoint, results_until
from skate._run.loggers import default_loggers
from skate._run.loggers.rolling_back import delete_logged, keep_logged
from skate._run.pickles import signed_pickle
from skate._run.reporting import Metrics, ResultClock
from skate._run.result import Result
from skate._run.storage import Storage, write_into
from skate._run.syncing import sync_tree
from skate._run.types import Config, Positions, ResultRow
from skate._run.uploads import Uploads
from skate._run.validation import ValidationTaskConfig
from skate._run.values import reached
from skate.train._errors import TrainingFailedError
from skate.train._validation import Validator
from skate.train._workers.events import Event
from skate.train._workers.staging import ReportQueue

if TYPE_CHECKING:
    from typing_extensions import Self

    from skate._run.scaling_config import ScalingConfig
    from skate.data.preprocessor import Preprocessor
    from skate.train._data import DataConfig
    from skate.train.backend import BackendConfig

TRAINER_FILE = "trainer.pkl"


@dataclass(eq=False)  # callbacks keep what they know of a run under it
class TrainingRun:
    """A training run as callbacks and loggers see it: as the only trial of an experiment."""

    trial_id: str
    name: str
    config: Config
    storage: Storage
    ledger: Ledger
    run_config: RunConfig
    last_result: ResultRow = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    status: str = "RUNNING"
    scaling_config: ScalingConfig | None = None  # these are None where a trainer has none
    backend_config: BackendConfig | None = None
    dataset_config: DataConfig | None = None

    @property
    def run_id(self) -> str:
        return self.trial_id

    def get_run_config(self) -> RunConfig:
        """Return the trainer's, with the name that the run was given if it has none."""
        return self.run_config

    @property
    def train_loop_config(self) -> Config:
        return self.config

    @property
    def local_path(self) -> str:
        return self.storage.local_path

    logdir = local_dir = local_path

    @property
    def path(self) -> str:
        return self.storage.path

    @property
    def evaluated_params(self) -> dict[str, Any]:
        return self.config

    @property
    def experiment_dir_name(self) -> str:
        return self.name

    trainable_name = property(lambda self: self.name)

    def __str__(self) -> str:
        return self.name


def live_rows_of(run: TrainingRun) -> list[dict[str, object]]:
    """Return a row, for those who look in from outside."""
    path = run.path if run.storage.is_local else None
    return [{"name": run.name, "kind": "training", "path": path, "state": run.status}]


class Recorder:
    """Takes up where the folder left off, if there was a run in it.

        with Recorder(…) as recorder:
            recorder.record(events)
            result = recorder.close()

    What ends the block before `close` is recorded as the run's error.
    """

    def __init__(
        self,
        name: str,
        run_config: RunConfig,
        config: Mapping[str, object],
        preprocessor: Preprocessor | None = None,
        loggers: Sequence[object] | None = None,
    ) -> None:
        self.storage = Storage(
            run_config.storage_path,
            name,
            run_config.storage_filesystem,
            run_config.durability,
        )
        self.ledger = Ledger(self.storage)
        named = run_config if run_config.name else replace(run_config, name=name)
        self.run = TrainingRun(
            secrets.token_hex(4), name, dict(config), self.storage, self.ledger, named
        )
        self.manager = CheckpointManager(run_config.checkpoint_config)
        self.preprocessor = preprocessor
        self.metadata: Mapping[str, object] = {}  # noted with each checkpoint
        self.callbacks = CallbackList(
            [
                *(default_loggers() if loggers is None else loggers),
                *(run_config.callbacks or []),
                *callbacks_for_training(),
            ]
        )
        self.clock = ResultClock(self.run.trial_id, config)
        self.next_checkpoint = 0  # larger than all numbers in names of checkpoints
        self.validator = Validator(self.ledger)
        self._queue = ReportQueue(self.storage)
        self._uploads = Uploads(self.storage, lambda: [self.storage])
        self._result: Result | None = None
        remains = {**live_rows_of(self.run)[0], "state": "ENDED"}
        announce("runs", self.run, live_rows_of, remains=remains)

    def __enter__(self) -> Self:
        try:
            self._take_up()
            self.ledger.open()
            stop = self.run.run_config.stop
            self.callbacks.call("setup", stop=stop, num_samples=1, total_num_samples=1)
            self.callbacks.call("before_run", run_context=self.run)
            self.callbacks.call("on_trial_start", *self._here)
        except BaseException:
            self.storage.close()
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._result is None and error is not None:
            self.close(error)

    @property
    def _here(self) -> tuple[int, list[TrainingRun], TrainingRun]:
        """Arguments common to all hooks of callbacks."""
        return self.clock.iteration, [self.run], self.run

    def _take_up(self) -> None:
        """Go on from the folder's last checkpoint; without one it is that of a new run."""
        delete_error(self.storage)
        history = self.ledger.results()
        self.ledger.delete_unfinished(history)
        for recorded in self.ledger.checkpoints(history):
            self._keep(recorded)
        if self.manager.latest is None:
            delete_logged(self.storage)
            self.ledger.begin_anew()
        elif history:
            self.run.trial_id = self.clock.trial_id = history[-1].get(
                "trial_id", self.run.trial_id
            )
        self.next_checkpoint = self.ledger.next_number(history)
        self.roll_back()
        for recorded in self.manager.pending:
            self.validator.ask_again(recorded.checkpoint, recorded.validation or {})

    def _delete_unrecorded(self) -> None:
        """Delete folders of checkpoints that are complete, perhaps, but were never reported by
        all."""
        inside = f"{self.storage.path}/"
        paths = [checkpoint.path for checkpoint, _ in self.manager.in_order]
        recorded = {path.removeprefix(inside).partition("/")[0] for path in paths}
        for name in self.storage.names():
            if number_of(name) is not None and name not in recorded:
                self.storage.delete(name)

    def _keep(self, recorded: RecordedCheckpoint) -> None:
        """Note a checkpoint, and delete those that are not to be kept any longer."""
        self._delete(self.manager.keep(recorded))

    def _delete(self, checkpoints: Sequence[Checkpoint]) -> None:
        for dismissed in checkpoints:
            folder, _, name = dismissed.path.rpartition("/")
            if folder == self.storage.path:
                self.storage.delete(name)

    # -- while it runs --------------------------------------------------------------------------

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The last one that is complete and recorded."""
        latest = self.manager.latest
        return latest.checkpoint if latest is not None else None

    @property
    def positions(self) -> list[Positions] | None:
        """How far each rank had read the datasets at the last checkpoint."""
        latest = self.manager.latest
        return latest.positions if latest is not None else None

    def record(self, events: Sequence[Event]) -> Checkpoint | None:
        """Record what all ranks have reported: rank 0's metrics count, and the checkpoint of the
        lowest rank that has one. Return the new checkpoint, if it is written by now; a rank that
        wants its part to be written at once has all of them wait for that."""
        metrics = events[0].metrics
        result = None if metrics is None else self.clock.fill(metrics)
        name = next((event.checkpoint_name for event in events if event.checkpoint_name), None)
        if name is not None:
            self.next_checkpoint = max(self.next_checkpoint, number_of(name) or 0) + 1
        self._queue.add(events, result)
        return self._record_written(wait=any(event.at_once for event in events))

    @property
    def pending(self) -> str | None:
        """The name of the last checkpoint that was reported, if it is not written yet."""
        return self._queue.last_name()

    def _record_written(self, wait: bool = False) -> Checkpoint | None:
        """Record what has been reported up to the first checkpoint that is not written yet; the
        last checkpoint of it."""
        latest = None
        for report in self._queue.ready(wait):
            latest = self._record(report.events, report.result) or latest
        return latest

    def _record(self, events: Sequence[Event], result: ResultRow | None) -> Checkpoint | None:
        source = next((event for event in events if event.checkpoint_name), None)
        new = None if source is None else self._new_checkpoint(source, events)
        dismissed = [] if result is None else self._name_checkpoint_of(result, new)
        line = self.ledger.record(result, new)
        if result is not None:
            self.run.last_result = result
            self.callbacks.call("on_trial_result", *self._here, result)
            self._delete(dismissed)
        if source is not None and new is not None and line is not None:
            self._uploads.send()
            self._note_checkpoint(new, dict(result or {}), source.validation, line)
        self._uploads.send_if_due()
        self.validator.check()
        self._note_validations()
        checkpoint = None if new is None else new.checkpoint
        reported = [dict(event.metrics or {}) for event in events]
        self.callbacks.call(
            "after_report", run_context=self.run, metrics=reported, checkpoint=checkpoint
        )
        return checkpoint

    def _new_checkpoint(self, source: Event, events: Sequence[Event]) -> NewCheckpoint:
        """Describe the checkpoint that is reported, at its place or at that which it will get."""
        name = str(source.checkpoint_name)
        checkpoint = source.checkpoint or source.checkpoint_class.from_checkpoint(
            self.storage.checkpoint(name)
        )
        positions = [event.positions for event in events]
        return NewCheckpoint(
            name, checkpoint, lambda: self._put_into_place(source, events), positions
        )

    def _name_checkpoint_of(
        self, result: ResultRow, new: NewCheckpoint | None
    ) -> list[Checkpoint]:
        """Say in a result which checkpoint came with it. Without one, it may belong to one that
        was saved just before; those to be deleted then."""
        if new is not None:
            result["checkpoint_dir_name"] = new.name
            return []
        latest = self.manager.latest
        if latest is None or latest.metrics:
            return []
        result["checkpoint_dir_name"] = latest.checkpoint.path.rpartition("/")[2]
        return self.manager.add_metrics(result)

    def _put_into_place(self, source: Event, events: Sequence[Event]) -> None:
        """Give the checkpoint its place, when all ranks have written their parts, and some of them
        perhaps at the place itself."""
        in_place = self._written_in_place(source, events)
        if source.checkpoint is not None and in_place is None:
            if self.storage.synced and isinstance(source.checkpoint._folder, LocalFolder):
                sync_tree(source.checkpoint.path)
            return
        name = str(source.checkpoint_name)
        draft = self.storage.draft(name)
        if in_place is not None:
            write_into(draft, in_place)
        if self.preprocessor is not None and not draft.exists(PREPROCESSOR_FILE):
            draft.write(PREPROCESSOR_FILE, signed_pickle(self.preprocessor))
        if self.metadata:
            noted = Checkpoint(draft.path, draft.filesystem)
            noted.set_metadata({**self.metadata, **noted.get_metadata()})
        self.storage.put_into_place(name)

    def _written_in_place(self, source: Event, events: Sequence[Event]) -> Checkpoint | None:
        """Find what some ranks wrote where the draft of others goes, which would take its
        place."""
        drafted = any(e.checkpoint_name and e.checkpoint is None and not e.held for e in events)
        if not drafted or not self.storage.is_local:
            return None
        place = self.storage.checkpoint(str(source.checkpoint_name)).path
        found = (event.checkpoint for event in events if event.checkpoint is not None)
        return next((checkpoint for checkpoint in found if checkpoint.path == place), None)

    def _note_checkpoint(
        self,
        new: NewCheckpoint,
        metrics: ResultRow,
        validation: bool | ValidationTaskConfig,
        line: Line,
    ) -> None:
        """Let a new checkpoint count: have it validated if that was asked for, and tell
        callbacks."""
        recorded = RecordedCheckpoint(new.checkpoint, metrics, new.positions)
        if validation:
            recorded.validation = self.validator.ask(new.checkpoint, validation, line)
        self.run.checkpoint = new.checkpoint
        self._keep(recorded)
        self.callbacks.call("on_checkpoint", *self._here, new.checkpoint)
        self.callbacks.call("on_trial_save", *self._here)

    def check(self) -> None:
        """Raise what has gone wrong beside the workers, who may be waiting for it."""
        self.validator.check()
        self._record_written()

    def _note_validations(self) -> None:
        """Add what validations have brought by now to what is known of their checkpoints."""
        for checkpoint, line in self.validator.outcomes():
            self._delete(self.manager.validated(checkpoint, line))
            if self.run.last_result.get("checkpoint_dir_name") == line["checkpoint_dir_name"]:
                self.run.last_result = {**self.run.last_result, **line.get("metrics", {})}
            if "error" in line:
                warnings.warn(f"validating {checkpoint} has failed: {line['error']}", stacklevel=2)

    def roll_back(self) -> None:
        """Cut the history back to the last checkpoint, from which workers begin again."""
        try:
            self._record_written(wait=True)
        except Exception as error:
            warnings.warn(f"a checkpoint could not be written: {error!r}", stacklevel=2)
        self._uploads.send()
        history = self.ledger.results()
        self.ledger.delete_unfinished(history)
        self._delete_unrecorded()
        latest = self.manager.latest
        rows = []
        if latest is not None:
            rows = results_until(history, latest.metrics.get("checkpoint_dir_name"))
        keep_logged(self.storage, rows)
        self.ledger.keep_results(rows)
        self.run.last_result = rows[-1] if rows else {}
        self.clock.go_on_from(self.run.last_result, len(rows))

    def delete_unfinished(self) -> None:
        """Delete what workers have written of a checkpoint that is to be reported again."""
        self._record_written(wait=True)
        self.ledger.delete_unfinished(self.ledger.results())

    def failed(self, failures: dict[int, BaseException], again: bool) -> None:
        self.callbacks.call("after_exception", run_context=self.run, worker_exceptions=failures)
        if again:
            self.callbacks.call("on_trial_recover", *self._here)

    def should_stop(self) -> bool:
        """Return whether the last result meets what `RunConfig.stop` asks for."""
        stop, result = self.run.run_config.stop, self.run.last_result
        if stop is None or not result:
            return False
        if isinstance(stop, Mapping):
            return reached(stop, result)
        return bool(stop(self.run.trial_id, result))

    # -- at the end -----------------------------------------------------------------------------

    def close(self, error: BaseException | None = None, value: object = None) -> Result:
        """Tell everybody, once, that it is over; the result."""
        if self._result is None:
            if error is None:
                self._record_written(wait=True)
            self.validator.finish() if error is None else self.validator.abort()
            self._note_validations()
            self._result = self._as_result(error, value)
            try:
                self._say_goodbye(error)
            finally:
                self.storage.close()
        return self._result

    def _say_goodbye(self, error: BaseException | None) -> None:
        self.run.status = "TERMINATED" if error is None else "ERROR"
        if error is not None:
            write_error(self.storage.folder, error, TrainingFailedError)
        hook = "on_trial_complete" if error is None else "on_trial_error"
        self.callbacks.call(hook, *self._here)
        self.callbacks.call("on_experiment_end", [self.run])
        self.callbacks.call("after_run", run_context=self.run, result=self._result)

    def _as_result(self, error: BaseException | None, value: object) -> Result:
        last = self.run.last_result
        return Result(
            metrics=Metrics(last, config=self.run.config) if last else None,
            checkpoint=self.checkpoint,
            error=error,
            path=self.storage.path,
            best_checkpoints=[(c, Metrics(m)) for c, m in self.manager.best_checkpoints],
            _storage_filesystem=None if self.storage.is_local else self.storage.filesystem,
            return_value=value,
        )


def new_name(kind: str) -> str:
    """Make a name for a run that was given none."""
    return f"{kind}_{time.strftime('%Y-%m-%d_%H-%M-%S')}_{secrets.token_hex(3)}"
