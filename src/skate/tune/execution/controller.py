"""Which trial runs, goes on, pauses and ends: decisions only.

The runner tells the controller what happened (`on_began`, `on_result`, `on_saved`, `on_released`,
`on_failure`) and asks what to do (`next_trial_to_start`, the verdicts that `on_result` returns,
`trials_to_halt`). Nothing here starts a process or waits. Where a scheduler needs a checkpoint,
the verdict is to save: the decision is made when `on_saved` brings it.

    PENDING ─► RUNNING ─► TERMINATED          every state can also end in TERMINATED, from outside
       ▲          │ └───► ERROR
       └─ retry ──┤
                  └─► PAUSED ─► RUNNING       from its checkpoint
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from skate._run.append_buffer import AppendBuffer
from skate._run.callbacks import Callback, CallbackList
from skate._run.checkpoint import Checkpoint
from skate._run.checkpoint_manager import CHECKPOINT_NAME, RecordedCheckpoint
from skate._run.values import flatten
from skate.tune.error import MissingMetricError, TuneError
from skate.tune.execution.channel import GO_ON, HALT, HALT_AND_SAVE, SAVE
from skate.tune.execution.rolling_back import roll_back
from skate.tune.experiment.trial import Trial
from skate.tune.result import DEFAULT_METRIC
from skate.tune.schedulers.trial_scheduler import TrialScheduler
from skate.tune.search.search_generator import SearchGenerator
from skate.tune.stopper.stopper import Stopper

if TYPE_CHECKING:
    from skate.tune.execution.state import StateLog
    from skate.tune.search.search_algorithm import SearchAlgorithm

logger = logging.getLogger(__name__)

_FEWEST_PENDING = 16


class _New(NamedTuple):
    """A checkpoint that is there and not on record yet, and those that go for it."""

    recorded: RecordedCheckpoint
    replaced: list[Checkpoint]


class TuneController:
    """The state of an experiment. Schedulers and callbacks get it as `tune_controller`."""

    RAISE = "RAISE"  # for fail_fast: the first failure is raised

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
        results: AppendBuffer | None = None,
    ) -> None:
        self.search_alg = search_alg
        self.scheduler = scheduler
        self.iteration = 0
        self._stopper = stopper
        self._callbacks = CallbackList(callbacks)
        self._steppers = [c for c in callbacks if _follows_steps(c)]
        self._log = log
        self._results = results  # for the lines of ledgers, which are not written without
        self._total = dict(total_resources)
        self._max_concurrent = max_concurrent
        self._fail_fast = fail_fast
        self._saves_on_demand = saves_on_demand
        self._required = _required(metric, scheduler.metric, search_alg.metric)
        self._trials: dict[str, Trial] = {}
        self._in_order: list[Trial] = []
        self._live: dict[str, Trial] = {}
        self._held: set[str] = set()  # those that have a process, also on their way out of it
        self._pending = 0
        self._to_halt: list[Trial] = []
        self._undecided: dict[str, dict[str, Any]] = {}  # results that wait for a checkpoint
        self._to_save: set[str] = set()
        self._unrecorded: dict[str, list[_New]] = {}
        self._saved: set[str] = set()  # those whose last result has its checkpoint
        self._stopping = False
        self._most_pending = _most_pending(search_alg, self._total.get("CPU", 1))

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
    def _resource_updater(self) -> _Totals:  # whom allocation functions written for Ray ask
        return _Totals(self._total)

    @property
    def trial_executor(self) -> TuneController:  # by way of which they asked until Ray 2.4
        return self

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

    def remind(self, trial: Trial, results: Iterable[Mapping[str, Any]]) -> None:
        """What a trial reported in an earlier program."""
        self.scheduler.learn_from(trial, map(_flat, results))

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
        if self._results is not None:
            trial.ledger.open(self._results)
        self._tell("on_trial_start", trial)
        if trial.has_checkpoint():
            trial.on_restore()
            self._tell("on_trial_restore", trial)

    # -- results come ------------------------------------------------------------------------

    def on_result(self, trial: Trial, result: dict[str, Any], checkpoint: str | None) -> str:
        """A running trial has reported: what is it told?"""
        result.setdefault("trial_id", trial.trial_id)
        flat = _flat(result)
        self._check_metrics(trial, flat)
        trial.update_last_result(result)
        self._saved.discard(trial.trial_id)
        if checkpoint is not None:
            self._note_checkpoint(trial, checkpoint, result)
        if self._ends(trial, result, flat):
            return self._conclude(trial, result, flat, TrialScheduler.STOP)
        if self._can_save(trial) and self.scheduler.needs_checkpoint(self, trial, flat):
            self._undecided[trial.trial_id] = result
            return SAVE
        return self._conclude(trial, result, flat, self._decide(trial, result, flat))

    def _check_metrics(self, trial: Trial, flat: dict[str, Any]) -> None:
        missing = [metric for metric in self._required if metric not in flat]
        if missing and not flat.get("done"):
            raise MissingMetricError(missing[0], trial, flat)

    def _ends(self, trial: Trial, result: dict[str, Any], flat: dict[str, Any]) -> bool:
        stop = self._stopper is not None and self._stopper(trial.trial_id, flat)
        if stop or trial.should_stop(flat):
            result["done"] = flat["done"] = True
            return True
        return False

    def _decide(self, trial: Trial, result: dict[str, Any], flat: dict[str, Any]) -> str:
        decision = self.scheduler.on_trial_result(self, trial, flat)
        if decision == TrialScheduler.STOP:
            result["done"] = flat["done"] = True
        else:
            self.search_alg.on_trial_result(trial.trial_id, flat)
        if "hyperband_info" in flat:
            result["hyperband_info"] = flat["hyperband_info"]
        return decision

    def _conclude(
        self, trial: Trial, result: dict[str, Any], flat: dict[str, Any], decision: str
    ) -> str:
        """Carry the decision out; what the trial is told."""
        self._record_result(trial, result)
        self._record_checkpoints(trial)
        if decision == TrialScheduler.STOP:
            self._complete(trial, flat)
            saves = trial.checkpoint_at_end and self._can_save(trial)
            return HALT_AND_SAVE if saves else HALT
        if decision == TrialScheduler.PAUSE:
            self.pause_trial(trial)
        saves = trial.trial_id in self._to_save
        self._to_save.discard(trial.trial_id)
        if trial.status == Trial.RUNNING:
            return SAVE if saves else GO_ON
        trial.is_saving = saves
        return HALT_AND_SAVE if saves else HALT

    def _can_save(self, trial: Trial) -> bool:
        """Whether the trial can be asked for a checkpoint, and its last result has none."""
        return self._saves_on_demand and trial.trial_id not in self._saved

    def _complete(self, trial: Trial, flat: dict[str, Any]) -> None:
        """A running trial has come to its end."""
        self._set_status(trial, Trial.TERMINATED)
        self.search_alg.on_trial_complete(trial.trial_id, result=flat)
        self.scheduler.on_trial_complete(self, trial, flat)

    def on_saved(self, trial: Trial, checkpoint: str | None) -> str:
        """A checkpoint came without a result: what is the trial told?"""
        if checkpoint is not None:
            self._note_checkpoint(trial, checkpoint, trial.last_result)
        result = self._undecided.pop(trial.trial_id, None)
        if result is None or trial.status != Trial.RUNNING:
            self._record_checkpoints(trial)
            return GO_ON if trial.status == Trial.RUNNING else HALT
        flat = _flat(result)
        return self._conclude(trial, result, flat, self._decide(trial, result, flat))

    def _note_checkpoint(self, trial: Trial, name: str, metrics: Mapping[str, Any]) -> None:
        """The scheduler may use it for its decision."""
        place = trial.storage.checkpoint(name)
        self._saved.add(trial.trial_id)
        if trial.checkpoint == place:
            return
        trial.next_checkpoint = int(name.partition("/")[0].rpartition("_")[2]) + 1
        recorded = RecordedCheckpoint(place, dict(metrics), results=trial.num_results)
        new = _New(recorded, trial.on_checkpoint(recorded))
        self._unrecorded.setdefault(trial.trial_id, []).append(new)

    def _record_result(self, trial: Trial, result: dict[str, Any]) -> None:
        trial.ledger.add_result(result)
        self._tell("on_trial_result", trial, result=result)

    def _record_checkpoints(self, trial: Trial) -> None:
        """Their result is on record by now: a trial that goes on from here does not report it
        again."""
        for new in self._unrecorded.pop(trial.trial_id, ()):
            self._tell("on_trial_save", trial)
            trial.ledger.settle()
            self._log.checkpoint(trial, new.recorded)
            for old in new.replaced:
                trial.storage.delete(old.path[len(trial.path) :].lstrip("/").partition("/")[0])
            self._tell("on_checkpoint", trial, checkpoint=new.recorded.checkpoint)

    # -- trials go ---------------------------------------------------------------------------

    def on_released(self, trial: Trial) -> None:
        """Its process is free: it has returned, or was halted."""
        self._held.discard(trial.trial_id)
        trial.is_saving = False
        if trial.status == Trial.RUNNING:
            trial.last_result["done"] = True
            self._complete(trial, _flat(trial.last_result))
        if trial.status == Trial.TERMINATED:
            self._end(trial, "on_trial_complete")

    def _end(self, trial: Trial, hook: str) -> None:
        self._tell(hook, trial)
        trial.ledger.close()
        self._log.progress(trial)
        trial.close_storage()

    def on_failure(self, trial: Trial, error: BaseException) -> None:
        """It raised, or its process died."""
        self._held.discard(trial.trial_id)
        result = self._undecided.pop(trial.trial_id, None)
        if result is not None and trial.status == Trial.RUNNING:
            self._record_result(trial, result)
        if trial.status == Trial.TERMINATED and trial.export_formats:
            trial.handle_error(error)
            self._set_status(trial, Trial.ERROR)
            self._end(trial, "on_trial_error")
            return
        if trial.is_finished() or (trial.status == Trial.PAUSED and not trial.is_saving):
            if trial.checkpoint_at_end:
                logger.warning("the end of %s was not clean: %r", trial, error)
            self.on_released(trial)
            return
        trial.is_saving = False
        trial.handle_error(error)
        if self._fail_fast and str(self._fail_fast).lower() == "raise":
            self._set_status(trial, Trial.ERROR)
            self._end(trial, "on_trial_error")
            raise error
        if trial.should_recover():
            self.scheduler.on_trial_error(self, trial)
            self._set_status(trial, Trial.PENDING)
            self.scheduler.on_trial_add(self, trial)
            self._tell("on_trial_recover", trial)
            roll_back(trial)
            return
        self._set_status(trial, Trial.ERROR)
        self.scheduler.on_trial_error(self, trial)
        self.search_alg.on_trial_complete(trial.trial_id, error=True)
        self._end(trial, "on_trial_error")
        if self._fail_fast:
            self.stop_all()

    # -- what schedulers ask for -------------------------------------------------------------

    def save_trial(self, trial: Trial) -> Checkpoint | None:
        """Have a trial that waits for its verdict save, with the verdict; its checkpoint so far.
        What has to be there at once is asked for by `needs_checkpoint`."""
        if trial.status == Trial.RUNNING and self._can_save(trial):
            self._to_save.add(trial.trial_id)
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
        if trial.trial_id not in self._held:
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
        if trial.status != Trial.RUNNING:  # it has no result that waits for its verdict
            self._record_checkpoints(trial)

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

    def on_step(self, hook: str) -> None:
        """The runner begins a round, or has done one."""
        for callback in self._steppers:
            getattr(callback, hook)(iteration=self.iteration, trials=self._in_order)
        self.iteration += hook == "on_step_end"

    def end_experiment(self) -> None:
        """All is over."""
        self._callbacks.call("on_experiment_end", trials=self.get_trials())

    # -- books -------------------------------------------------------------------------------

    def _set_status(self, trial: Trial, status: str) -> None:
        self._pending += (status == Trial.PENDING) - (trial.status == Trial.PENDING)
        trial.set_status(status)
        if trial.is_finished():
            self._live.pop(trial.trial_id, None)
            self._saved.discard(trial.trial_id)

    def _tell(self, hook: str, trial: Trial, **info: Any) -> None:
        # the list itself, not a copy: there are many results, and there may be many trials
        trials = self._in_order
        self._callbacks.call(hook, iteration=self.iteration, trials=trials, trial=trial, **info)


def _follows_steps(callback: Any) -> bool:
    kind = type(callback)
    return (kind.on_step_begin, kind.on_step_end) != (Callback.on_step_begin, Callback.on_step_end)


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


def _required(*metrics: Any) -> tuple[str, ...]:
    """The metrics that every result must have for those who decide by them."""
    if os.environ.get("TUNE_DISABLE_STRICT_METRIC_CHECKING") == "1":  # as with Ray
        return ()
    names = [name for one in metrics for name in (one if isinstance(one, list) else [one])]
    return tuple(dict.fromkeys(name for name in names if name not in (None, DEFAULT_METRIC)))


def _most_pending(search_alg: SearchAlgorithm, cpus: float) -> int:
    """How many trials are made before they can start; Ray's variable for it counts here too."""
    given = os.environ.get("TUNE_MAX_PENDING_TRIALS_PG", "")
    if given.isdigit():
        return max(1, int(given))
    late = isinstance(search_alg, SearchGenerator)  # it learns until the last moment
    return 1 if late else max(_FEWEST_PENDING, math.ceil(cpus * 1.1))


class _Totals:
    """How much there is of what is counted."""

    def __init__(self, total: Mapping[str, float]) -> None:
        self._total = total

    def get_num_cpus(self) -> float:
        return self._total.get("CPU", 0)

    def get_num_gpus(self) -> float:
        return self._total.get("GPU", 0)
