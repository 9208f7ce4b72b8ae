"""Calls of workers that are under way, and the order in which their answers are handled.

Calls         each as it comes: nobody waits for anybody
CallsInStep   when all that run have come to a report or an end, in the order in which the
              trials began: the same in each search, whoever was faster
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import skate
from skate.tune.execution.events import Began, TrialEvent, TrialVerdict
from skate.tune.execution.messages import unpacked_events

if TYPE_CHECKING:
    from skate.tune.execution.pool import PooledWorker

Outcome = tuple[Sequence[TrialEvent], Exception | None]
"""What has come of a worker, and then how its call has failed, if it has."""


class Calls:
    """At most one call per worker; its answer is the next of its events."""

    def __init__(self) -> None:
        self._workers: dict[Any, PooledWorker] = {}

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def may_start(self) -> bool:
        """Whether this is a moment to start trials."""
        return True

    def add(self, worker: PooledWorker, ref: Any) -> None:
        """Note a call that was made."""
        self._workers[ref] = worker

    def drop(self, worker: PooledWorker) -> None:
        """Forget the call of a worker that is about to be ended."""
        self._workers = {ref: one for ref, one in self._workers.items() if one is not worker}

    def workers(self) -> list[PooledWorker]:
        """List the workers that have been called and have not answered."""
        return list(self._workers.values())

    def answered(self, seconds: float) -> list[tuple[PooledWorker, Outcome]]:
        """Return what is to be handled now; nothing if nothing comes within `seconds`."""
        ready, _ = skate.wait(list(self._workers), num_returns=1, timeout=seconds)
        return [(self._workers.pop(ref), _outcome(ref)) for ref in ready]


class CallsInStep(Calls):
    """Answers wait for each other."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[str, int] = {}  # of trials, as they began
        self._sent: dict[PooledWorker, Outcome] = {}  # those that are done with this step
        self._parts: dict[PooledWorker, list[TrialEvent]] = {}
        self._within = False  # a step

    def __len__(self) -> int:
        return len(self._workers) + len(self._sent)

    @property
    def may_start(self) -> bool:
        """Whether a step has ended: what starts within one would depend on the time."""
        return not self._within

    def add(self, worker: PooledWorker, ref: Any) -> None:
        super().add(worker, ref)
        assert worker.trial is not None
        self._places.setdefault(worker.trial.trial_id, len(self._places))

    def drop(self, worker: PooledWorker) -> None:
        super().drop(worker)
        self._parts.pop(worker, None)
        self._sent.pop(worker, None)

    def answered(self, seconds: float) -> list[tuple[PooledWorker, Outcome]]:
        refs = list(self._workers)
        ready, _ = skate.wait(refs, num_returns=len(refs), timeout=seconds) if refs else ([], [])
        for ref in ready:
            self._note(self._workers.pop(ref), _outcome(ref))
        self._within = bool(self._workers)
        if self._within:
            return []
        sent, self._sent = self._sent, {}
        return sorted(sent.items(), key=lambda item: self._place(item[0]))

    def _note(self, worker: PooledWorker, outcome: Outcome) -> None:
        events = [*self._parts.pop(worker, ()), *outcome[0]]
        if outcome[1] is not None or _is_whole(events):
            self._sent[worker] = events, outcome[1]
        else:
            self._parts[worker] = events
            super().add(worker, worker.actor.exchange.remote(TrialVerdict.GO_ON.value))

    def _place(self, worker: PooledWorker) -> int:
        assert worker.trial is not None
        return self._places[worker.trial.trial_id]


def _is_whole(events: Sequence[TrialEvent]) -> bool:
    """Return whether a trial has come to a report or to its end."""
    return bool(events) and not isinstance(events[-1], Began)


def _outcome(ref: Any) -> Outcome:
    try:
        return unpacked_events(skate.get(ref)), None
    except Exception as error:
        return (), error
