"""Amounts that are taken and given back."""

from __future__ import annotations

from skate.engine.local.hub.resources import (
    CPU,
    UNIT,
    Allocation,
    ResourcePool,
    from_units,
    to_units,
)

GPU = "GPU"


def pool(**amounts: float) -> ResourcePool:
    return ResourcePool(to_units(amounts))


def taken(pool: ResourcePool, **amounts: float) -> Allocation:
    allocation = pool.take(to_units(amounts))
    assert allocation is not None
    return allocation


def test_ten_tenths_are_one() -> None:
    small = pool(CPU=1)
    parts = [taken(small, CPU=0.1) for _ in range(10)]
    assert small.take(to_units({"CPU": 0.0001})) is None
    for part in parts:
        small.give_back(part)
    assert small.free == small.total == {CPU: UNIT}


def test_units_leave_out_zeros_and_come_back_as_amounts() -> None:
    assert to_units({"CPU": 0.5, "GPU": 0.0}) == {CPU: UNIT // 2}
    assert from_units({CPU: UNIT // 2, GPU: 0, "x": -UNIT}) == {"CPU": 0.5}


def test_nothing_is_taken_unless_all_is_there() -> None:
    mixed = pool(CPU=2, x=1)
    assert mixed.take(to_units({"CPU": 1, "x": 2})) is None
    assert mixed.take(to_units({"CPU": 1, "unknown": 1})) is None
    assert mixed.free == mixed.total


def test_could_ever_fit_looks_at_the_total() -> None:
    full = pool(CPU=1)
    taken(full, CPU=1)
    assert full.could_ever_fit(to_units({"CPU": 1}))
    assert not full.could_ever_fit(to_units({"CPU": 1.5}))
    assert not full.could_ever_fit(to_units({"GPU": 1}))


def test_a_pool_grows_and_numbers_new_gpus_after_the_others() -> None:
    small = pool(CPU=1, GPU=1)
    first = taken(small, CPU=1, GPU=1)
    small.grow(to_units({CPU: 2, GPU: 2, "special": 1}))
    assert from_units(small.total) == {CPU: 3, GPU: 3, "special": 1}
    assert from_units(small.free) == {CPU: 2, GPU: 2, "special": 1}
    assert (first.numbers(GPU), taken(small, GPU=2).numbers(GPU)) == ((0,), (1, 2))


def test_what_is_taken_away_while_it_is_in_use_is_gone_when_it_comes_back() -> None:
    cpus = pool(CPU=4)
    first, second = taken(cpus, CPU=1), taken(cpus, CPU=2)
    cpus.shrink(to_units({CPU: 3}))
    assert (cpus.total, cpus.free, cpus.owed) == ({CPU: UNIT}, {CPU: 0}, {CPU: 2 * UNIT})
    cpus.give_back(first)
    assert (cpus.free, cpus.owed) == ({CPU: 0}, {CPU: UNIT})
    cpus.grow(to_units({CPU: 2}))
    assert (cpus.free, cpus.owed) == ({CPU: UNIT}, {})
    cpus.give_back(second)
    assert cpus.free == cpus.total == {CPU: 3 * UNIT}


def test_gpus_that_are_taken_away_come_back_with_their_numbers() -> None:
    gpus = pool(GPU=3)
    busy = taken(gpus, GPU=1)
    assert busy.numbers(GPU) == (0,)
    gpus.shrink(to_units({GPU: 3}))
    gpus.give_back(busy)
    assert gpus.take(to_units({GPU: 0.5})) is None
    gpus.grow(to_units({GPU: 4}))
    assert sorted(taken(gpus, GPU=4).numbers(GPU)) == [0, 1, 2, 3]


def test_what_is_too_much_for_a_growing_pool_waits() -> None:
    small = ResourcePool(to_units({CPU: 1}), growing=True)
    assert small.could_ever_fit(to_units({CPU: 2}))
    assert not small.could_ever_fit(to_units({"node:another": 1}))
    assert small.take(to_units({CPU: 2})) is None


def test_would_fit_counts_what_comes_back() -> None:
    full = pool(CPU=2, x=1)
    first = taken(full, CPU=1)
    taken(full, CPU=1)
    assert full.would_fit(to_units({"CPU": 1, "x": 1}), first)
    assert not full.would_fit(to_units({"CPU": 2}), first)


def test_whole_gpus_are_numbered_and_come_back() -> None:
    four = pool(GPU=4)
    first, second = taken(four, GPU=1), taken(four, GPU=2)
    assert first.numbers(GPU) == (0,)
    assert second.numbers(GPU) == (1, 2)
    assert four.take(to_units({"GPU": 2})) is None
    four.give_back(first)
    assert taken(four, GPU=2).numbers(GPU) == (0, 3)


def test_parts_share_a_gpu_and_keep_whole_ones_whole() -> None:
    two = pool(GPU=2)
    parts = [taken(two, GPU=0.25) for _ in range(4)]
    assert {part.numbers(GPU) for part in parts} == {(0,)}
    assert taken(two, GPU=1).numbers(GPU) == (1,)
    two.give_back(parts[2])
    assert taken(two, GPU=0.25).numbers(GPU) == (0,)


def test_a_part_goes_to_the_fullest_gpu_that_has_room() -> None:
    two = pool(GPU=2)
    taken(two, GPU=0.5)  # GPU 0
    taken(two, GPU=0.75)  # GPU 1
    assert taken(two, GPU=0.25).numbers(GPU) == (1,)
    assert taken(two, GPU=0.5).numbers(GPU) == (0,)


def test_rests_of_two_gpus_do_not_make_one() -> None:
    two = pool(GPU=2)
    first = taken(two, GPU=0.6)
    taken(two, GPU=0.6)
    assert two.take(to_units({"GPU": 0.5})) is None
    assert two.take(to_units({"GPU": 1})) is None
    two.give_back(first)
    assert taken(two, GPU=1).numbers(GPU) == (0,)


def test_a_machine_with_a_part_of_a_gpu() -> None:
    odd = pool(GPU=1.5)
    assert taken(odd, GPU=0.5).numbers(GPU) == (1,)
    assert taken(odd, GPU=1).numbers(GPU) == (0,)


def test_lent_cpus_are_free_and_are_taken_back_at_once() -> None:
    one = pool(CPU=1)
    holder = taken(one, CPU=1)
    one.lend_cpu(holder)
    one.lend_cpu(holder)  # once is enough
    guest = taken(one, CPU=1)
    one.reclaim_cpu(holder)
    assert one.free[CPU] == -UNIT
    one.give_back(guest)
    assert one.free[CPU] == 0
    one.give_back(holder)
    assert one.free == one.total


def test_giving_back_while_lent_counts_once() -> None:
    one = pool(CPU=1, GPU=1)
    holder = taken(one, CPU=1, GPU=1)
    one.lend_cpu(holder)
    assert one.free == {CPU: UNIT, GPU: 0}
    one.give_back(holder)
    assert one.free == one.total
