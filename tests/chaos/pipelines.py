"""Twelve stages of actors, of which one is killed every two seconds, for so many seconds:
`python -m tests.chaos.pipelines 180`.

Rows go through all stages, each of which is a pool of one actor, on two CPUs. Whoever is killed,
each row must come out once, in order, and changed by every stage.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import time
from collections.abc import Iterator
from typing import Any

import psutil

import skate
import skate.data
from tests.support import handle_signals_as_usual

STAGES, CPUS, ROWS_PER_BLOCK = 12, 2, 10
SECONDS_BETWEEN_KILLS = 2.0


class AddOne:
    """A stage. Its work takes long enough to be killed in the middle of it."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.005)
        return {"id": batch["id"] + 1}


def piped(blocks: int) -> Iterator[int]:
    """The rows that come out, one by one."""
    rows = skate.data.range(blocks * ROWS_PER_BLOCK, override_num_blocks=blocks)
    for _ in range(STAGES):
        pool = skate.data.ActorPoolStrategy(size=1)
        rows = rows.map_batches(AddOne, batch_size=None, compute=pool)
    for batch in rows.iter_batches(batch_size=ROWS_PER_BLOCK):
        yield from batch["id"].tolist()


def check(rows: list[int]) -> None:
    """Raise if a row is missing, twice or elsewhere, or was not in all stages."""
    assert rows == list(range(STAGES, STAGES + len(rows)))


def kill_a_stage(chance: random.Random) -> bool:
    """Kill the worker of some stage; False if it has none now."""
    below = psutil.Process(os.getpid()).children(recursive=True)
    with contextlib.suppress(psutil.Error):
        workers = [each for each in below if "MapWorker(" in " ".join(each.cmdline())]
        if workers:
            chance.choice(workers).send_signal(signal.SIGKILL)
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=180.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--pipelines", action="store_true", help="as scripts/chaos calls it")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 30) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    chance = random.Random(seed)
    skate.init(engine="local", num_cpus=CPUS)
    start = time.monotonic()
    next_kill, kills, passes = start + SECONDS_BETWEEN_KILLS, 0, 0
    while time.monotonic() < start + arguments.seconds:
        rows = []
        for row in piped(blocks=500):
            rows.append(row)
            if time.monotonic() >= next_kill:
                kills += kill_a_stage(chance)
                next_kill = time.monotonic() + SECONDS_BETWEEN_KILLS
        check(rows)
        assert len(rows) == 500 * ROWS_PER_BLOCK
        passes += 1
        print(f"{passes} passes, each row once after {kills} kills", flush=True)


if __name__ == "__main__":
    handle_signals_as_usual()
    main()
