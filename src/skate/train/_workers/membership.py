"""A worker's side of a group whose workers may be replaced one by one.

    SETUP ── join ──► STEPS ── leave ──► AFTER
                      ▲   │ a peer is lost: what is under way fails, the state goes back to its
                      └───┘ last commit, and all join again, the newcomer with them

In STEPS a loop may be sent back to its last commit. What was answered to it since then is kept,
and is answered again without asking anybody: a result that is recorded is not reported twice. So
is what was answered in SETUP, by the controller, to a newcomer, which goes through that alone.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from dataclasses import dataclass, field

from skate._run.types import Positions
from skate.train._workers.events import JOINING, LEAVING, Answer, Event, Joined, StoppedError

SETUP, STEPS, AFTER = "setup", "steps", "after"


class PeerLostError(RuntimeError):
    """Another worker of the group is gone: `ResilientState.run` goes back to the last commit."""


@dataclass
class LoopMailbox:
    """Between the loop's thread and the calls from outside."""

    events: queue.SimpleQueue[Event | BaseException] = field(default_factory=queue.SimpleQueue)
    answers: queue.SimpleQueue[Answer] = field(default_factory=queue.SimpleQueue)


class Membership:
    """Exchanges events of a loop for answers, until the group has lost a worker.

    Args:
        mailbox: Where the controller's calls find the events, and put the answers.
        is_newcomer: Whether this worker takes the place of one that died.
    """

    def __init__(self, mailbox: LoopMailbox, is_newcomer: bool = False) -> None:
        self.is_newcomer = is_newcomer
        self.stage = SETUP
        self.lost: threading.Event = threading.Event()
        self._mailbox = mailbox
        self._group = 0  # the number of the group that this worker is in,
        self._lost_group = 0  # and of the last one that has lost somebody
        self._answered = self._committed = 0
        self._replay: deque[Answer] = deque()

    @property
    def replays(self) -> bool:
        """Whether the next exchange has happened before, so that it needs no event."""
        return bool(self._replay)

    def exchange(self, event: Event) -> Answer:
        """Return what the controller answers.

        Raises:
            PeerLostError: If a worker is lost meanwhile.
        """
        self._answered += 1
        if self._replay:
            return self._replay.popleft()
        event.committed = self._committed
        self._mailbox.events.put(event)
        while True:
            answer = self._mailbox.answers.get()
            if not answer.lost:
                return answer
            if answer.lost > self._group:  # else it is about a group that was left since
                raise PeerLostError("another worker of the group is gone")

    def interrupt(self, group: int) -> None:
        """Tell the loop, from outside, that this group, in which the worker is, has lost
        somebody."""
        self._lost_group = group
        self.lost.set()
        self._mailbox.answers.put(Answer(0, lost=group))

    # -- the part of a loop that survives deaths ------------------------------------------------

    def join(self, commits: int, positions: Positions) -> Joined:
        """Wait until all are here, and a process group with them.

        Args:
            commits: How many the worker's state has; -1 if it has none that could be used.
            positions: How far the datasets were read at the last one.

        Raises:
            StoppedError: If the group goes on without this worker.
        """
        self._group = self._lost_group
        self.lost.clear()
        self._replay.clear()
        self.stage = STEPS
        event = Event(JOINING, commits=commits, positions=positions)
        answer = self.exchange(event)
        if answer.stop:
            raise StoppedError
        joined: Joined = answer.value
        self._answered = self._committed = joined.committed
        self._replay.extend(joined.replay)
        return joined

    def commit(self) -> None:
        """Declare that what was answered until now will not be answered again.

        Raises:
            PeerLostError: If a worker is lost; the commit holds.
        """
        self._committed = self._answered
        self.check()

    def check(self) -> None:
        """Raise if the group has lost a worker."""
        if self.lost.is_set():
            raise PeerLostError("another worker of the group is gone")

    def leave(self) -> None:
        """Wait until all are done with that part; from now on a death is one of the whole group.

        Raises:
            PeerLostError: If one was lost before it was done.
        """
        self._replay.clear()
        self.exchange(Event(LEAVING))
        self.stage = AFTER
