"""Carries out what the controller decides: starts trials, waits for what they send, answers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from skate._core.live_rows import announce
from skate._run.context import SessionInfo
from skate._run.reporting import AUTOMATIC, totals_in
from skate._run.values import flatten
from skate.tune.error import TrialTimeoutError
from skate.tune.execution.calls import Calls, CallsInStep
from skate.tune.execution.events import (
    Began,
    Ended,
    Reported,
    Saved,
    TrialEvent,
    TrialVerdict,
)
from skate.tune.execution.messages import packed_task
from skate.tune.execution.session import CLEANUP_SECONDS, TrialTask

if TYPE_CHECKING:
    from skate.tune.execution.controller import TuneController
    from skate.tune.execution.performer import Performer
    from skate.tune.execution.pool import PooledWorker, WorkerPool
    from skate.tune.experiment.trial import Trial
    from skate.tune.schedulers.trial_scheduler import DecisionTimes

_PATIENCE_SECONDS = 1.0  # between looks at the clock while nothing comes
_NOTHING_TO_DO_SECONDS = 0.01


class Runner:
    """One call per busy worker is under way at any time; its answer is the next event."""

    def __init__(
        self,
        controller: TuneController,
        performer: Performer,
        pool: WorkerPool,
        *,
        waits_always: bool,
        reuse_instances: bool = False,
        chdir: bool = False,
        in_step: bool = False,
        trial_timeout: float | None = None,
        on_tick: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._controller = controller
        self._performer = performer
        self._pool = pool
        self._waits_always = waits_always
        self._reuse_instances = reuse_instances
        self._chdir = chdir
        self._on_tick = on_tick
        self._trial_timeout = trial_timeout
        self._calls = CallsInStep() if in_step else Calls()
        self._halting: set[str] = set()
        announce("trials", controller, live_rows_of)

    def run(self) -> None:
        """Run steps until the experiment is finished, then end all workers."""
        try:
            while not self._controller.is_finished or self._calls:
                self._step()
        finally:
            self._pool.close()

    def _step(self) -> None:
        self._performer.begin_step()
        self._performer.run(self._controller.check_stopper())
        for trial in self._controller.trials_to_halt():
            self._halting.add(trial.trial_id)
        started = self._calls.may_start and self._start_trials()
        if self._calls:
            for worker, outcome in self._calls.answered(_PATIENCE_SECONDS):
                self._handle(worker, *outcome)
            self._performer.catch_up()
            self._end_silent_trials()
        elif not started and not self._controller.is_finished:
            time.sleep(_NOTHING_TO_DO_SECONDS)  # a searcher has nothing to suggest right now
        self._pool.retire_idle(_PATIENCE_SECONDS)
        self._controller.iteration += 1
        self._performer.end_step()
        for call in self._on_tick:
            call()

    # -- starting ----------------------------------------------------------------------------

    def _start_trials(self) -> bool:
        started = False
        while (trial := self._next_trial()) is not None:
            if not self._begin(trial):
                break
            self._controller.start(trial)
            self._begin_another_step()
            started = True
        return started

    def _next_trial(self, leaving: int = 0) -> Trial | None:
        return self._performer.run(self._controller.next_trial_to_start(leaving))

    def _begin(self, trial: Trial) -> bool:
        worker = self._pool.take(trial)
        if worker is not None:
            # A process that was used may have died since. Whether a trial has begun there is to
            # be known: from its folder if that is new, else because it begins in two steps.
            worker.in_two_steps = worker.used and not self._is_new(trial)
            task = packed_task(self._task(trial))
            self._call(worker, worker.actor.begin.remote(task, not worker.in_two_steps))
        return worker is not None

    def _is_new(self, trial: Trial) -> bool:
        return trial.ledger.is_new()

    def _pass_on(self, worker: PooledWorker, trial: Trial) -> bool:
        """Tell a trial to leave, and begin the next one with the same call, if there is one."""
        if trial.export_formats:
            return False
        following = self._next_trial(leaving=1)
        if following is None or not self._is_new(following):
            return False
        if not self._pool.pass_on(worker, following):
            return False
        self._call(worker, worker.actor.hand_over.remote(packed_task(self._task(following))))
        self._controller.start(following)
        return True

    def _task(self, trial: Trial) -> TrialTask:
        latest = trial.latest_checkpoint_result
        metrics = latest.metrics if latest else {}
        folder = trial.path if trial.storage.is_local else trial.local_path
        return TrialTask(
            info=SessionInfo(
                experiment_name=trial.experiment_dir_name,
                trial_name=str(trial),
                trial_id=trial.trial_id,
                trial_dir=folder,
                trial_resources=trial.placement_group_factory,
                storage=trial.storage,
            ),
            config=trial.config,
            stopping_criterion=trial.stopping_criterion,
            checkpoint_config=trial.checkpoint_config,
            checkpoint=latest.checkpoint if latest else None,
            iteration=metrics.get("training_iteration", 0),
            seconds=metrics.get("time_total_s", 0.0) or 0.0,
            totals=totals_in(metrics),
            next_checkpoint=trial.next_checkpoint,
            waits_at=self._waits_at(trial),
            log_files=trial.log_to_file or None,
            working_directory=os.path.abspath(folder) if self._chdir else None,
            export_formats=tuple(trial.export_formats),
            reuse_instance=self._reuse_instances,
            restore_retries=int(os.environ.get("TUNE_RESTORE_RETRY_NUM") or 0),  # as with Ray
            cleanup_seconds=float(os.environ.get("TUNE_FORCE_TRIAL_CLEANUP_S") or CLEANUP_SECONDS),
        )

    def _waits_at(self, trial: Trial) -> DecisionTimes | None:
        return None if self._waits_always else self._controller.scheduler.decision_times(trial)

    def _call(self, worker: PooledWorker, ref: Any) -> None:
        self._calls.add(worker, ref)

    # -- what trials send --------------------------------------------------------------------

    def _handle(
        self, worker: PooledWorker, events: Sequence[TrialEvent], error: Exception | None
    ) -> None:
        verdict = TrialVerdict.GO_ON
        for number, event in enumerate(events):
            if number:
                self._begin_another_step()
            if isinstance(event, Ended):
                self._release(worker, usable=not event.stuck)
                verdict = TrialVerdict.GO_ON
            elif verdict is TrialVerdict.GO_ON:
                verdict = self._tell(worker, event)
        if events:
            worker.heard = time.monotonic()
        if error is not None:
            self._on_error(worker, error)
        elif worker.trial is not None:
            self._answer(worker, worker.trial, verdict)

    def _begin_another_step(self) -> None:
        """Count a step in between: several trials start, or several events came, at once, and to
        those who count them, each is a step."""
        self._controller.iteration += 1
        self._performer.end_step()
        self._performer.begin_step()

    def _tell(self, worker: PooledWorker, event: Began | Reported | Saved) -> TrialVerdict:
        """Tell the controller; what the trial is told."""
        if isinstance(event, Began):
            worker.used = False
        trial = worker.leaving or worker.trial
        assert trial is not None
        return self._performer.run(self._controller.on_event(trial, event))

    def _answer(self, worker: PooledWorker, trial: Trial, verdict: TrialVerdict) -> None:
        if verdict is TrialVerdict.GO_ON and trial.trial_id in self._halting:
            verdict = TrialVerdict.HALT
        if verdict is TrialVerdict.HALT and self._pass_on(worker, trial):
            return
        self._call(worker, worker.actor.exchange.remote(verdict.value))

    def _release(self, worker: PooledWorker, usable: bool) -> None:
        """Free the worker that a trial has left; begin anew the one that was to follow it there,
        if the worker cannot be used."""
        trial, following = worker.leaving or worker.trial, worker.leaving and worker.trial
        assert trial is not None
        worker.leaving = None
        self._halting.discard(trial.trial_id)
        if not usable:
            self._pool.drop(worker)
        elif following is None:
            self._pool.give_back(worker)
        self._performer.run(self._controller.on_released(trial))
        if not usable and following is not None:
            self._begin(following)

    def _end_silent_trials(self) -> None:
        """Let trials fail that say nothing for too long; those that wait for others have not begun
        to be silent."""
        if self._trial_timeout is None:
            return
        before = time.monotonic() - self._trial_timeout
        for worker in self._calls.workers():
            if worker.heard is not None and worker.heard < before:
                self._calls.drop(worker)
                self._on_error(worker, TrialTimeoutError(str(worker.trial), self._trial_timeout))

    def _on_error(self, worker: PooledWorker, error: Exception) -> None:
        """End the worker, which what failed may have left in any state, and see to its trials."""
        trial, leaving = worker.trial, worker.leaving
        used, steps = worker.used, worker.in_two_steps
        assert trial is not None
        self._pool.drop(worker)
        if leaving is not None:
            self._halting.discard(leaving.trial_id)
            self._performer.run(self._controller.on_failure(leaving, error))
        if used and (steps or self._is_new(trial)):  # it died before this trial came
            self._begin(trial)
            return
        self._halting.discard(trial.trial_id)
        self._performer.run(self._controller.on_failure(trial, error))


def live_rows_of(controller: TuneController) -> list[dict[str, Any]]:
    """Return a row per trial, for those who look in from outside."""
    return [
        {
            "experiment": trial.experiment_dir_name,
            "trial": trial.trial_id,
            "state": trial.status,
            **{
                name: value
                for name, value in flatten(trial.last_result)
                if name not in AUTOMATIC and isinstance(value, (int, float))
            },
            "iterations": trial.last_result.get("training_iteration"),
            "config": trial.config,
        }
        for trial in controller.get_trials()
    ]
