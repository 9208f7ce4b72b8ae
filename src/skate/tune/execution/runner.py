"""Carries out what the controller decides: starts trials, waits for what they send, answers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import skate
from skate._core.live_rows import announce
from skate._run.context import SessionInfo
from skate._run.reporting import AUTOMATIC, totals_in
from skate._run.values import flatten
from skate.tune.execution.events import Began, Ended, TrialVerdict
from skate.tune.execution.session import TrialTask

if TYPE_CHECKING:
    from skate.tune.execution.controller import TuneController
    from skate.tune.execution.performer import Performer
    from skate.tune.execution.pool import PooledWorker, WorkerPool
    from skate.tune.experiment.trial import Trial

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
        on_tick: Sequence[Callable[[], None]] = (),
    ) -> None:
        self._controller = controller
        self._performer = performer
        self._pool = pool
        self._waits_always = waits_always
        self._reuse_instances = reuse_instances
        self._chdir = chdir
        self._on_tick = on_tick
        self._calls: dict[Any, PooledWorker] = {}
        self._halting: set[str] = set()
        announce("trials", controller, live_rows_of)

    def run(self) -> None:
        """Until the experiment is finished."""
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
        started = self._start_trials()
        if self._calls:
            ready, _ = skate.wait(list(self._calls), num_returns=1, timeout=_PATIENCE_SECONDS)
            for ref in ready:
                self._handle(ref, self._calls.pop(ref))
        elif not started and not self._controller.is_finished:
            time.sleep(_NOTHING_TO_DO_SECONDS)  # a searcher has nothing to suggest right now
        self._pool.retire_idle(_PATIENCE_SECONDS)
        self._performer.end_step()
        self._controller.iteration += 1
        for call in self._on_tick:
            call()

    # -- starting ----------------------------------------------------------------------------

    def _start_trials(self) -> bool:
        started = False
        while (trial := self._next_trial()) is not None:
            if not self._begin(trial):
                break
            self._controller.start(trial)
            started = True
        return started

    def _next_trial(self) -> Trial | None:
        return self._performer.run(self._controller.next_trial_to_start())

    def _begin(self, trial: Trial) -> bool:
        worker = self._pool.take(trial)
        if worker is not None:
            self._call(worker, worker.actor.begin.remote(self._task(trial)))
        return worker is not None

    def _task(self, trial: Trial) -> TrialTask:
        latest = trial.latest_checkpoint_result
        metrics = latest.metrics if latest else {}
        trial.init_local_path()
        return TrialTask(
            info=SessionInfo(
                experiment_name=trial.experiment_dir_name,
                trial_name=str(trial),
                trial_id=trial.trial_id,
                trial_dir=trial.local_path,
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
            waits_always=self._waits_always,
            log_files=trial.log_to_file or None,
            working_directory=os.path.abspath(trial.local_path) if self._chdir else None,
            export_formats=tuple(trial.export_formats),
            reuse_instance=self._reuse_instances,
            restore_retries=int(os.environ.get("TUNE_RESTORE_RETRY_NUM") or 0),  # as with Ray
        )

    def _call(self, worker: PooledWorker, ref: Any) -> None:
        self._calls[ref] = worker

    # -- what trials send --------------------------------------------------------------------

    def _handle(self, ref: Any, worker: PooledWorker) -> None:
        trial = worker.trial
        assert trial is not None
        try:
            events = skate.get(ref)
        except Exception as error:
            self._on_error(worker, trial, error)
            return
        verdict = TrialVerdict.GO_ON
        for event in events:
            if isinstance(event, Ended):
                self._release(worker, trial, usable=not event.stuck)
                return
            worker.used = worker.used and not isinstance(event, Began)
            if verdict is TrialVerdict.GO_ON:
                verdict = self._performer.run(self._controller.on_event(trial, event))
        if verdict is TrialVerdict.GO_ON and trial.trial_id in self._halting:
            verdict = TrialVerdict.HALT
        self._call(worker, worker.actor.exchange.remote(verdict))

    def _release(self, worker: PooledWorker, trial: Trial, usable: bool) -> None:
        self._halting.discard(trial.trial_id)
        if usable:
            self._pool.give_back(worker)
        else:
            self._pool.drop(worker)
        self._performer.run(self._controller.on_released(trial))

    def _on_error(self, worker: PooledWorker, trial: Trial, error: Exception) -> None:
        """What failed may have left anything behind: its process is not used again."""
        self._pool.drop(worker)
        if worker.used:  # it died before this trial came: not the trial's fault
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
