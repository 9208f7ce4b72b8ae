"""Random plans of datasets, for so many seconds: `python -m tests.chaos.plans 60`.

Each seed makes, with each of the settings,

- a plan whose rows, types and errors must be the same when all of it runs at once, and when each
  step runs by itself on the rows of the one before;
- a plan whose rows must be the same however they are read: as batches, in parts, from files;
- filters that must find the same rows in a Parquet file and in memory.

What fails prints its seed and steps: `scripts/chaos --plans 0 --seed N` repeats the seed N alone.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import skate
from skate import data
from tests.chaos.plan_filters import check_filters
from tests.chaos.plan_readings import check_reading, plain_rows
from tests.chaos.plan_steps import PlanMaker, Step, columns_of
from tests.support import handle_signals_as_usual

MOST_FAILURES = 10
SETTINGS: dict[str, dict[str, int]] = {
    "default": {},
    "partitions": {"partition_min_bytes": 0, "sort_memory_bytes": 256},
    "polars": {"engine_min_bytes": 0},
}
"""Settings that lead rows by other ways; they must not be seen in the rows."""


def check_plan(make: PlanMaker) -> None:
    """Raise if a random plan gives something else at once than step by step."""
    at_once = make.source()
    by_steps, is_ordered = at_once.materialize(), True
    for _ in range(make.chance.randint(1, 6)):
        if not (columns := columns_of(by_steps)):
            break
        step = make.step(columns, is_ordered)
        try:
            by_steps = step.apply(by_steps).materialize()
        except Exception as error:
            return _expect_failure(step, at_once, error)
        at_once = step.apply(at_once)
        is_ordered = is_ordered and step.keeps_order
    return _compare(at_once, by_steps, is_ordered)


def _expect_failure(step: Step, rows: data.Dataset, expected: Exception) -> None:
    try:
        step.apply(rows).take_all()
    except Exception:  # whose type may differ: one finds it when the plan is made
        return
    raise AssertionError(f"passes at once, but by steps:\n{expected!r}")


def _compare(at_once: data.Dataset, by_steps: data.Dataset, is_ordered: bool) -> None:
    found, expected = (plain_rows(rows.take_all()) for rows in (at_once, by_steps))
    if not is_ordered:
        found, expected = sorted(found, key=repr), sorted(expected, key=repr)
    assert found == expected, f"at once:\n{found}\nby steps:\n{expected}"
    count = at_once.count()
    assert count == len(found), f"count() is {count}, of {len(found)} rows"
    columns, expected_columns = columns_of(at_once.materialize()), columns_of(by_steps)
    if columns and expected_columns:  # of what has no rows, they need not be known
        assert columns == expected_columns, f"at once: {columns}\nby steps: {expected_columns}"
    else:
        assert not found or not found[0], f"there are rows, but no columns: {found}"


CHECKS: list[tuple[Callable[[PlanMaker], None], str]] = [
    *((check, settings) for check in (check_plan, check_reading) for settings in SETTINGS),
    (check_filters, "default"),
]
"""What a seed checks, and with which settings."""


def run(check: Callable[[PlanMaker], None], settings: str, seed: int) -> None:
    """Make the random plan of a seed and check it; raise with its seed and steps if it fails."""
    context = data.DataContext.get_current().copy()
    context.enable_progress_bars = False
    for name, value in SETTINGS[settings].items():
        setattr(context, name, value)
    with tempfile.TemporaryDirectory() as folder, data.DataContext.current(context):
        make = PlanMaker(random.Random(seed), Path(folder))
        try:
            check(make)
        except Exception as error:
            steps = "".join(f"\n  {name}" for name in make.drawn)
            what = f"{check.__name__} of seed {seed}, settings {settings!r}:{steps}"
            raise AssertionError(f"{what}\n{type(error).__name__}: {error}") from error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=60.0)
    parser.add_argument(
        "--seed", type=int, default=None, help="the first; the next ones follow it"
    )
    parser.add_argument("--engine", choices=["inline", "local"], default="inline")
    parser.add_argument("--plans", action="store_true", help="as scripts/chaos calls it")
    arguments = parser.parse_args()
    first = random.randrange(1 << 30) if arguments.seed is None else arguments.seed
    print(f"seed {first}", flush=True)
    skate.init(engine=arguments.engine, num_cpus=2)
    logging.disable()  # what plans fail with is compared, not read
    end, failures = time.monotonic() + arguments.seconds, 0
    for seed in itertools.count(first):
        failures += sum(not _passes(check, settings, seed) for check, settings in CHECKS)
        if time.monotonic() >= end or failures >= MOST_FAILURES:
            break
    print(f"seeds {first} to {seed}: {failures} plans failed", flush=True)
    return 1 if failures else 0


def _passes(check: Callable[[PlanMaker], None], settings: str, seed: int) -> bool:
    try:
        run(check, settings, seed)
    except AssertionError as error:
        print(error, flush=True)
        return False
    return True


if __name__ == "__main__":
    handle_signals_as_usual()
    sys.exit(main())
