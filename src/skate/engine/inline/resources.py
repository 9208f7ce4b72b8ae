"""Bookkeeping of resources. Nothing ever waits here: one thread runs one thing after the other,
so a request is either possible on this machine or an error."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from skate._core.accelerators import NUMBERED, hidden_variables, nth, variables_for, visible_ids
from skate.exceptions import TaskUnschedulableError

if TYPE_CHECKING:
    from skate._core.refs import ObjectRef
    from skate.engine.specs import ActorOptions, TaskOptions

Amounts = dict[str, float]


class Holding:
    """What one running task or living actor has."""

    __slots__ = ("accelerators", "amounts")

    def __init__(
        self, amounts: Amounts, accelerators: Mapping[str, tuple[int, ...]] | None = None
    ) -> None:
        self.amounts: Amounts = amounts
        # Their numbers, by resource.
        self.accelerators: Mapping[str, tuple[int, ...]] = accelerators or {}


class InlineGroup:
    """A placement group."""

    def __init__(self, bundles: list[Amounts], strategy: str, name: str) -> None:
        self.bundles = bundles
        self.strategy = strategy
        self.name = name
        self.removed = False

    def fits(self, amounts: Amounts, index: int) -> bool:
        bundles = self.bundles if index < 0 else self.bundles[index : index + 1]
        return any(not _lacking(amounts, bundle) for bundle in bundles)


def total_of(bundles: Iterable[Amounts]) -> Amounts:
    """Return the sum of what bundles have."""
    total: Amounts = {}
    for bundle in bundles:
        for name, amount in bundle.items():
            total[name] = total.get(name, 0.0) + amount
    return total


class InlineResources:
    """What this machine has, as far as the program is told, and who has which part of it."""

    def __init__(
        self,
        num_cpus: float | None,
        num_gpus: float | None,
        memory: int | None,
        object_store_memory: int | None,
        custom: Mapping[str, float] | None,
    ) -> None:
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self.total: Amounts = {
            "CPU": float(os.cpu_count() or 1) if num_cpus is None else float(num_cpus),
            "GPU": float(num_gpus or 0),
            "memory": float(memory or int(physical * 0.7)),
            "object_store_memory": float(object_store_memory or int(physical * 0.3)),
            "node:127.0.0.1": 1.0,
            **(custom or {}),
        }
        self._visible = {name: visible_ids(name) for name in NUMBERED if self.total.get(name)}
        # Changed from destructors, so by single dictionary operations instead of under a lock.
        self._held: dict[int, Holding] = {}

    def grow(self, more: Mapping[str, float]) -> None:
        for name, amount in more.items():
            self.total[name] = self.total.get(name, 0.0) + amount

    def hold(self, holding: Holding) -> None:
        self._held[id(holding)] = holding

    def free(self, holding: Holding) -> None:
        self._held.pop(id(holding), None)

    def available(self) -> Amounts:
        left = dict(self.total)
        for holding in list(self._held.values()):
            for name, amount in holding.amounts.items():
                left[name] = left.get(name, 0.0) - amount
        return {name: amount for name, amount in left.items() if amount > 0}

    def choose(self, amounts: Amounts) -> dict[str, tuple[int, ...]]:
        """Return the accelerators that the fewest others use, by resource."""
        return {
            name: self._least_used(name, amounts[name]) for name in NUMBERED if name in amounts
        }

    def _least_used(self, resource: str, amount: float) -> tuple[int, ...]:
        users = dict.fromkeys(range(int(self.total.get(resource, 0))), 0)
        for holding in list(self._held.values()):
            for number in holding.accelerators.get(resource, ()):
                if number in users:  # else it was taken away
                    users[number] += 1
        wanted = max(1, int(amount))
        return tuple(sorted(sorted(users, key=lambda number: (users[number], number))[:wanted]))

    def accelerator_ids(self, holding: Holding) -> dict[str, tuple[int | str, ...]]:
        return {
            name: nth(numbers, self._visible.get(name))
            for name, numbers in holding.accelerators.items()
        }

    def variables(self, ids: Mapping[str, Sequence[int | str]]) -> dict[str, str]:
        """Return variables that say which accelerators may be used."""
        there = [name for name in NUMBERED if self.total.get(name)]
        shown = variables_for(ids, os.environ)
        hidden = hidden_variables(there, os.environ)
        return hidden | {name: text for name, text in shown.items() if text is not None}

    def check(self, amounts: Amounts, what: str) -> None:
        """Raise TaskUnschedulableError for what this machine can never give."""
        lacking = _lacking(amounts, self.total)
        if lacking:
            asked = ", ".join(f"{name}: {amounts[name]:g}" for name in lacking)
            there = ", ".join(f"{name}: {self.total.get(name, 0):g}" for name in lacking)
            raise TaskUnschedulableError(
                f"{what} asks for {{{asked}}}, but this machine has {{{there}}}. Ask for less, "
                f"or declare more: {_declaration(amounts, lacking)}"
            )


def _lacking(amounts: Amounts, total: Amounts) -> list[str]:
    # The sum of a group's bundles is not exact: fifty times 0.04 is a little more than 2.
    return [name for name, amount in amounts.items() if round(amount - total.get(name, 0), 4) > 0]


def _declaration(amounts: Amounts, lacking: list[str]) -> str:
    by_option = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "_memory"}
    first = lacking[0]
    if first in by_option:
        return f"skate.init({by_option[first]}={amounts[first]:g})"
    return f"skate.init(resources={{{first!r}: {amounts[first]:g}}})"


def request(options: TaskOptions | ActorOptions, default_cpus: float) -> Amounts:
    """Return the resources that the options ask for."""
    amounts: Amounts = {
        "CPU": default_cpus if options.num_cpus is None else options.num_cpus,
        "GPU": options.num_gpus or 0.0,
        "memory": float(options.memory or 0),
        **(options.resources or {}),
    }
    return {name: amount for name, amount in amounts.items() if amount}


def group_id(ref: ObjectRef[object]) -> str:
    from skate._core.ids import PlacementGroupID

    return ref.binary()[-PlacementGroupID.SIZE :].hex()
