"""Many tasks and actors in one session, and what the machine holds before and after.

`python -m tests.chaos.soak --tasks 100000 --actors 2000`
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from dataclasses import astuple, dataclass, fields

import psutil

import skate

MEGABYTE = 1_000_000
MEMORY_TOLERANCE = 20 * MEGABYTE
BATCH = 1_000
ACTOR_BATCH = 20
SETTLE_SECONDS = 10.0


@dataclass(frozen=True)
class Holdings:
    processes: int
    descriptors: int
    shared_bytes: int
    driver_bytes: int

    @classmethod
    def now(cls) -> Holdings:
        driver = psutil.Process()
        family = driver.children(recursive=True)
        return cls(len(family), driver.num_fds(), _shared_bytes(), driver.memory_info().rss)

    def no_more_than(self, before: Holdings) -> bool:
        return (
            self.processes <= before.processes
            and self.descriptors <= before.descriptors
            and self.shared_bytes <= before.shared_bytes
            and self.driver_bytes <= before.driver_bytes + MEMORY_TOLERANCE
        )


def _shared_bytes() -> int:
    """Bytes in this session's part of the shared-memory file system."""
    mine = f"-{os.getpid()}-"
    return sum(
        os.stat(os.path.join(folder, name)).st_blocks * 512
        for folder, _, names in os.walk("/dev/shm")
        if mine in folder
        for name in names
    )


@skate.remote
def small(x: int) -> int:
    return x


@skate.remote
def large(x: int) -> bytes:
    return bytes([x % 256]) * 200_000


@skate.remote
class Actor:
    def __init__(self, x: int) -> None:
        self.x = x

    def get(self) -> int:
        return self.x


def run_tasks(count: int) -> None:
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        refs = [large.remote(i) if i % 50 == 0 else small.remote(i) for i in numbers]
        values = skate.get(refs)
        assert all(
            v == i if i % 50 else v[0] == i % 256 for i, v in zip(numbers, values, strict=True)
        )


def run_actors(count: int) -> None:
    for first in range(0, count, ACTOR_BATCH):
        numbers = list(range(first, min(first + ACTOR_BATCH, count)))
        actors = [Actor.remote(i) for i in numbers]
        assert skate.get([actor.get.remote() for actor in actors]) == numbers


def settled(before: Holdings | None) -> Holdings:
    """Holdings when they no longer exceed `before`, or after the time to settle is over."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        gc.collect()
        now = Holdings.now()
        if (before and now.no_more_than(before)) or time.monotonic() > deadline:
            return now
        time.sleep(0.1 if before else SETTLE_SECONDS / 10)
        if before is None and now == Holdings.now():
            return now


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--actors", type=int, default=2_000)
    options = parser.parse_args()
    skate.init(engine="local", num_cpus=2)
    run_tasks(2 * BATCH)
    run_actors(2 * ACTOR_BATCH)
    before = settled(None)
    started = time.monotonic()
    run_tasks(options.tasks)
    run_actors(options.actors)
    seconds = time.monotonic() - started
    after = settled(before)
    print(f"{options.tasks} tasks and {options.actors} actors in {seconds:.1f} s")
    for field, old, new in zip(fields(Holdings), astuple(before), astuple(after), strict=True):
        print(f"{field.name:>14}  before {old:>12,}  after {new:>12,}")
    skate.shutdown()
    kept = after.no_more_than(before)
    print("nothing kept" if kept else "more than before: see above")
    return int(not kept)


if __name__ == "__main__":
    # Under its own name the module can be imported by the workers.
    from tests.chaos import soak

    sys.exit(soak.main())
