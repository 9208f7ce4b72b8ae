"""How much of what there is, and who has it.

Amounts are integers in ten-thousandths, so that ten tenths of a GPU are one GPU. Accelerators are
numbered: whoever takes one (or a part of one) knows which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skate._core.accelerators import NUMBERED

UNIT = 10_000
CPU = "CPU"

Demand = Mapping[str, int]
Numbered = Mapping[str, Sequence[tuple[int, int]]]  # by resource: numbers, and how much of each

_NONE: Numbered = {}


def to_units(amounts: Mapping[str, float]) -> dict[str, int]:
    """Return the user's amounts as integers; zeros are left out."""
    units = {name: round(amount * UNIT) for name, amount in amounts.items()}
    return {name: amount for name, amount in units.items() if amount > 0}


def from_units(amounts: Demand) -> dict[str, float]:
    return {name: amount / UNIT for name, amount in amounts.items() if amount > 0}


class Allocation:
    """What someone has taken, from which pool, and which accelerators."""

    __slots__ = ("demand", "lent_cpu", "numbered", "pool")

    def __init__(self, pool: ResourcePool, demand: Demand, numbered: Numbered) -> None:
        self.pool: ResourcePool = pool
        self.demand: Demand = demand
        self.numbered: Numbered = numbered
        self.lent_cpu: int = 0  # given back while its worker is blocked

    def numbers(self, resource: str) -> tuple[int, ...]:
        """Return which of the accelerators it has."""
        return tuple(number for number, _ in self.numbered.get(resource, ()))


class ResourcePool:
    """Amounts that can be taken and given back."""

    def __init__(
        self,
        total: Demand,
        numbered: Numbered | None = None,
        growing: bool = False,
    ) -> None:
        self.growing: bool = growing  # more may come: what is too much today waits
        self.total: dict[str, int] = dict(total)
        self.free: dict[str, int] = dict(total)
        self.owed: dict[str, int] = {}  # taken away while in use: is not free when it comes back
        self._retired: dict[str, list[int]] = {}  # accelerators that nobody gets any more
        self._numbered: dict[str, dict[int, int]] = {}  # what is free of each accelerator
        if numbered is None:
            self._number(self.total)
        else:
            self._numbered = {name: dict(parts) for name, parts in numbered.items()}

    def grow(self, amounts: Demand) -> None:
        """Have so much more from now on; new accelerators are numbered after the others."""
        for name, amount in amounts.items():
            self.total[name] = self.total.get(name, 0) + amount
            self.free.setdefault(name, 0)
            self._free(name, amount)
        self._number(amounts)

    def shrink(self, amounts: Demand) -> None:
        """Have so much less from now on: of what is free, and the rest when it comes back."""
        self.growing = True
        for name, amount in amounts.items():
            self.total[name] -= amount
            now = min(amount, max(self.free[name], 0))
            self.free[name] -= now
            if amount > now:
                self.owed[name] = self.owed.get(name, 0) + amount - now
            if name in self._numbered:
                self._retire(name, amount // UNIT)

    def _free(self, name: str, amount: int) -> None:
        if self.owed:
            owed = self.owed.pop(name, 0)
            if owed > amount:
                self.owed[name] = owed - amount
            amount = max(0, amount - owed)
        self.free[name] += amount

    def _number(self, amounts: Demand) -> None:
        for name in NUMBERED:
            amount = amounts.get(name, 0)
            known, retired = self._numbered.get(name, {}), self._retired.get(name, [])
            while retired and amount >= UNIT:
                known[retired.pop()] += UNIT
                amount -= UNIT
            if amount:
                self._numbered.setdefault(name, known).update(_numbered(amount, len(known)))

    def _retire(self, name: str, count: int) -> None:
        """Take accelerators out of use, free ones first, of these the last."""
        free, retired = self._numbered[name], self._retired.setdefault(name, [])
        there = [number for number in free if number not in retired]
        for number in sorted(there, key=lambda n: (free[n], n), reverse=True)[:count]:
            free[number] -= UNIT
            retired.append(number)

    def could_ever_fit(self, demand: Demand) -> bool:
        lacking = [name for name, amount in demand.items() if self.total.get(name, 0) < amount]
        # A machine that is asked for by its id never comes.
        return not lacking or (self.growing and not any(n.startswith("node:") for n in lacking))

    def would_fit(self, demand: Demand, returned: Allocation) -> bool:
        """Return whether the demand would be free once the allocation has come back."""
        free, back = self.free, returned.demand
        return all(free.get(n, 0) + back.get(n, 0) >= amount for n, amount in demand.items())

    def take(self, demand: Demand) -> Allocation | None:
        """Take all of the demand, or return None and change nothing."""
        free = self.free
        for name, amount in demand.items():
            if free.get(name, 0) < amount:
                return None
        numbered = self._choose(demand) if self._numbered else _NONE
        if numbered is None:
            return None
        for name, amount in demand.items():
            free[name] -= amount
        for name, parts in numbered.items():
            for number, amount in parts:
                self._numbered[name][number] -= amount
        return Allocation(self, demand, numbered)

    def give_back(self, allocation: Allocation) -> None:
        self.reclaim_cpu(allocation)
        for name, amount in allocation.demand.items():
            self._free(name, amount)
        for name, parts in allocation.numbered.items():
            for number, amount in parts:
                self._numbered[name][number] += amount

    def lend_cpu(self, allocation: Allocation) -> None:
        """Free the CPUs of a holder that waits for others."""
        if not allocation.lent_cpu:
            allocation.lent_cpu = allocation.demand.get(CPU, 0)
            self.free[CPU] = self.free.get(CPU, 0) + allocation.lent_cpu

    def reclaim_cpu(self, allocation: Allocation) -> None:
        """Let the holder go on at once, even if its CPUs were taken meanwhile (free goes below 0
        until they come back): making it wait could deadlock."""
        if allocation.lent_cpu:
            self.free[CPU] -= allocation.lent_cpu
            allocation.lent_cpu = 0

    def _choose(self, demand: Demand) -> Numbered | None:
        """Return which accelerators to take, by resource; None if there are not enough of one."""
        chosen: dict[str, Sequence[tuple[int, int]]] = {}
        for name, free in self._numbered.items():
            amount = demand.get(name, 0)
            if amount:
                parts = _fitting(free, amount)
                if parts is None:
                    return None
                chosen[name] = parts
        return chosen


def _fitting(free: Mapping[int, int], amount: int) -> list[tuple[int, int]] | None:
    if amount < UNIT:  # the fullest one that still fits, to keep whole ones whole
        fitting = [(left, number) for number, left in free.items() if left >= amount]
        return [(min(fitting)[1], amount)] if fitting else None
    whole = [number for number, left in free.items() if left == UNIT]
    needed = -(-amount // UNIT)
    return [(number, UNIT) for number in whole[:needed]] if len(whole) >= needed else None


def _numbered(amount: int, first: int = 0) -> list[tuple[int, int]]:
    """Number accelerators of that amount from `first` on; the last may be a part."""
    whole, rest = divmod(amount, UNIT)
    numbers = range(first, first + whole)
    return [(number, UNIT) for number in numbers] + ([(first + whole, rest)] if rest else [])
