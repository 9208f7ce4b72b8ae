"""Carries out what the controller wants: lines, files and callbacks, one effect at a time.

What only the usual files of a trial need to know waits until the trial has its answer
(`catch_up`): the trial goes on meanwhile. The order of effects stays, and nothing that is more
than a line of those files is done before what waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from skate._run.append_buffer import AppendBuffer
from skate._run.callbacks import Callback, CallbackList
from skate._run.loggers import LoggerCallback, is_default_logger
from skate._run.loggers.files import FileLoggerCallback
from skate._run.loggers.rolling_back import keep_logged
from skate.tune.error import TuneError, as_tune_error
from skate.tune.execution import effects
from skate.tune.execution.effects import Effect, Outcome, Steps

if TYPE_CHECKING:
    from skate._run.types import ResultRow
    from skate.tune.execution.controller import TuneController
    from skate.tune.execution.notes import ExperimentNotes
    from skate.tune.experiment.state_file import StateLog, StateLogs
    from skate.tune.experiment.trial import Trial


_MAY_WAIT = (effects.BeginTrial, effects.RecordResult, effects.EndTrial)
_HOOKS_THEN = ("on_trial_start", "on_trial_result", "on_trial_complete", "on_trial_error")


class SearchCallbacks(CallbackList):
    """Callbacks of a search: what they raise is a `TuneError`, and of its own type too."""

    def call(self, hook: str, /, *args: Any, **info: object) -> None:
        try:
            super().call(hook, *args, **info)
        except Exception as error:
            if isinstance(error, TuneError):
                raise
            raise as_tune_error(error) from error


class Performer:
    """The hands of a controller.

    Args:
        controller: Whose trials callbacks are shown.
        callbacks: Who is told.
        log: The lines of the experiment.
        results: Collects the lines of the trials' ledgers; `None` if these are not written.
        notes: Who says what goes wrong.
        draws: Entered while the controller decides, as `SeededDraws`.
    """

    def __init__(
        self,
        controller: TuneController,
        callbacks: Sequence[object],
        log: StateLog | StateLogs,
        results: AppendBuffer | None = None,
        notes: ExperimentNotes | None = None,
        draws: AbstractContextManager[None] | None = None,
    ) -> None:
        self._controller = controller
        self._callbacks = SearchCallbacks(callbacks)
        self._loggers = SearchCallbacks(c for c in callbacks if is_default_logger(c))
        self._others = SearchCallbacks(c for c in callbacks if not is_default_logger(c))
        self._at_begin = SearchCallbacks(c for c in callbacks if _has_own(c, "on_step_begin"))
        at_end = [c for c in callbacks if _has_own(c, "on_step_end")]
        self._at_end = SearchCallbacks(c for c in at_end if not is_default_logger(c))
        self._buffers = [c for c in at_end if isinstance(c, FileLoggerCallback)]
        self._log = log
        self._results = results
        self._notes = notes
        self._draws = draws
        self._waiting: list[Effect] | None = None if _others_listen(callbacks) else []

    @property
    def may_ask_for_checkpoints(self) -> bool:
        """Whether a callback sees results while their trials wait: it may set `should_checkpoint`
        in them."""
        usual = (Callback.on_trial_result, LoggerCallback.on_trial_result)
        return any(type(c).on_trial_result not in usual for c in self._callbacks.callbacks)

    def run(self, steps: Steps[Outcome]) -> Outcome:
        """Carry out effects as they come; return what has come of them."""
        while True:
            try:
                effect = self._next(steps)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            self.perform(effect)

    def _next(self, steps: Steps[Outcome]) -> Effect:
        if self._draws is None:
            return next(steps)
        with self._draws:
            return next(steps)

    def perform(self, effect: Effect) -> None:
        """Carry out one effect, or have it wait for `catch_up` if it may."""
        if self._waiting is not None:
            if isinstance(effect, _MAY_WAIT):
                self._waiting.append(effect)
                return
            if not isinstance(effect, effects.AddTrials):
                self.catch_up()
        self._perform(effect)

    def catch_up(self) -> None:
        """Carry out what waits."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for effect in waiting:
                self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case effects.RecordResult(trial, result):
                self._record_result(trial, result)
            case effects.RecordCheckpoint():
                self._record_checkpoint(effect)
            case effects.TellCallbacks(hook, trial, info):
                self._tell(hook, trial, **info)
            case effects.AddTrials(trials):
                self._log.trials(trials)
            case effects.BeginTrial(trial):
                if self._results is not None:
                    trial.ledger.open(self._results, trial.local_path)
                self._tell("on_trial_start", trial)
            case effects.EndTrial(trial, hook):
                self._tell(hook, trial)
                trial.ledger.close()
                self._log.progress(trial)
                trial.close_storage()
                trial.settle()
                if self._notes is not None:
                    self._notes.ended(trial)
            case effects.CopyCheckpoint(trial, source, name):
                trial.storage.persist(source, name)
            case effects.ChangeConfig(trial):
                self._log.config(trial)
            case effects.RecordError(trial, error):
                trial.write_error(error)
                if self._notes is not None:
                    self._notes.failed(trial, error)
            case effects.RollBack(trial):
                roll_back(trial)

    def _record_result(self, trial: Trial, result: ResultRow) -> None:
        """Write a result down as callbacks leave it: they may add to it."""
        hook = "on_trial_result"
        self._tell(hook, trial, self._others, result=result)
        trial.ledger.add_result(result)
        if self._notes is not None:
            self._notes.reported(trial, result)
        self._tell(hook, trial, self._loggers, result=result)

    def _record_checkpoint(self, effect: effects.RecordCheckpoint) -> None:
        """Write down a checkpoint once its result is on record: a trial that goes on from here
        does not report it again."""
        trial, checkpoint = effect.trial, effect.recorded.checkpoint
        self._tell("on_trial_save", trial)
        trial.ledger.settle()
        self._log.checkpoint(trial, effect.recorded)
        for old in effect.replaced:
            trial.storage.delete(old.path[len(trial.path) :].lstrip("/").partition("/")[0])
        self._tell("on_checkpoint", trial, checkpoint=checkpoint)

    # -- beside the trials ---------------------------------------------------------------------

    def begin_step(self) -> None:
        """Tell callbacks that the runner begins a step: one event of one trial, or none."""
        self._step(self._at_begin, "on_step_begin")

    def end_step(self) -> None:
        """Tell callbacks that the runner has done a step, and has counted it."""
        self._step(self._at_end, "on_step_end")

    def flush_if_due(self) -> None:
        """Write what results have waited for in memory, if it is time."""
        if self._results is not None:
            self._results.flush_if_due()
        for logger in self._buffers:
            logger.flush_if_due()

    def end_experiment(self) -> None:
        """Write what is left and tell callbacks that all is over, also where it was
        interrupted."""
        self.catch_up()
        if self._results is not None:
            self._results.flush()
        self._log.flush()
        self._callbacks.call("on_experiment_end", trials=self._controller.get_trials())

    def _step(self, callbacks: CallbackList, hook: str) -> None:
        controller = self._controller
        if callbacks.callbacks:
            callbacks.call(hook, iteration=controller.iteration, trials=controller.trials)

    def _tell(
        self, hook: str, trial: Trial, those: CallbackList | None = None, /, **info: object
    ) -> None:
        # the list itself, not a copy: there are many results, and there may be many trials
        trials, iteration = self._controller.trials, self._controller.iteration
        told = self._callbacks if those is None else those
        told.call(hook, iteration=iteration, trials=trials, trial=trial, **info)


def _others_listen(callbacks: Sequence[object]) -> bool:
    """Return whether somebody but the usual loggers hears of results before the trial goes on."""
    others = [callback for callback in callbacks if not is_default_logger(callback)]
    return any(_has_own(callback, hook) for callback in others for hook in _HOOKS_THEN)


def _has_own(callback: object, hook: str) -> bool:
    """Return whether a callback does something at a hook."""
    return getattr(type(callback), hook) is not getattr(Callback, hook)


def roll_back(trial: Trial) -> None:
    """Take back what it reported after the checkpoint that it goes on from; all of it, if there
    is none. What loggers have is written by now."""
    trial.storage.sync()
    rows = trial.ledger.results()
    recorded = trial.latest_checkpoint_result
    if recorded is not None and not rows:  # nobody writes them down
        return
    remaining = rows[: recorded.results] if recorded is not None else []
    if len(remaining) < len(rows):
        keep_logged(trial.storage, remaining)
        trial.ledger.keep_results(remaining)
    trial.take_history(remaining)
