"""What the controller and all workers of a group say to each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import skate
from skate.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    OutOfMemoryError,
    TaskError,
)
from skate.train._errors import WorkerHungError
from skate.train._view import View
from skate.train._workers.events import (
    FINISHED,
    JOINING,
    LEAVING,
    MEETING,
    REPORTED,
    Answer,
    Event,
)
from skate.train._workers.group import WorkerGroup
from skate.train._workers.membership import AFTER, SETUP, STEPS
from skate.train._workers.monitor import RankFailed, Silence

OTHERS_TOO_SECONDS = 0.5  # in which further ranks may fail for the same reason


class WorkersFailed(Exception):  # noqa: N818 - not an error that anybody else sees
    """Some ranks have failed, the one to blame first; the group is to be ended."""

    def __init__(self, failures: dict[int, BaseException]) -> None:
        super().__init__(failures)
        self.failures = failures


class AnswerLog:
    """What was answered to the workers, for a newcomer and for those that go back to a commit."""

    def __init__(self) -> None:
        self.setup: list[Answer] = []  # before the part of the loop that survives deaths
        self._recent: list[Answer] = []
        self._first = 0  # the number of the first of these, in that part

    def add(self, stage: str, answer: Answer) -> None:
        """Remember an answer to all workers."""
        if stage == SETUP:
            self.setup.append(answer)
        elif stage == STEPS:
            self._recent.append(answer)

    def since(self, number: int) -> list[Answer]:
        """Return the answers from this number on."""
        return self._recent[number - self._first :]

    def forget_until(self, number: int) -> None:
        """Forget the answers before this number, behind which nobody will go back."""
        del self._recent[: number - self._first]
        self._first = max(number, self._first)


class Conversation:
    """Asks all workers for their next event, and notices when one falls silent for good."""

    def __init__(self, group: WorkerGroup, view: View, check: Callable[[], None]) -> None:
        self._check = check  # raises if the workers may wait in vain
        self._workers = group.workers
        self._monitor = group.monitor
        self._view = view
        self._asked: dict[Any, int] = {}
        self._found: dict[int, Event] = {}  # what has come of that
        self.stage = SETUP
        self.log: AnswerLog = AnswerLog()
        self._ask(dict.fromkeys(range(len(group))))

    def answer(self, answer: Answer, remembered: bool) -> None:
        """Answer all workers alike, and ask them for what comes next.

        Args:
            answer: What they are told.
            remembered: Whether it may have to be told again.
        """
        if remembered:
            self.log.add(self.stage, answer)
        self._ask(dict.fromkeys(range(len(self._workers)), answer))

    def answer_joined(self, answers: dict[int, Answer]) -> None:
        """Tell each worker who it is, once all have joined."""
        self.stage = STEPS
        self._ask(answers)

    def answer_leaving(self, answer: Answer) -> None:
        """Answer all workers once they are done with the part of the loop that survives deaths."""
        self.stage = AFTER
        self._ask(dict.fromkeys(range(len(self._workers)), answer))

    def _ask(self, answers: Mapping[int, Answer | None]) -> None:
        self._found = {}
        self._asked = {
            self._workers[rank].next_event.remote(answer): rank for rank, answer in answers.items()
        }

    def forget(self, ranks: Collection[int]) -> None:
        """Forget what workers of these ranks were asked: they are gone, and nothing will come of
        it."""
        self._asked = {ref: rank for ref, rank in self._asked.items() if rank not in ranks}

    def renumber(self, moved: Mapping[int, int]) -> None:
        """Give workers other ranks from now on, by their old ones."""
        self._asked = {ref: moved[rank] for ref, rank in self._asked.items()}

    def collect_joining(
        self,
        joined: dict[int, Event],
        told: dict[int, int],
        ranks: Collection[int] | None = None,
        silence: Silence = lambda *_: None,
    ) -> None:
        """Wait until all ranks have joined. A newcomer is told what was answered to all before.

        Args:
            joined: The ranks that have, with their events; others are added as they come.
            told: The newcomers, and how much each was told so far.
            ranks: Whom to wait for; None is for all. What others say meanwhile is not lost.
            silence: Is told whom it still waits for, and for how many seconds.

        Raises:
            RankFailed: For a rank that fails or dies; what has come so far stays.
        """
        waiting = self._asked if ranks is None else {}
        for rank in range(len(self._workers)) if ranks is None else ranks:
            if rank not in joined and rank not in waiting.values():
                waiting[self._workers[rank].next_event.remote(None)] = rank

        def look(missing: list[int], seconds: float) -> None:
            self._check()
            silence(missing, seconds)

        for rank, event in self._monitor.answers(waiting, look):
            if event.kind == JOINING:
                joined[rank] = event
                continue
            answer = None  # what it did before it noticed counts for nothing
            if rank in told:
                answer = self._told_before(rank, told[rank], event)
                told[rank] += 1
            waiting[self._workers[rank].next_event.remote(answer)] = rank

    def _told_before(self, rank: int, number: int, event: Event) -> Answer:
        if event.kind in (REPORTED, MEETING) and number < len(self.log.setup):
            return self.log.setup[number]
        error = RuntimeError(
            f"rank {rank}, which takes the place of a worker that died, has {_DONE[event.kind]} "
            "where the others have not: what a loop does before ResilientState.run must be the "
            "same each time"
        )
        raise RankFailed(rank, error)

    def next(self, look: Callable[[], None]) -> list[Event]:
        """Return the next event of each rank, when all are there.

        Args:
            look: Is called whenever nothing has come for a while; if it raises, what has come is
                kept for the next call.
        """
        found = self._found

        def silence(missing: list[int], seconds: float) -> None:
            self._check()
            self._view.waiting(missing, found, seconds)
            look()

        try:
            for rank, event in self._monitor.answers(self._asked, silence):
                found[rank] = event
                if len({event.kind for event in found.values()}) > 1:
                    _check_together(found)  # they will never meet
        except RankFailed as failed:
            raise WorkersFailed(self._failures_with(failed)) from failed.error
        self.log.forget_until(min(event.committed for event in found.values()))
        return [found[rank] for rank in sorted(found)]

    def wait(self, seconds: float) -> None:
        """Wait until all workers have something to say, or for this long."""
        skate.wait(list(self._asked), num_returns=len(self._asked), timeout=seconds)

    def _failures_with(self, first: RankFailed) -> dict[int, BaseException]:
        """Find out who is to blame. A process that died makes others fail, whose errors may arrive
        before the news of its death: then it is those that died."""
        failures = {first.rank: first.error}
        if not has_died(first.error):
            self.wait(OTHERS_TOO_SECONDS)
            for ref, rank in self._asked.items():
                try:
                    skate.get(ref, timeout=0)
                except GetTimeoutError:
                    pass
                except Exception as error:
                    failures[rank] = error
        return {rank: e for rank, e in failures.items() if has_died(e)} or failures


def has_died(error: BaseException) -> bool:
    """Return whether a worker's process is gone, or as good as that: not one that its loop has
    started, whose error the loop raises."""
    return isinstance(error, _DEATHS) and not isinstance(error, TaskError)


# Of a worker on a lost node, the first that is heard is that it cannot be reached.
_DEATHS = (ActorDiedError, ActorUnavailableError, OutOfMemoryError, WorkerHungError)


def _check_together(reports: dict[int, Event]) -> None:
    kinds = {rank: event.kind for rank, event in sorted(reports.items())}
    if len(set(kinds.values())) > 1:
        done = "; ".join(f"rank {rank} has {_DONE[kind]}" for rank, kind in kinds.items())
        error = RuntimeError(
            f"the workers are out of step: {done}. All of them must call report, and the "
            "functions of train.collective, equally often and in the same order"
        )
        odd = next((rank for rank, kind in kinds.items() if kind == FINISHED), 0)
        raise WorkersFailed({odd: error})


_DONE = {
    REPORTED: "reported",
    FINISHED: "returned from the loop",
    MEETING: "called a function of train.collective",
    JOINING: "begun ResilientState.run",
    LEAVING: "returned from ResilientState.run",
}
