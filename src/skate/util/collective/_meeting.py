"""How the members of a group find each other.

The first member to arrive starts a named actor, the others find it by its name. It waits until
all have arrived, and hands around the addresses that gloo wants to exchange. Once everyone is
connected nobody needs it, and it ends with its last handle.

A group that was declared from outside (`create_collective_group`) has its meeting started by
then, which knows the rank of each actor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import skate

if TYPE_CHECKING:
    import asyncio


def open_meeting(group_name: str) -> Any:
    """Return the meeting for a group; a new one if there is none."""
    options = {"name": _name(group_name), "get_if_exists": True, "num_cpus": 0}
    actor_class: Any = skate.remote(Meeting)
    return actor_class.options(**options).remote(group_name)


def declare_meeting(group_name: str, ranks: dict[str, int], timeout: float, backend: str) -> None:
    """Start a meeting that knows its members, for as long as the program runs."""
    if find_meeting(group_name) is not None:
        raise RuntimeError(f"the collective group {group_name!r} exists already; destroy it first")
    options = {"name": _name(group_name), "lifetime": "detached", "num_cpus": 0}
    actor_class: Any = skate.remote(Meeting)
    meeting = actor_class.options(**options).remote(group_name)
    skate.get(meeting.declare.remote(ranks, timeout, backend))


def find_meeting(group_name: str) -> Any:
    """Return the meeting for a group, or None."""
    try:
        return skate.get_actor(_name(group_name))
    except ValueError:
        return None


def _name(group_name: str) -> str:
    return f"skate-collective-{group_name}"


class _Round:
    """One gathering of all members."""

    def __init__(self, number: int, world_size: int) -> None:
        import asyncio

        self.number = number
        self.world_size = world_size
        self.ranks: set[int] = set()
        self.complete = asyncio.Event()


class Meeting:
    """The actor. All methods are async: members wait in them for each other."""

    def __init__(self, group_name: str) -> None:
        import asyncio

        self._group_name = group_name
        self._round: _Round | None = None
        self._rounds = 0
        self._values: dict[str, bytes] = {}
        self._change: asyncio.Condition = asyncio.Condition()
        self._members: tuple[dict[str, int], float, str] = ({}, 0.0, "")

    def waits_because(self, method: str) -> str | None:
        gathering = self._round
        if method != "join" or gathering is None:
            return None
        missing = ", ".join(
            str(r) for r in range(gathering.world_size) if r not in gathering.ranks
        )
        return (
            f"rank {missing} of {gathering.world_size} has not joined the collective group "
            f"{self._group_name!r}"
        )

    async def declare(self, ranks: dict[str, int], timeout: float, backend: str) -> None:
        self._members = (ranks, timeout, backend)

    async def members(self) -> tuple[dict[str, int], float, str]:
        """Return what a group is that was declared from outside: the rank of each actor id, the
        timeout, the backend."""
        return self._members

    async def join(self, rank: int, world_size: int, timeout: float) -> int:
        """Wait until all ranks are here; returns the number of this gathering."""
        import asyncio

        gathering = self._admit(rank, world_size)
        try:
            await asyncio.wait_for(gathering.complete.wait(), timeout)
        except asyncio.TimeoutError:
            missing = sorted(set(range(world_size)) - gathering.ranks)
            self._dismiss(rank, gathering)
            raise TimeoutError(
                f"the collective group {self._group_name!r} is not complete after {timeout:g} s: "
                f"rank {', '.join(map(str, missing))} of {world_size} did not join"
            ) from None
        return gathering.number

    def _admit(self, rank: int, world_size: int) -> _Round:
        if self._round is None:
            self._rounds += 1
            self._round = _Round(self._rounds, world_size)
        gathering = self._round
        if gathering.world_size != world_size or rank in gathering.ranks:
            raise ValueError(
                f"rank {rank} of {world_size} cannot join the collective group "
                f"{self._group_name!r}: ranks {sorted(gathering.ranks)} of "
                f"{gathering.world_size} are waiting there"
            )
        gathering.ranks.add(rank)
        if len(gathering.ranks) == world_size:
            self._round = None
            gathering.complete.set()
        return gathering

    def _dismiss(self, rank: int, gathering: _Round) -> None:
        gathering.ranks.discard(rank)
        if not gathering.ranks and self._round is gathering:
            self._round = None

    async def set(self, key: str, value: bytes) -> None:
        async with self._change:
            self._values[key] = value
            self._change.notify_all()

    async def get(self, keys: list[str], timeout: float) -> list[bytes]:
        """Return the values of all keys, as soon as they are there."""
        import asyncio

        async with self._change:
            there = self._change.wait_for(lambda: all(key in self._values for key in keys))
            try:
                await asyncio.wait_for(there, timeout)
            except asyncio.TimeoutError:
                missing = [key for key in keys if key not in self._values]
                raise TimeoutError(f"{missing} did not come within {timeout:g} s") from None
            return [self._values[key] for key in keys]
