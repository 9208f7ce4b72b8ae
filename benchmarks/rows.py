"""The rows of the table: what is measured, on which systems, and the goal for skate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Values = Mapping[str, float]

POOLS = ("ppe", "loky", "dask")


@dataclass(frozen=True)
class Goal:
    """A demand on skate's number, given all the numbers of the row."""

    text: str
    needs: tuple[str, ...]
    holds: Callable[[Values], bool]


def times_ray(factor: float) -> Goal:
    return Goal(f">= {factor:g} x Ray", ("ray",), lambda v: v["skate"] >= factor * v["ray"])


def times_faster_than_ray(factor: float) -> Goal:
    """For rows in seconds."""
    return Goal(f">= {factor:g} x Ray", ("ray",), lambda v: v["skate"] * factor <= v["ray"])


def ahead_of(*systems: str) -> Goal:
    text = f"ahead of {', '.join(systems)}"
    return Goal(text, systems, lambda v: v["skate"] > max(v[name] for name in systems))


def share_of(system: str, share: float) -> Goal:
    text = f">= {share:g} of {system}"
    return Goal(text, (system,), lambda v: v["skate"] >= share * v[system])


def times_of(system: str, factor: float) -> Goal:
    text = f">= {factor:g} x {system}"
    return Goal(text, (system,), lambda v: v["skate"] >= factor * v[system])


def at_least(number: float, unit: str) -> Goal:
    return Goal(f">= {number:g} {unit}", (), lambda v: v["skate"] >= number)


def at_most(number: float, unit: str) -> Goal:
    return Goal(f"<= {number:g} {unit}", (), lambda v: v["skate"] <= number)


@dataclass(frozen=True)
class Row:
    name: str
    title: str
    unit: str
    goals: tuple[Goal, ...]
    peers: tuple[str, ...] = field(default=("ray",))
    less_is_better: bool = False

    def advantage(self, values: Values) -> float | None:
        """How many times better skate is than Ray."""
        if "skate" not in values or "ray" not in values:
            return None
        better, worse = values["skate"], values["ray"]
        return worse / better if self.less_is_better else better / worse


ROWS = (
    Row("start", "whole program, over `python -c pass`", "s",
        (at_most(0.15, "s"), times_faster_than_ray(30)), ("ray", *POOLS), less_is_better=True),
    Row("task_sync", "task, one at a time", "/s",
        (times_ray(8), ahead_of(*POOLS)), ("ray", *POOLS)),
    Row("task_async", "task, 1,000 at a time", "/s",
        (times_ray(20), ahead_of(*POOLS)), ("ray", *POOLS)),
    Row("executor", "futures of an executor, 1,000 at a time", "/s",
        (times_of("ppe", 5),), ("ppe", "loky")),
    Row("actor_sync", "actor call, one at a time", "/s",
        (times_ray(6), share_of("socket", 0.5)), ("ray", "socket")),
    Row("actor_async", "actor call, 1,000 at a time", "/s", (times_ray(20),)),
    Row("actor_many_to_many", "actor calls, n to n", "/s", (times_ray(10),)),
    Row("actor_async_methods", "async methods, 1,000 at a time", "/s", (times_ray(15),)),
    Row("put_small", "put of a small value", "/s", (times_ray(30),)),
    Row("get_small", "get of a small value", "/s", (times_ray(30),)),
    Row("put_large", "put of 64 MB, repeated", "GB/s",
        (share_of("memcpy", 0.85),), ("ray", "memcpy")),
    Row("call_with_reference", "call with a 64 MB reference / without", "x",
        (at_most(1.5, "x"),), less_is_better=True),
    Row("wait_one_by_one", "wait one by one over 1,000 tasks", "/s", (times_ray(20),)),
    Row("actors_created", "actors created and answering, warm", "/s", (at_least(100, "/s"),)),
    Row("memory_idle", "memory (PSS), 2 idle workers", "MB",
        (at_most(40, "MB"),), ("ray", *POOLS), less_is_better=True),
    Row("memory_actors", "memory (PSS), with 13 actors", "MB",
        (at_most(70, "MB"),), less_is_better=True),
    Row("shutdown", "shutdown", "s",
        (at_most(0.1, "s"),), ("ray", "ppe", "loky"), less_is_better=True),
)  # fmt: skip
