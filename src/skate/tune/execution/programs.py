"""What a trial's thread does: call a function, or step a class."""

from __future__ import annotations

import contextlib
import copy
import inspect
import tempfile
from typing import Any

from skate._run.checkpoint import Checkpoint
from skate._run.folders import scratch_dir
from skate._run.session import activated, report
from skate._run.types import Config, ResultRow
from skate._run.values import reached
from skate.tune.error import TuneError
from skate.tune.execution.channel import Channel, Halted
from skate.tune.execution.events import TrialVerdict
from skate.tune.execution.session import Outbox, TrialSession, TrialTask
from skate.tune.result import DONE, SHOULD_CHECKPOINT, TRIAL_INFO
from skate.tune.trainable._calls import StatusReporter, arguments_for, metrics_of
from skate.tune.trainable.trainable import Trainable


def is_class(trainable: object) -> bool:
    """Return whether a trainable is a class, which is stepped, and not a function."""
    return inspect.isclass(trainable) and issubclass(trainable, Trainable)


def run_function(function: Any, task: TrialTask, channel: Channel) -> None:
    """Call it; what it returns or yields is reported too."""
    session = TrialSession(task, channel)
    reporter = StatusReporter(task.info)
    args, kwargs = arguments_for(function, copy_of(task.config), task.checkpoint, reporter)
    with activated(session), contextlib.closing(session):
        returned = function(*args, **kwargs)
        if inspect.isgenerator(returned):
            for item in returned:
                report(metrics_of(item) or {})
            returned = None
        last = metrics_of(returned)
        if last is not None:
            report(last)
        session.finish()


class ClassProgram:
    """Step an instance until it is done or halted."""

    def __init__(self, cls: type[Trainable], task: TrialTask, channel: Channel, old: Any) -> None:
        self._task = task
        self._outbox = Outbox(task, channel)
        self._channel = channel
        self._cls = cls
        reused = task.reuse_instance and old is not None
        if reused:
            self._reset(old)
        elif old is not None:
            old.stop()
        self.instance: Any = old if reused else self._new()

    def _reset(self, old: Trainable) -> None:
        """Make the instance of the trial before that of this one, or end it."""
        was_reset = False
        try:
            was_reset = old.reset(self._config, self._task.info.storage)
        finally:
            if not was_reset:
                old.stop()
        if not was_reset:
            raise TuneError(
                f"reuse_actors=True needs a {self._cls.__name__} whose reset_config(new_config) "
                "makes it that of the next trial and returns True; this one did not: implement "
                "it, or leave reuse_actors out"
            )

    @property
    def _config(self) -> dict[str, object]:
        return {**copy_of(self._task.config), TRIAL_INFO: self._task.info}

    def _new(self) -> Trainable:
        return self._cls(self._config, self._task.info.storage)

    def run(self) -> None:
        if self._task.checkpoint is not None:
            self._task.checkpoint._note_foreign()
            self._restore(self._task.restore_retries)
        done = False
        while not done:
            result = self.instance.train()
            done = bool(result.get(DONE)) or reached(self._task.stopping_criterion, result)
            name = self._save() if self._is_due(result, done) else None
            if name is not None:
                result["checkpoint_dir_name"] = name
            self._obey(self._outbox.result(result, name), name)
        self._export()

    def _restore(self, retries: int) -> None:
        """Load the checkpoint, again after an error: its place may be out of reach for a
        moment."""
        try:
            self.instance.restore(self._task.checkpoint)
        except Exception:
            if not retries:
                raise
            self.instance.stop()
            self.instance = self._new()
            self._restore(retries - 1)

    def _is_due(self, result: ResultRow, done: bool) -> bool:
        every = self._task.checkpoint_config.checkpoint_frequency
        if every and self.instance.iteration % every == 0:
            return True
        return bool(result.get(SHOULD_CHECKPOINT)) or bool(
            done and self._task.checkpoint_config.checkpoint_at_end
        )

    def _save(self) -> str:
        """Save a checkpoint in the trial's folder, and return its name."""
        name = self._outbox.new_name()
        storage = self._outbox.storage
        if storage.is_local:
            storage.delete(name)
            self.instance.save(storage.new_draft(name).path)
            storage.finish(name)
        else:
            with tempfile.TemporaryDirectory(prefix="checkpoint_", dir=scratch_dir()) as folder:
                saved = Checkpoint(self.instance.save(folder))
                storage.persist(saved, name, written_since=self._outbox.began)
        return name

    def _obey(self, verdict: TrialVerdict, saved: str | None) -> None:
        while verdict is TrialVerdict.SAVE:
            saved = saved or self._save()
            verdict = self._outbox.saved(saved, wait=True)
        if verdict.halts:
            self._channel.leaving = True
            if verdict is TrialVerdict.HALT_AND_SAVE and saved is None:
                self._outbox.saved(self._save(), wait=False)
            self._export()
            raise Halted(0)

    def _export(self) -> None:
        if self._task.export_formats:
            self.instance.export_model(list(self._task.export_formats))


def copy_of(config: Config) -> dict[str, Any]:
    """Copy a configuration, because a trial may change it; what cannot be copied is shared."""
    try:
        return copy.deepcopy(config)
    except Exception:
        return dict(config)
