"""Which trial runs, goes on, pauses and ends: decisions only.

The runner tells the controller what happened (`on_began`, `on_result`, `on_saved`, `on_released`,
`on_failure`) and asks what to do (`next_trial_to_start`, the verdicts that `on_result` returns,
`trials_to_halt`). Nothing here starts a process or waits, except through `Port`, by which a
scheduler can have a checkpoint made of a trial that waits for its verdict.

    PENDING ─► RUNNING ─► TERMINATED          every state can also end in TERMINATED, from outside
       ▲          │ └───► ERROR
       └─ retry ──┤
                  └─► PAUSED ─► RUNNING       from its checkpoint
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from skate._run.callbacks import Callback, CallbackList
from skate._run.checkpoint import Checkpoint
from skate._run.checkpoints import CHECKPOINT_NAME, Kept
from skate._run.values import flatten
from skate.tune.error import MissingMetricError, TuneError
from skate.tune.execution.channel import GO_ON, HALT, HALT_AND_SAVE
from skate.tune.experiment.trial import Trial
from skate.tune.schedulers.trial_scheduler import TrialScheduler
from skate.tune.search.search_generator import SearchGenerator
from skate.tune.stopper.stopper import Stopper

if TYPE_CHECKING:
    from skate.tune.execution.state import StateLog
    from skate.tune.search.search_algorithm import SearchAlgorithm

_FEWEST_PENDING = 16


class Port(Protocol):
    """What the controller can ask of the world while a trial waits for its verdict."""

    def save(self, trial: Trial) -> str | None:
        """Have the trial save; the place of the checkpoint in its folder."""
        ...


class TuneController:
    """The state of an experiment. Schedulers and callbacks get it as `tune_controller`."""

    def __init__(
        self,
        *,
        search_alg: SearchAlgorithm,
        scheduler: TrialScheduler,
        stopper: Stopper | None,
        callbacks: list[Any],
        log: StateLog,
        total_resources: Mapping[str, float],
        max_concurrent: int = 0,
        fail_fast: bool | str = False,
        saves_on_demand: bool = False,
        metric: str | None = None,
    ) -> None:
        self.search_alg = search_alg
        self.scheduler = scheduler
        self.port: Port | None = None
        self.iteration = 0
        self._stopper = stopper
        self._callbacks = CallbackList(callbacks)
        self._steppers = [c for c in callbacks if type(c).on_step_end is not Callback.on_step_end]
        self._log = log
        self._total = dict(total_resources)
        self._max_concurrent = max_concurrent
        self._fail_fast = fail_fast
        self._saves_on_demand = saves_on_demand
        self._metric = metric
        self._trials: dict[str, Trial] = {}
        self._in_order: list[Trial] = []
        self._live: dict[str, Trial] = {}
        self._held: set[str] = set()  # those that have a process, also on their way out of it
        self._pending = 0
        self._to_halt: list[Trial] = []
        self._stopping = False
        cpus = self._total.get("CPU", 1)
        late = isinstance(search_alg, SearchGenerator)  # it learns until the last moment
        self._most_pending = 1 if late else max(_FEWEST_PENDING, math.ceil(cpus * 1.1))

    # -- what schedulers and callbacks look at -----------------------------------------------

    def get_trials(self) -> list[Trial]:
        """All trials."""
        return list(self._in_order)

    def get_live_trials(self) -> list[Trial]:
        """Those that have not ended."""
        return list(self._live.values())

    def get_trial(self, trial_id: str) -> Trial | None:
        """The trial with that id."""
        return self._trials.get(trial_id)

    def total_resources(self) -> dict[str, float]:
        """All resources that trials can have."""
        return self._total

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to do."""
        done = self._stopping or (self.search_alg.is_finished() and not self._live)
        return done and not self._held

    # -- trials come -------------------------------------------------------------------------

    def add_trial(self, trial: Trial) -> None:
        """A new trial, or one that is taken up again."""
        self._trials[trial.trial_id] = trial
        self._in_order.append(trial)
        if trial.is_finished():
            return
        self._live[trial.trial_id] = trial
        self._pending += trial.status == Trial.PENDING
        self.scheduler.on_trial_add(self, trial)

    def _fill_queue(self) -> None:
        while self._pending < self._most_pending and not self._stopping:
            trial = self.search_alg.next_trial()
            if trial is None:
                return
            self._check_resources(trial)
            self.add_trial(trial)
            self._log.trial(trial)

    def _check_resources(self, trial: Trial) -> None:
        wanted = trial.placement_group_factory.required_resources
        for name, amount in wanted.items():
            if amount > self._total.get(name, 0) + 1e-9 and name != "memory":
                there = {k: v for k, v in self._total.items() if k in wanted or k == "CPU"}
                raise TuneError(
                    f"trial {trial} asks for {wanted}, which this machine can never give: it "
                    f"has {there}. Ask for less, or pretend that there is more, with "
                    f"skate.init(num_cpus=…, num_gpus=…, resources={{…}})"
                )

    def next_trial_to_start(self) -> Trial | None:
        """The trial that is to run next, if one is."""
        if self._stopping or (0 < self._max_concurrent <= len(self._held)):
            return None
        self._fill_queue()
        trial = self.scheduler.choose_trial_to_run(self)
        if trial is not None and trial.status not in (Trial.PENDING, Trial.PAUSED):
            raise TuneError(
                f"{type(self.scheduler).__name__} chose {trial} to run, which is {trial.status}"
            )
        return None if trial is None or trial.trial_id in self._held else trial

    def start(self, trial: Trial) -> None:
        """It has got its resources."""
        self._held.add(trial.trial_id)
        self._set_status(trial, Trial.RUNNING)

    def on_began(self, trial: Trial, pid: int) -> None:
        """Its process has begun with it."""
        trial.location = f"pid={pid}"
        self._tell("on_trial_start", trial)
        if trial.has_checkpoint():
            trial.on_restore()
            self._tell("on_trial_restore", trial)

    # -- results come ------------------------------------------------------------------------

    def on_result(self, trial: Trial, result: dict[str, Any], checkpoint: str | None) -> str:
        """A running trial has reported: what is it told?"""
        self.iteration += 1
        result.setdefault("trial_id", trial.trial_id)
        flat = _flat(result)
        if self._metric and self._metric not in flat and not flat.get("done"):
            raise MissingMetricError(self._metric, trial, flat)
        trial.update_last_result(result)
        if checkpoint is not None:
            self._note_checkpoint(trial, checkpoint, result)
        decision = self._decide(trial, result, flat)
        self._tell("on_trial_result", trial, result=result)
        if decision == TrialScheduler.STOP:
            self._complete(trial, flat)
            at_end = self._saves_on_demand and trial.checkpoint_at_end and checkpoint is None
            return HALT_AND_SAVE if at_end else HALT
        if decision == TrialScheduler.PAUSE:
            self.pause_trial(trial)
        return GO_ON if trial.status == Trial.RUNNING else HALT

    def _decide(self, trial: Trial, result: dict[str, Any], flat: dict[str, Any]) -> str:
        stop = self._stopper is not None and self._stopper(trial.trial_id, flat)
        if stop or trial.should_stop(flat):
            result["done"] = flat["done"] = True
            return TrialScheduler.STOP
        decision = self.scheduler.on_trial_result(self, trial, flat)
        if decision == TrialScheduler.STOP:
            result["done"] = flat["done"] = True
        else:
            self.search_alg.on_trial_result(trial.trial_id, flat)
        if "hyperband_info" in flat:
            result["hyperband_info"] = flat["hyperband_info"]
        return decision

    def _complete(self, trial: Trial, flat: dict[str, Any]) -> None:
        """A running trial has come to its end."""
        self._set_status(trial, Trial.TERMINATED)
        self.search_alg.on_trial_complete(trial.trial_id, result=flat)
        self.scheduler.on_trial_complete(self, trial, flat)

    def on_saved(self, trial: Trial, checkpoint: str | None) -> None:
        """A checkpoint came without a result."""
        if checkpoint is not None:
            self._note_checkpoint(trial, checkpoint, trial.last_result)

    def _note_checkpoint(self, trial: Trial, name: str, metrics: Mapping[str, Any]) -> None:
        place = trial.storage.checkpoint(name)
        if trial.checkpoint == place:
            return
        trial.next_checkpoint = int(name.partition("/")[0].rpartition("_")[2]) + 1
        self._log.checkpoint(trial, place, metrics)
        for old in trial.on_checkpoint(Kept(place, dict(metrics))):
            trial.storage.delete(old.path[len(trial.path) :].lstrip("/").partition("/")[0])
        self._tell("on_trial_save", trial)
        self._tell("on_checkpoint", trial, checkpoint=place)

    # -- trials go ---------------------------------------------------------------------------

    def on_released(self, trial: Trial) -> None:
        """Its process is free: it has returned, or was halted."""
        self._held.discard(trial.trial_id)
        if trial.status == Trial.RUNNING:
            trial.last_result["done"] = True
            self._complete(trial, _flat(trial.last_result))
        if trial.status == Trial.TERMINATED:
            self._end(trial, "on_trial_complete")

    def _end(self, trial: Trial, hook: str) -> None:
        self._tell(hook, trial)
        self._log.progress(trial)
        trial.close_storage()

    def on_failure(self, trial: Trial, error: BaseException) -> None:
        """It raised, or its process died."""
        self._held.discard(trial.trial_id)
        if trial.status != Trial.RUNNING:  # on its way out
            self.on_released(trial)
            return
        trial.handle_error(error)
        if self._fail_fast and str(self._fail_fast).lower() == "raise":
            self._set_status(trial, Trial.ERROR)
            self._end(trial, "on_trial_error")
            raise error
        if trial.should_recover():
            self._set_status(trial, Trial.PENDING)
            self._tell("on_trial_recover", trial)
            return
        self._set_status(trial, Trial.ERROR)
        self.scheduler.on_trial_error(self, trial)
        self.search_alg.on_trial_complete(trial.trial_id, error=True)
        self._end(trial, "on_trial_error")
        if self._fail_fast:
            self.stop_all()

    # -- what schedulers ask for -------------------------------------------------------------

    def save_trial(self, trial: Trial) -> Checkpoint | None:
        """A checkpoint of a trial that waits for its verdict; a function's last one."""
        if self._saves_on_demand and self.port is not None and trial.status == Trial.RUNNING:
            name = self.port.save(trial)
            if name is not None:
                self._note_checkpoint(trial, name, trial.last_result)
        return trial.checkpoint

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:
        """It gives up its resources, and goes on later from its checkpoint."""
        if should_checkpoint:
            self.save_trial(trial)
        self._set_status(trial, Trial.PAUSED)

    def stop_trial(self, trial: Trial) -> None:
        """End a trial, whatever it is doing."""
        if trial.is_finished():
            return
        if trial.status == Trial.RUNNING:
            self._to_halt.append(trial)
            self._complete(trial, _flat(trial.last_result))
            return
        self._set_status(trial, Trial.TERMINATED)
        self.search_alg.on_trial_complete(trial.trial_id, result=_flat(trial.last_result) or None)
        self.scheduler.on_trial_remove(self, trial)
        self._end(trial, "on_trial_complete")

    def adopt_checkpoint(
        self, trial: Trial, checkpoint: Checkpoint, metrics: Mapping[str, Any]
    ) -> None:
        """Go on from the checkpoint of another trial: it is copied, so that it stays."""
        name = CHECKPOINT_NAME.format(trial.next_checkpoint)
        trial.storage.persist(checkpoint, name)
        self._log.config(trial)
        inner = os.path.basename(checkpoint.path) if os.path.isfile(checkpoint.path) else ""
        self._note_checkpoint(trial, f"{name}/{inner}" if inner else name, metrics)

    # -- the end -----------------------------------------------------------------------------

    def check_stopper(self) -> None:
        """Ask whether everything is to end."""
        if not self._stopping and self._stopper is not None and self._stopper.stop_all():
            self.stop_all()

    def stop_all(self) -> None:
        """No more trials begin, and those that run end."""
        self._stopping = True
        self.search_alg.set_finished()
        for trial in self.get_live_trials():
            self.stop_trial(trial)

    def trials_to_halt(self) -> list[Trial]:
        """Those that run and must not."""
        found, self._to_halt = self._to_halt, []
        return found

    def on_step(self) -> None:
        """The runner has done one round."""
        for callback in self._steppers:
            callback.on_step_end(iteration=self.iteration, trials=self._in_order)

    def end_experiment(self) -> None:
        """All is over."""
        self._callbacks.call("on_experiment_end", trials=self.get_trials())

    # -- books -------------------------------------------------------------------------------

    def _set_status(self, trial: Trial, status: str) -> None:
        self._pending += (status == Trial.PENDING) - (trial.status == Trial.PENDING)
        trial.set_status(status)
        if trial.is_finished():
            self._live.pop(trial.trial_id, None)

    def _tell(self, hook: str, trial: Trial, **info: Any) -> None:
        # the list itself, not a copy: there are many results, and there may be many trials
        trials = self._in_order
        self._callbacks.call(hook, iteration=self.iteration, trials=trials, trial=trial, **info)


_SIMPLE = (int, float, str, bool, type(None))  # asked of every metric of every result


def _flat(result: Mapping[str, Any]) -> dict[str, Any]:
    """Nested metrics as "a/b", beside the config."""
    flat = dict(result)
    if not any(type(v) not in _SIMPLE and k != "config" for k, v in result.items()):
        return flat
    for name, value in result.items():
        if name != "config" and isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{name}/"))
    return flat
