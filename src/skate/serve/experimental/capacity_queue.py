"""One count of free places for all processes that send requests to a deployment.

    router ── acquire ─► CapacityQueue, an actor of the deployment ◄─ its replicas ─ controller
       │  ◄─ a replica with a free place ─┘        ▲
       └── the request ends ─────────── release ───┘

Without it, each process knows of its own requests only, and a replica that is full refuses those
of others.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict, deque
from dataclasses import dataclass

import skate
from skate._core.argument_checks import numbers, optional, seconds
from skate.serve import _client
from skate.serve._replica.deployment_actors import get_deployment_actor_context
from skate.serve._routing.routing_table import RoutingTable
from skate.serve._system_actors import MAX_CALLS

__all__ = ["CapacityQueue", "CapacityQueueStats", "ReplicaCapacityInfo"]

Waiter = asyncio.Future[str | None]

_patience = numbers(0, "a number of seconds, 0 or more")
_lifetime = optional(numbers(0, "None or a number of seconds above 0", above=True))


@dataclass
class CapacityQueueStats:
    """What a queue has done so far.

    Args:
        queue_size: How many places are free.
        num_waiters: How many wait for one.
        num_replicas: How many replicas there are.
        total_capacity: How many places they have.
        total_in_flight: How many of them are taken.
        total_acquires: How often one was asked for.
        total_releases: How often one was given back.
        total_timeouts: How often there was none in time.
        max_waiters_seen: How many have waited at once, at the most.
    """

    queue_size: int
    num_waiters: int
    num_replicas: int
    total_capacity: int
    total_in_flight: int
    total_acquires: int
    total_releases: int
    total_timeouts: int
    max_waiters_seen: int


@dataclass
class ReplicaCapacityInfo:
    """The places of a replica.

    Args:
        replica_id: The replica, by its `unique_id`.
        max_capacity: How many it has.
        in_flight: How many are taken.
    """

    replica_id: str
    max_capacity: int
    in_flight: int = 0

    @property
    def free(self) -> int:
        """How many are free."""
        return max(0, self.max_capacity - self.in_flight)


@skate.remote(num_cpus=0, max_concurrency=MAX_CALLS)  # each that waits is a call
class CapacityQueue:
    """Gives out places of replicas, of the least busy first; one of the `deployment_actors`.

    A `CapacityQueueRouter` asks it. One that was restarted does not know which places are taken:
    replicas refuse what is too much, and the count is right again when those requests have ended.

    Args:
        acquire_timeout_s: How long to wait for a place before None is the answer.
        token_ttl_s: After how many seconds a place counts as free that nobody gave back, because
            its process has died; None for never.
        _enable_long_poll: Whether the controller tells which replicas there are; without it,
            `register_replica` and `unregister_replica` do.

    Raises:
        TypeError: If a time is no number.
        ValueError: If it is below 0, or the lifetime of a place 0.
    """

    def __init__(
        self,
        acquire_timeout_s: float,
        token_ttl_s: float | None = None,
        _enable_long_poll: bool = True,
    ) -> None:
        self._acquire_timeout_s = _patience("acquire_timeout_s", acquire_timeout_s)
        self._token_ttl_s = _lifetime("token_ttl_s", token_ttl_s)
        self._replicas: dict[str, ReplicaCapacityInfo] = {}
        self._waiters: OrderedDict[Waiter, None] = OrderedDict()  # who came first is first
        self._expiries: dict[str, deque[asyncio.TimerHandle]] = {}  # of taken places, oldest first
        self._total_acquires = self._total_releases = self._total_timeouts = 0
        self._max_waiters_seen = 0
        if _enable_long_poll:
            self._listen()

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        id = get_deployment_actor_context().deployment_id

        def hand_over(table: RoutingTable) -> None:
            loop.call_soon_threadsafe(self._update, table)

        replicas = ("replicas", id.app_name, id.name)
        _client.Subscription(_client.connect().controller, replicas, hand_over).start()

    def _update(self, table: RoutingTable) -> None:
        tags = [entry.tag for entry in table.replicas]
        for gone in self._replicas.keys() - set(tags):
            self.unregister_replica(gone)
        for tag in tags:
            self.register_replica(tag, table.max_ongoing_requests)
            self._replicas[tag].max_capacity = table.max_ongoing_requests
        self._serve_waiters()

    def register_replica(self, replica_id: str, capacity: int) -> None:
        """Add a replica; one that is known stays as it is.

        Args:
            replica_id: Its `unique_id`.
            capacity: How many places it has.
        """
        if replica_id not in self._replicas:
            self._replicas[replica_id] = ReplicaCapacityInfo(replica_id, capacity)
            self._serve_waiters()

    def unregister_replica(self, replica_id: str) -> None:
        """Forget a replica and its places, if it is known.

        Args:
            replica_id: Its `unique_id`.
        """
        self._replicas.pop(replica_id, None)
        for expiry in self._expiries.pop(replica_id, ()):
            expiry.cancel()

    async def acquire(self, timeout_s: float | None = None) -> str | None:
        """Take a place, once there is one; `release` gives it back.

        Args:
            timeout_s: How long to wait for it; `acquire_timeout_s` if it is left out.

        Returns:
            The `unique_id` of the replica; None if no place was free in time.

        Raises:
            TypeError: If `timeout_s` is no number.
            ValueError: If it is below 0.
        """
        patience = seconds("timeout_s", timeout_s)
        self._total_acquires += 1
        taken = self._take()
        return await self._wait(patience) if taken is None else taken

    async def _wait(self, timeout_s: float | None) -> str | None:
        loop = asyncio.get_running_loop()
        waiter: Waiter = loop.create_future()
        self._waiters[waiter] = None
        self._max_waiters_seen = max(self._max_waiters_seen, len(self._waiters))
        patience = self._acquire_timeout_s if timeout_s is None else timeout_s
        limit = loop.call_later(patience, self._give_up, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._waiters.pop(waiter, None)
            elif (unused := waiter.result()) is not None:  # it came at the same moment
                self._free(unused)
            raise
        finally:
            limit.cancel()

    def _give_up(self, waiter: Waiter) -> None:
        if not waiter.done():
            self._total_timeouts += 1
            del self._waiters[waiter]
            waiter.set_result(None)

    def release(self, replica_id: str) -> None:
        """Give a place back; one of a replica that is gone is forgotten.

        Args:
            replica_id: What `acquire` returned.
        """
        self._total_releases += 1
        self._free(replica_id)

    def _take(self) -> str | None:
        """Take a place of one of the least busy replicas, if one is free."""
        free = [info for info in self._replicas.values() if info.free]
        if not free:
            return None
        least = min(info.in_flight for info in free)
        chosen = random.choice([info for info in free if info.in_flight == least])
        chosen.in_flight += 1
        if self._token_ttl_s is not None:
            loop = asyncio.get_running_loop()
            expiry = loop.call_later(self._token_ttl_s, self._free, chosen.replica_id)
            self._expiries.setdefault(chosen.replica_id, deque()).append(expiry)
        return chosen.replica_id

    def _free(self, replica_id: str) -> None:
        """Let one place less of a replica be taken: the one that has been for the longest."""
        expiries = self._expiries.get(replica_id)
        if expiries:
            expiries.popleft().cancel()
        info = self._replicas.get(replica_id)
        if info is not None and info.in_flight:
            info.in_flight -= 1
            self._serve_waiters()

    def _serve_waiters(self) -> None:
        while (waiter := self._first_waiter()) and (taken := self._take()) is not None:
            del self._waiters[waiter]
            waiter.set_result(taken)

    def _first_waiter(self) -> Waiter | None:
        while self._waiters:
            first = next(iter(self._waiters))
            if not first.done():
                return first
            del self._waiters[first]  # it is cancelled, and has yet to be told
        return None

    def get_stats(self) -> CapacityQueueStats:
        """Return what the queue has done so far."""
        replicas = self._replicas.values()
        return CapacityQueueStats(
            queue_size=self.get_queue_length(),
            num_waiters=len(self._waiters),
            num_replicas=len(replicas),
            total_capacity=sum(info.max_capacity for info in replicas),
            total_in_flight=sum(info.in_flight for info in replicas),
            total_acquires=self._total_acquires,
            total_releases=self._total_releases,
            total_timeouts=self._total_timeouts,
            max_waiters_seen=self._max_waiters_seen,
        )

    def get_queue_length(self) -> int:
        """Return how many places are free."""
        return sum(info.free for info in self._replicas.values())

    def get_num_waiters(self) -> int:
        """Return how many wait for a place."""
        return len(self._waiters)

    def get_registered_replicas(self) -> list[str]:
        """Return the replicas that there are."""
        return list(self._replicas)

    def get_replica_in_flight(self) -> dict[str, tuple[int, int]]:
        """Return of each replica how many places are taken, and how many it has."""
        return {tag: (info.in_flight, info.max_capacity) for tag, info in self._replicas.items()}
