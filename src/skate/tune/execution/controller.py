"""Which trial runs, goes on, pauses and ends: decisions only.

The runner tells the controller what happened (`on_event`, `on_released`, `on_failure`) and asks
what to do (`next_trial_to_start`, the verdict that `on_event` returns, `trials_to_halt`). Nothing
here starts a process, waits, writes a file or calls a callback: these methods are generators of
effects (`effects.py`), each of which the performer carries out before the next is asked for. Where
a scheduler needs a checkpoint, the verdict is to save: it decides when `Saved` brings that.

    PENDING ─► RUNNING ─► TERMINATED          every state can also end in TERMINATED, from outside
       ▲          │ └───► ERROR
       └─ retry ──┤
                  └─► PAUSED ─► RUNNING       from its checkpoint
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skate._run.checkpoint import Checkpoint
from skate._run.checkpoint_manager import CHECKPOINT_NAME, RecordedCheckpoint
from skate._run.types import MetricsLike, ResultRow
from skate._run.values import LEAVES, flatten
from skate.tune.error import MissingMetricError, TuneError
from skate.tune.execution.effects import (
    AddTrials,
    BeginTrial,
    ChangeConfig,
    CopyCheckpoint,
    Effect,
    EndTrial,
    RecordCheckpoint,
    RecordError,
    RecordResult,
    RollBack,
    Steps,
    TellCallbacks,
)
from skate.tune.execution.events import Began, Reported, Saved, TrialVerdict
from skate.tune.experiment.trial import Trial
from skate.tune.result import SHOULD_CHECKPOINT
from skate.tune.schedulers.trial_scheduler import TrialScheduler
from skate.tune.stopper.stopper import Stopper

if TYPE_CHECKING:
    from skate.tune.search.search_algorithm import SearchAlgorithm

logger: logging.Logger = logging.getLogger(__name__)


class TuneController:
    """The state of an experiment. Schedulers and callbacks get it as `tune_controller`."""

    RAISE = "RAISE"  # for fail_fast: the first failure is raised

    def __init__(
        self,
        *,
        search_alg: SearchAlgorithm,
        scheduler: TrialScheduler,
        stopper: Stopper | None,
        total_resources: Mapping[str, float],
        most_pending: int = 16,
        max_concurrent: int = 0,
        fail_fast: bool | str = False,
        saves_on_demand: Callable[[Trial], bool] = lambda trial: False,
        required_metrics: Sequence[str] = (),
    ) -> None:
        """Begin an experiment.

        Args:
            search_alg: Where trials come from.
            scheduler: Who decides, at each result, whether a trial goes on.
            stopper: Who may end a trial, or all; before the scheduler is asked.
            total_resources: All that trials can have.
            most_pending: How many trials are made before they can start.
            max_concurrent: How many trials may run at a time; 0 is no limit.
            fail_fast: Whether the first failure ends everything; "raise" raises it.
            saves_on_demand: Whether a trial can be asked for a checkpoint, as classes can.
            required_metrics: What every result must have, for those who decide by it.
        """
        self.search_alg = search_alg
        self.scheduler = scheduler
        self.iteration = 0
        self.trials: list[Trial] = []  # in the order in which they were made
        self._stopper = stopper
        self._total = dict(total_resources)
        self._most_pending = most_pending
        self._max_concurrent = max_concurrent
        self._fail_fast = fail_fast
        self._saves_on_demand = saves_on_demand
        self._required = required_metrics
        self._by_id: dict[str, Trial] = {}
        self._live: dict[str, Trial] = {}
        self._held: set[str] = set()  # those that have a process, also on their way out of it
        self._pending = 0
        self._to_halt: list[Trial] = []
        self._undecided: dict[str, dict[str, Any]] = {}  # results that wait for a checkpoint
        self._to_save: set[str] = set()
        self._unrecorded: dict[str, list[RecordCheckpoint]] = {}
        self._saved: set[str] = set()  # those whose last result has its checkpoint
        self._asked_for: list[Effect] = []  # by schedulers, in the middle of something
        self._stopping = False

    # -- what schedulers and callbacks look at -----------------------------------------------

    def get_trials(self) -> list[Trial]:
        """List all trials, in the order in which they were made."""
        return list(self.trials)

    def get_live_trials(self) -> list[Trial]:
        """List the trials that have not ended."""
        return list(self._live.values())

    def get_trial(self, trial_id: str) -> Trial | None:
        """Look up the trial with that id."""
        return self._by_id.get(trial_id)

    def total_resources(self) -> dict[str, float]:
        """Return all resources that trials can have."""
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
        """Add a new trial, or one that is taken up again."""
        self._by_id[trial.trial_id] = trial
        self.trials.append(trial)
        if trial.is_finished():
            return
        self._live[trial.trial_id] = trial
        self._pending += trial.status == Trial.PENDING
        self.scheduler.on_trial_add(self, trial)

    def remind(self, trial: Trial, results: Iterable[Mapping[str, object]]) -> None:
        """Let the scheduler learn from what a trial reported in an earlier program."""
        self.scheduler.learn_from(trial, map(_flat, results))

    def _fill_queue(self) -> Steps[None]:
        """Make trials ahead, several at a time: one by one takes longer."""
        if self._pending > self._most_pending // 2:
            return
        added: list[Trial] = []
        try:
            while self._pending < self._most_pending and not self._stopping:
                trial = self.search_alg.next_trial()
                if trial is None:
                    break
                self._check_resources(trial)
                self.add_trial(trial)
                added.append(trial)
        finally:  # a search that is restored has those that were made before one that fails
            if added:
                yield AddTrials(added)

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

    def next_trial_to_start(self, leaving: int = 0) -> Steps[Trial | None]:
        """Find the trial that is to run next, if one is.

        Args:
            leaving: How many of those that have a process will have none by then.
        """
        if self._stopping or (0 < self._max_concurrent <= len(self._held) - leaving):
            return None
        if not (leaving and self._pending):  # else a trial waits for this answer
            yield from self._fill_queue()
        trial = self.scheduler.choose_trial_to_run(self)
        yield from self._what_was_asked_for()
        if trial is not None and trial.status not in (Trial.PENDING, Trial.PAUSED):
            raise TuneError(
                f"{type(self.scheduler).__name__} chose {trial} to run, which is {trial.status}"
            )
        return None if trial is None or trial.trial_id in self._held else trial

    def start(self, trial: Trial) -> None:
        """Note that a trial has got its resources, and runs."""
        self._held.add(trial.trial_id)
        self._set_status(trial, Trial.RUNNING)

    # -- trials report -----------------------------------------------------------------------

    def on_event(self, trial: Trial, event: Began | Reported | Saved) -> Steps[TrialVerdict]:
        """Decide what a trial is told that has a process and tells something."""
        if isinstance(event, Reported):
            if trial.is_finished():
                return TrialVerdict.GO_ON
            return (yield from self._on_result(trial, event.result, event.checkpoint))
        if isinstance(event, Saved):
            return (yield from self._on_saved(trial, event.checkpoint))
        trial.location = f"pid={event.pid}"
        yield BeginTrial(trial)
        if trial.has_checkpoint():
            trial.on_restore()
            yield TellCallbacks("on_trial_restore", trial)
        return TrialVerdict.GO_ON

    def _on_result(
        self, trial: Trial, result: ResultRow, checkpoint: str | None
    ) -> Steps[TrialVerdict]:
        result.setdefault("trial_id", trial.trial_id)
        flat = _flat(result)
        self._check_metrics(trial, flat)
        trial.update_last_result(result)
        self._saved.discard(trial.trial_id)
        if checkpoint is not None:
            self._note_checkpoint(trial, checkpoint, result)
        if self._ends(trial, result, flat):
            return (yield from self._conclude(trial, result, flat, TrialScheduler.STOP))
        if self._can_save(trial) and self.scheduler.needs_checkpoint(self, trial, flat):
            self._undecided[trial.trial_id] = result
            return TrialVerdict.SAVE
        decision = self._decide(trial, result, flat)
        return (yield from self._conclude(trial, result, flat, decision))

    def _check_metrics(self, trial: Trial, flat: ResultRow) -> None:
        missing = [metric for metric in self._required if metric not in flat]
        if missing and not flat.get("done"):
            raise MissingMetricError(missing[0], trial, flat)

    def _ends(self, trial: Trial, result: ResultRow, flat: ResultRow) -> bool:
        stop = self._stopper is not None and self._stopper(trial.trial_id, flat)
        if stop or trial.should_stop(flat):
            result["done"] = flat["done"] = True
            return True
        return False

    def _decide(self, trial: Trial, result: ResultRow, flat: ResultRow) -> str:
        decision = self.scheduler.on_trial_result(self, trial, flat)
        if decision == TrialScheduler.STOP:
            result["done"] = flat["done"] = True
        else:
            self.search_alg.on_trial_result(trial.trial_id, flat)
        if "hyperband_info" in flat:
            result["hyperband_info"] = flat["hyperband_info"]
        return decision

    def _conclude(
        self, trial: Trial, result: ResultRow, flat: ResultRow, decision: str
    ) -> Steps[TrialVerdict]:
        """Carry the decision out; what the trial is told."""
        if self._asked_for:
            yield from self._what_was_asked_for()
        yield RecordResult(trial, result)
        asked = bool(result.get(SHOULD_CHECKPOINT))  # by a callback; else it has saved by itself
        if trial.trial_id in self._unrecorded:
            yield from self._record_checkpoints(trial)
        if decision == TrialScheduler.STOP:
            self._complete(trial, flat)
            yield from self._what_was_asked_for()
            saves = (trial.checkpoint_at_end or asked) and self._can_save(trial)
            return TrialVerdict.HALT_AND_SAVE if saves else TrialVerdict.HALT
        if asked:
            self.save_trial(trial)
        if decision == TrialScheduler.PAUSE:
            self.pause_trial(trial)
        saves = trial.trial_id in self._to_save
        self._to_save.discard(trial.trial_id)
        if trial.status == Trial.RUNNING:
            return TrialVerdict.SAVE if saves else TrialVerdict.GO_ON
        trial.is_saving = saves
        return TrialVerdict.HALT_AND_SAVE if saves else TrialVerdict.HALT

    def _can_save(self, trial: Trial) -> bool:
        """Return whether the trial can be asked for a checkpoint, and its last result has none."""
        return self._saves_on_demand(trial) and trial.trial_id not in self._saved

    def _complete(self, trial: Trial, flat: ResultRow) -> None:
        """Note that a running trial has come to its end, and tell searcher and scheduler."""
        self._set_status(trial, Trial.TERMINATED)
        self.search_alg.on_trial_complete(trial.trial_id, result=flat)
        self.scheduler.on_trial_complete(self, trial, flat)

    def _on_saved(self, trial: Trial, checkpoint: str | None) -> Steps[TrialVerdict]:
        if checkpoint is not None:
            self._note_checkpoint(trial, checkpoint, trial.last_result)
        result = self._undecided.pop(trial.trial_id, None)
        if result is None or trial.status != Trial.RUNNING:
            yield from self._record_checkpoints(trial)
            return TrialVerdict.GO_ON if trial.status == Trial.RUNNING else TrialVerdict.HALT
        flat = _flat(result)
        decision = self._decide(trial, result, flat)
        return (yield from self._conclude(trial, result, flat, decision))

    def _note_checkpoint(self, trial: Trial, name: str, metrics: MetricsLike) -> None:
        """Note a new checkpoint, at once: the scheduler may use it for its decision."""
        place = trial.storage.checkpoint(name)
        self._saved.add(trial.trial_id)
        if trial.checkpoint == place:
            return
        trial.next_checkpoint = int(name.partition("/")[0].rpartition("_")[2]) + 1
        recorded = RecordedCheckpoint(place, dict(metrics), results=trial.num_results)
        new = RecordCheckpoint(trial, recorded, trial.on_checkpoint(recorded))
        self._unrecorded.setdefault(trial.trial_id, []).append(new)

    def _record_checkpoints(self, trial: Trial) -> Steps[None]:
        """Record the new checkpoints of a trial, now that their result is on record: if it goes on
        from here it does not report that again."""
        yield from self._unrecorded.pop(trial.trial_id, ())

    def _what_was_asked_for(self) -> Steps[None]:
        """Yield the effects that schedulers have asked for while they decided."""
        asked, self._asked_for = self._asked_for, []
        yield from asked

    # -- trials go ---------------------------------------------------------------------------

    def on_released(self, trial: Trial) -> Steps[None]:
        """Note that a trial's process is free: it has returned, or was halted."""
        self._held.discard(trial.trial_id)
        trial.is_saving = False
        if trial.status == Trial.RUNNING:
            self._complete(trial, self._last_result(trial))
            yield from self._what_was_asked_for()
        if trial.status == Trial.TERMINATED:
            yield EndTrial(trial, "on_trial_complete")

    def _last_result(self, trial: Trial) -> ResultRow:
        """Return the last result of a function that has returned, now done. Stoppers see it once
        more, as with Ray: theirs count on it."""
        reported = bool(trial.last_result)
        trial.last_result["done"] = True
        flat = _flat(trial.last_result)
        if reported and self._stopper is not None:
            self._stopper(trial.trial_id, flat)
        return flat

    def on_failure(self, trial: Trial, error: BaseException) -> Steps[None]:
        """Decide what becomes of a trial that raised, or whose process died."""
        self._held.discard(trial.trial_id)
        result = self._undecided.pop(trial.trial_id, None)
        if result is not None and trial.status == Trial.RUNNING:
            yield RecordResult(trial, result)
        if trial.status == Trial.TERMINATED and trial.export_formats:
            yield from self._fail(trial, error)
            yield EndTrial(trial, "on_trial_error")
        elif trial.is_finished() or (trial.status == Trial.PAUSED and not trial.is_saving):
            if trial.checkpoint_at_end:
                logger.warning("the end of %s was not clean: %r", trial, error)
            yield from self.on_released(trial)
        else:
            yield from self._on_unexpected(trial, error)

    def _on_unexpected(self, trial: Trial, error: BaseException) -> Steps[None]:
        trial.is_saving = False
        if self._fail_fast and str(self._fail_fast).lower() == "raise":
            yield from self._fail(trial, error)
            yield EndTrial(trial, "on_trial_error")
            raise error
        trial.note_error(error)
        yield RecordError(trial, error)
        if trial.should_recover():
            yield from self._try_again(trial)
            return
        self._set_status(trial, Trial.ERROR)
        self.scheduler.on_trial_error(self, trial)
        self.search_alg.on_trial_complete(trial.trial_id, error=True)
        yield from self._what_was_asked_for()
        yield EndTrial(trial, "on_trial_error")
        if self._fail_fast:
            self.stop_all()
        yield from self._what_was_asked_for()

    def _fail(self, trial: Trial, error: BaseException) -> Steps[None]:
        trial.note_error(error)
        yield RecordError(trial, error)
        self._set_status(trial, Trial.ERROR)

    def _try_again(self, trial: Trial) -> Steps[None]:
        """Queue a trial that failed, to go on from its last checkpoint when its turn comes."""
        self.scheduler.on_trial_error(self, trial)
        self._set_status(trial, Trial.PENDING)
        self.scheduler.on_trial_add(self, trial)
        yield from self._what_was_asked_for()
        yield TellCallbacks("on_trial_recover", trial)
        yield RollBack(trial)

    # -- what schedulers ask for -------------------------------------------------------------

    def save_trial(self, trial: Trial) -> Checkpoint | None:
        """Have a trial that waits for its verdict save, with the verdict; its checkpoint so far.
        What has to be there at once is asked for by `needs_checkpoint`."""
        if trial.status == Trial.RUNNING and self._can_save(trial):
            self._to_save.add(trial.trial_id)
        return trial.checkpoint

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:
        """Have a trial give up its resources, to go on later from its checkpoint."""
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
            self._asked_for.append(EndTrial(trial, "on_trial_complete"))

    def adopt_checkpoint(self, trial: Trial, checkpoint: Checkpoint, metrics: MetricsLike) -> None:
        """Go on from the checkpoint of another trial: it is copied, so that it stays."""
        name = CHECKPOINT_NAME.format(trial.next_checkpoint)
        self._asked_for += [CopyCheckpoint(trial, checkpoint, name), ChangeConfig(trial)]
        self._note_checkpoint(trial, checkpoint._place_inside(name), metrics)
        if trial.status != Trial.RUNNING:  # it has no result that waits for its verdict
            self._asked_for += self._unrecorded.pop(trial.trial_id, ())

    # -- the end -----------------------------------------------------------------------------

    def check_stopper(self) -> Steps[None]:
        """Ask whether everything is to end."""
        if not self._stopping and self._stopper is not None and self._stopper.stop_all():
            self.stop_all()
        yield from self._what_was_asked_for()

    def stop_all(self) -> None:
        """Begin no more trials, and end those that run."""
        self._stopping = True
        self.search_alg.set_finished()
        for trial in self.get_live_trials():
            self.stop_trial(trial)

    def trials_to_halt(self) -> list[Trial]:
        """Hand over the trials that run and must not; each is given once."""
        found, self._to_halt = self._to_halt, []
        return found

    # -- books -------------------------------------------------------------------------------

    def _set_status(self, trial: Trial, status: str) -> None:
        self._pending += (status == Trial.PENDING) - (trial.status == Trial.PENDING)
        trial.set_status(status)
        if trial.is_finished():
            self._live.pop(trial.trial_id, None)
            self._saved.discard(trial.trial_id)


def _flat(result: MetricsLike) -> dict[str, object]:
    """Copy a result, with nested metrics also as "a/b", but for those of the config."""
    flat = dict(result)
    for name, value in result.items():
        if type(value) in LEAVES or name == "config":
            continue
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{name}/"))
    return flat


class _Totals:
    """How much there is of what is counted."""

    def __init__(self, total: Mapping[str, float]) -> None:
        self._total = total

    def get_num_cpus(self) -> float:
        return self._total.get("CPU", 0)

    def get_num_gpus(self) -> float:
        return self._total.get("GPU", 0)
