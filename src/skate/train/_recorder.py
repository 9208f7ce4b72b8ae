"""The run's books: what was reported goes to its folder, to loggers and callbacks."""

from __future__ import annotations

import secrets
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skate._run.callbacks import CallbackList
from skate._run.checkpoint import PREPROCESSOR_FILE, Checkpoint
from skate._run.checkpoints import CheckpointManager, Kept, number_of
from skate._run.config import RunConfig
from skate._run.errors import delete_error, write_error
from skate._run.folders import LocalFolder
from skate._run.history import begin_anew, keep_results, results_until
from skate._run.loggers import default_loggers
from skate._run.pickles import signed_pickle
from skate._run.records import (
    CHECKPOINTS_FILE,
    RESULT_FILE,
    checkpoint_line,
    recorded_checkpoints,
    take_back_unrecorded,
)
from skate._run.reporting import Metrics, ResultClock
from skate._run.result import Result
from skate._run.storage import Storage
from skate._run.syncing import sync_tree
from skate._run.uploads import Uploads
from skate._run.values import reached
from skate.train._errors import TrainingFailedError
from skate.train._events import Event
from skate.train._validation import Validator

if TYPE_CHECKING:
    from typing_extensions import Self

TRAINER_FILE = "trainer.pkl"


@dataclass
class Run:
    """A training run as callbacks see it: as the only trial of an experiment."""

    trial_id: str
    name: str
    config: dict[str, Any]
    storage: Storage
    run_config: RunConfig
    last_result: dict[str, Any] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    status: str = "RUNNING"

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
        config: Mapping[str, Any],
        preprocessor: Any = None,
        loggers: Sequence[Any] | None = None,
    ) -> None:
        self.storage = Storage(
            run_config.storage_path,
            name,
            run_config.storage_filesystem,
            run_config.durability,
        )
        self.run = Run(secrets.token_hex(4), name, dict(config), self.storage, run_config)
        self.manager = CheckpointManager(run_config.checkpoint_config)
        self.preprocessor = preprocessor
        self.callbacks = CallbackList(
            [*(default_loggers() if loggers is None else loggers), *(run_config.callbacks or [])]
        )
        self.clock = ResultClock(self.run.trial_id, config)
        self.next_checkpoint = 0  # larger than all numbers in names of checkpoints
        self.validator = Validator(self.storage)
        self._uploads = Uploads(self.storage, lambda: [self.storage])
        self._result: Result | None = None

    def __enter__(self) -> Self:
        try:
            self._take_up()
            stop = self.run.run_config.stop
            self.callbacks.call("setup", stop=stop, num_samples=1, total_num_samples=1)
            self.callbacks.call("before_run", run_context=self.run)
            self.callbacks.call("on_trial_start", *self._here)
        except BaseException:
            self.storage.close()
            raise
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if self._result is None and error is not None:
            self.close(error)

    @property
    def _here(self) -> tuple[int, list[Run], Run]:
        """What all hooks are given."""
        return self.clock.iteration, [self.run], self.run

    def _take_up(self) -> None:
        """A folder with a checkpoint goes on from it; without one it is that of a new run."""
        delete_error(self.storage)
        history = self.storage.lines(RESULT_FILE)
        self._delete_drafts(history)
        for kept in recorded_checkpoints(self.storage, history):
            self._keep(kept)
        if self.manager.latest is None:
            begin_anew(self.storage)
        elif history:
            self.run.trial_id = self.clock.trial_id = history[-1].get(
                "trial_id", self.run.trial_id
            )
        names = [row.get("checkpoint_dir_name") or "" for row in history]
        saved = self.storage.lines(CHECKPOINTS_FILE)
        names += [row["checkpoint_dir_name"] for row in saved if "training_iteration" not in row]
        for name in names:
            self._count(name)
        self.roll_back()
        for kept in self.manager.pending:
            self.validator.ask_again(kept.checkpoint, kept.validation or {})

    def _count(self, name: str) -> None:
        number = number_of(name)
        if number is not None:
            self.next_checkpoint = max(self.next_checkpoint, number + 1)

    def _delete_drafts(self, history: list[dict[str, Any]]) -> None:
        """What processes that died were writing."""
        take_back_unrecorded(self.storage, history)
        self.storage.delete_drafts()

    def _delete_unrecorded(self) -> None:
        """Folders of checkpoints that are complete, perhaps, but were never reported by all."""
        inside = f"{self.storage.path}/"
        paths = [checkpoint.path for checkpoint, _ in self.manager.in_order]
        recorded = {path.removeprefix(inside).partition("/")[0] for path in paths}
        for name in self.storage.names():
            if number_of(name) is not None and name not in recorded:
                self.storage.delete(name)

    def _keep(self, kept: Kept) -> None:
        """Note a checkpoint, and delete those that are not to be kept any longer."""
        self._delete(self.manager.keep(kept))

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
    def positions(self) -> list[dict[str, int]] | None:
        """How far each rank had read the datasets at the last checkpoint."""
        latest = self.manager.latest
        return latest.positions if latest is not None else None

    def record(self, events: Sequence[Event]) -> Checkpoint | None:
        """All ranks have reported: rank 0's metrics count, and the checkpoint of the lowest rank
        that has one. The new checkpoint."""
        first = events[0]
        bearer = next((event for event in events if event.checkpoint_name), None)
        result = None if first.metrics is None else self.clock.fill(first.metrics)
        checkpoint = None if bearer is None else self._checkpoint_of(bearer)
        if bearer is not None and checkpoint is not None:
            positions = [event.positions for event in events]
            name = str(bearer.checkpoint_name)
            line = checkpoint_line(self.storage, name, checkpoint, result, positions)
            self.storage.append(CHECKPOINTS_FILE, line)
            self._put_into_place(bearer)
        if result is not None:
            self._record_result(result, bearer.checkpoint_name if bearer else None)
            self.storage.settle(RESULT_FILE)
        if bearer is not None and checkpoint is not None:
            self._uploads.send()
            self.storage.forget_replaced(name)
            kept = Kept(checkpoint, dict(result or {}), positions)
            if bearer.validation:
                kept.validation = self.validator.ask(checkpoint, bearer.validation, line)
            self._record_checkpoint(kept, name)
        self._uploads.send_if_due()
        self.check()
        self._note_validations()
        reported = [dict(event.metrics or {}) for event in events]
        self.callbacks.call(
            "after_report", run_context=self.run, metrics=reported, checkpoint=checkpoint
        )
        return checkpoint

    def _checkpoint_of(self, bearer: Event) -> Checkpoint:
        """The one that is reported, at its place or at that which it will get."""
        if bearer.checkpoint is not None:
            return bearer.checkpoint
        place = self.storage.checkpoint(str(bearer.checkpoint_name))
        return bearer.checkpoint_class.from_checkpoint(place)

    def _put_into_place(self, bearer: Event) -> None:
        """All ranks have written their parts."""
        if bearer.checkpoint is not None:
            if self.storage.synced and isinstance(bearer.checkpoint._folder, LocalFolder):
                sync_tree(bearer.checkpoint.path)
            return
        name = str(bearer.checkpoint_name)
        draft = self.storage.draft(name)
        if self.preprocessor is not None and not draft.exists(PREPROCESSOR_FILE):
            draft.write(PREPROCESSOR_FILE, signed_pickle(self.preprocessor))
        self.storage.put_into_place(name)

    def _record_checkpoint(self, kept: Kept, name: str) -> None:
        self.next_checkpoint += 1
        self._count(name)
        self.run.checkpoint = kept.checkpoint
        self._keep(kept)
        self.callbacks.call("on_checkpoint", *self._here, kept.checkpoint)
        self.callbacks.call("on_trial_save", *self._here)

    def check(self) -> None:
        """Raise what has gone wrong beside the workers, who may be waiting for it."""
        self.validator.check()

    def _note_validations(self) -> None:
        """Add what validations have brought by now to what is known of their checkpoints."""
        for checkpoint, line in self.validator.outcomes():
            self._delete(self.manager.validated(checkpoint, line))
            if self.run.last_result.get("checkpoint_dir_name") == line["checkpoint_dir_name"]:
                self.run.last_result = {**self.run.last_result, **line.get("metrics", {})}
            if "error" in line:
                warnings.warn(f"validating {checkpoint} has failed: {line['error']}", stacklevel=2)

    def _record_result(self, result: dict[str, Any], name: str | None) -> None:
        """The line of the result says which checkpoint came with it, and makes that count.
        Without one, it may belong to a checkpoint that was saved just before."""
        latest, dismissed = self.manager.latest, []
        if name is None and latest is not None and not latest.metrics:
            name = latest.checkpoint.path.rpartition("/")[2]
            dismissed = self.manager.add_metrics({**result, "checkpoint_dir_name": name})
        if name is not None:
            result["checkpoint_dir_name"] = name
        self.run.last_result = result
        self.callbacks.call("on_trial_result", *self._here, result)
        self._delete(dismissed)

    def roll_back(self) -> None:
        """Workers begin again from the last checkpoint: so does the history."""
        self._uploads.send()
        history = self.storage.lines(RESULT_FILE)
        self._delete_drafts(history)
        self._delete_unrecorded()
        latest = self.manager.latest
        rows = []
        if latest is not None:
            rows = results_until(history, latest.metrics.get("checkpoint_dir_name"))
        keep_results(self.storage, rows)
        self.run.last_result = rows[-1] if rows else {}
        self.clock.go_on_from(self.run.last_result, len(rows))

    def failed(self, failures: dict[int, BaseException], again: bool) -> None:
        self.callbacks.call("after_exception", run_context=self.run, worker_exceptions=failures)
        if again:
            self.callbacks.call("on_trial_recover", *self._here)

    def should_stop(self) -> bool:
        """Whether the last result meets what `RunConfig.stop` asks for."""
        stop, result = self.run.run_config.stop, self.run.last_result
        if stop is None or not result:
            return False
        if isinstance(stop, Mapping):
            return reached(stop, result)
        return bool(stop(self.run.trial_id, result))

    # -- at the end -----------------------------------------------------------------------------

    def close(self, error: BaseException | None = None, value: Any = None) -> Result:
        """Tell everybody, once, that it is over; the result."""
        if self._result is None:
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

    def _as_result(self, error: BaseException | None, value: Any) -> Result:
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
    """A name for a run that was given none."""
    return f"{kind}_{time.strftime('%Y-%m-%d_%H-%M-%S')}_{secrets.token_hex(3)}"
