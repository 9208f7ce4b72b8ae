"""Workers that die are replaced one by one, while the others keep what they have in memory.

In the same way some come or go, as resources do.

    a rank has died ─► interrupt the others ─► start a newcomer ─► all join ─► connect ─► answer
                       (their collectives       (it runs the loop   (at their    (a new
                        fail, they go back       up to where the     last         process
                        to their last commit)    others are)         commit)      group)

Whoever dies on the way is replaced as well; one whose node is lost, with no room for it elsewhere,
is left out if there need not be as many, and the others move up. The state with the most commits
counts: a worker may have got through a collective in which another one was lost.

    room for more ─► start newcomers ─► they join ─► interrupt the others ─► all join ─► …
    room for less ─► interrupt all ─► the last ones leave their loops ─► the others join ─► …
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import skate
from skate._run.context import SessionInfo
from skate.exceptions import ActorUnavailableError, SkateError
from skate.train._conversation import Conversation, WorkersFailed, has_died
from skate.train._errors import WorkerHungError
from skate.train._workers.events import Answer, Event, Joined
from skate.train._workers.group import WorkerGroup
from skate.train._workers.membership import STEPS
from skate.train._workers.monitor import RankFailed
from skate.train.backend import Backend, BackendConfig

Known = TypeVar("Known")

AT_ONE_COMMIT = 4  # deaths without a commit in between, after which it is the state's own fault


class GroupReforming:
    """Replaces workers of a group, and changes their number.

    Args:
        group: The group.
        events: What is said to its workers.
        backend: Connects them.
        config: The settings of the back end.
        prepare: Gives the workers of these ranks, which are new, their jobs; the new parts of the
            datasets for all ranks, if there are datasets.
        may_replace: Is told who has failed, and says whether that is not too often.
    """

    def __init__(
        self,
        group: WorkerGroup,
        events: Conversation,
        backend: Backend,
        config: BackendConfig,
        prepare: Callable[[set[int]], list[dict[str, object]] | None],
        may_replace: Callable[[dict[int, BaseException]], bool],
    ) -> None:
        self._group = group
        self._events = events
        self._backend = backend
        self._config = config
        self._prepare = prepare
        self._may_replace = may_replace
        self._number = 0  # of the group, which is formed anew each time
        self.datasets: list[dict[str, object]] | None = None  # parts for the group as it is now
        self._commits = -1  # at the last death,
        self._deaths = 0  # and how many there were since

    def replace(self, failures: dict[int, BaseException]) -> dict[int, Event]:
        """Replace workers that have died.

        Args:
            failures: Why, by rank.

        Returns:
            With what all ranks have joined. The parts of the datasets are in `datasets` then.

        Raises:
            WorkersFailed: If they cannot be replaced, because others have failed for other
                reasons, nobody has a state, or it happens too often.
        """
        self._check(failures)
        dead = set(failures)
        self._interrupt(dead)
        return self._reform({}, {}, dead, failures)

    def resize(self, size: int) -> dict[int, Event] | None:
        """Have another number of workers.

        Args:
            size: How many.

        Returns:
            With what all ranks have joined; None if nothing has changed, because there is no room
            for more after all, or the new workers have failed.

        Raises:
            WorkersFailed: If others have failed meanwhile, and cannot be replaced.
        """
        before = len(self._group)
        if size < before:
            self._dismiss(size)
            return self._reform({}, {}, set(), None)
        joined: dict[int, Event] = {}
        told: dict[int, int] = {}
        new = self._group.grow(size)
        try:
            if new:
                self._bring(new, joined, told)
        except (SkateError, WorkerHungError, RankFailed):
            self._group.shrink(before)
            self._group.failures.clear()  # a death among the others is noticed by what they say
            self.datasets = None
            return None
        if not new:
            return None
        self._interrupt(new)
        return self._reform(joined, told, set(), None, is_prepared=True)

    def _bring(self, new: set[int], joined: dict[int, Event], told: dict[int, int]) -> None:
        """Have new workers come to where the others can take them in, who go on meanwhile."""
        self.datasets = self._prepare(new)
        told.update(dict.fromkeys(new, 0))
        self._events.collect_joining(joined, told, new)

    def _dismiss(self, size: int) -> None:
        """Have all but the first workers leave their loops, and end them."""
        leaving = set(range(size, len(self._group)))
        self._interrupt(set())
        calls = [self._group.workers[rank].dismiss.remote(LEAVE_SECONDS) for rank in leaving]
        skate.wait(calls, num_returns=len(calls), timeout=LEAVE_SECONDS)
        self._events.forget(leaving)
        self._group.shrink(size)

    def _reform(
        self,
        joined: dict[int, Event],
        told: dict[int, int],
        dead: set[int],
        failures: dict[int, BaseException] | None,
        is_prepared: bool = False,
    ) -> dict[int, Event]:
        """Have all join and connect, whoever dies on the way."""
        while True:
            try:
                if not is_prepared:
                    self._start(dead, joined, told, failures or {})
                told.update(dict.fromkeys(dead, 0))
                dead.clear()
                self._events.collect_joining(
                    joined, told, silence=lambda missing, s: self._notice_stuck(missing, told, s)
                )
                if failures:
                    self._check_progress(joined, failures)
                self._connect()
                return joined
            except RankFailed as failed:
                failures, is_prepared = {failed.rank: failed.error}, False
                self._check(failures)
                dead.add(failed.rank)  # to those, if any, that were not started for its sake
                joined.pop(failed.rank, None)

    def _notice_stuck(self, missing: list[int], told: dict[int, int], seconds: float) -> None:
        """Give up a worker whose loop was interrupted in vain."""
        for rank in missing if seconds > STUCK_SECONDS else ():
            try:
                if rank not in told and self._backend.waits_in_vain(self._group, rank):
                    error = WorkerHungError(f"rank {rank} waits for an operation that was ended")
                    raise RankFailed(rank, error)
            except (SkateError, WorkerHungError):
                self._group.failures.pop(rank, None)  # its pending answer tells of it

    def _check(self, failures: dict[int, BaseException]) -> None:
        replaceable = self._events.stage == STEPS and len(failures) < len(self._group)
        if not replaceable or not all(map(has_died, failures.values())):
            raise WorkersFailed(failures)
        unreached = [r for r, e in failures.items() if isinstance(e, ActorUnavailableError)]
        if not self._group.can_spare(unreached):  # a newcomer might wait for a node that is lost
            raise WorkersFailed(failures)
        if not self._may_replace(failures):
            raise WorkersFailed(failures)

    def _check_progress(
        self, joined: dict[int, Event], failures: dict[int, BaseException]
    ) -> None:
        commits = max(event.commits for event in joined.values())
        self._deaths = self._deaths + 1 if commits == self._commits else 1
        self._commits = commits
        if commits < 0 or self._deaths > AT_ONE_COMMIT:
            raise WorkersFailed(failures)

    def _interrupt(self, dead: set[int]) -> None:
        """Wake the others from whatever they wait for: it will not come."""
        self._number += 1
        alive = [rank for rank in range(len(self._group)) if rank not in dead]
        calls = [self._group.workers[rank].interrupt.remote(self._number) for rank in alive]
        calls += self._backend.on_interrupt(self._group, alive)
        skate.wait(calls, num_returns=len(calls), timeout=INTERRUPT_SECONDS)

    def _start(
        self,
        dead: set[int],
        joined: dict[int, Event],
        told: dict[int, int],
        failures: dict[int, BaseException],
    ) -> None:
        self._events.forget(dead)
        lost = {rank for rank in dead if not self._group.replace(rank)}
        if not self._group.can_spare(lost):
            raise WorkersFailed(failures)
        if lost:
            self._leave_out(lost, dead, joined, told)
        try:
            self.datasets = self._prepare(dead)
        except (SkateError, WorkerHungError) as error:
            raise self._failed(error) from error

    def _leave_out(
        self, lost: set[int], dead: set[int], joined: dict[int, Event], told: dict[int, int]
    ) -> None:
        """Have no worker where there is no room for one any more."""
        moved = self._group.leave_out(lost)
        self._events.renumber(moved)
        still = {moved[rank] for rank in dead - lost}
        dead.clear()
        dead.update(still)
        _renumber(joined, moved)
        _renumber(told, moved)

    def _connect(self) -> None:
        try:
            self._backend.on_reform(self._group, self._config)
        except (SkateError, WorkerHungError) as error:
            everybody = list(range(len(self._group)))
            skate.wait(self._backend.on_interrupt(self._group, everybody), timeout=1.0)
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> RankFailed:
        """Find out who has died, which may not be the one who says so."""
        try:
            self._group.gather([worker.ping.remote() for worker in self._group.workers])
        except (SkateError, WorkerHungError) as death:
            error = death
        failures, self._group.failures = self._group.failures, {}
        died = {rank: e for rank, e in failures.items() if has_died(e)} or failures
        rank = next(iter(died), 0)
        return RankFailed(rank, died.get(rank, error))


def _renumber(known: dict[int, Known], moved: dict[int, int]) -> None:
    """Have what is known of workers by the ranks that they have now."""
    now = {moved[rank]: value for rank, value in known.items() if rank in moved}
    known.clear()
    known.update(now)


STUCK_SECONDS = 5.0  # after which it is looked whether a worker that does not join ever will
LEAVE_SECONDS = 5.0  # in which the loops of workers that are not needed may clean up
INTERRUPT_SECONDS = 60.0  # in which a worker that is alive must have heard of it


def answers_to(
    joined: dict[int, Event],
    infos: list[SessionInfo],
    events: Conversation,
    next_checkpoint: int,
    is_new_group: bool,
    datasets: list[dict[str, object]] | None,
) -> dict[int, Answer]:
    """Make the answers to workers that have all joined, by rank."""
    source = max(joined, key=lambda rank: (joined[rank].commits, -rank))
    first = joined[source]
    replay = events.log.since(first.committed)
    return {
        rank: Answer(
            next_checkpoint,
            value=Joined(
                info=infos[rank],
                is_new_group=is_new_group,
                source=source,
                share=any(event.commits < first.commits for event in joined.values()),
                committed=first.committed,
                replay=replay,
                datasets=None if datasets is None else datasets[rank],
                positions=first.positions,
            ),
        )
        for rank in joined
    }
