"""The ray engine against plain Ray on the same cluster, and how a cluster of raylets grows.

    python -m benchmarks.cluster             overhead against Ray, on one raylet
    python -m benchmarks.cluster --growth    the same work on 1, 2 and 3 raylets
    python -m benchmarks.cluster --exchange 5     a sort of 5 GB on 3 raylets, beside Ray's: how
                                             long it takes, how large the driver gets, who works

Both sides run in one process, in turns, on the same cluster; the median of the ratios counts, and
the rates are those of the fastest rounds. The goal is an overhead of at most 10 % on tasks and
actor calls.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import ray
from ray.cluster_utils import Cluster

import skate
import skate.data
from benchmarks.timing import timed

ALLOWED = 1.10
WITH_GOAL = (
    "task, one at a time",
    "task, 1,000 at a time",
    "actor call, one at a time",
    "actor call, 1,000 at a time",
)
NODE = {"num_cpus": 2, "object_store_memory": 150_000_000}
MOST_DRIVER_MB = 300  # of memory, at the peak of an exchange
Work = Callable[[], object]


@contextmanager
def raylets(count: int, **changes: int) -> Iterator[None]:
    """A cluster of that many nodes on this machine, with skate on it."""
    logging.getLogger("ray").setLevel(logging.ERROR)
    node = {**NODE, **changes}
    cluster = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        for _ in range(count - 1):
            cluster.add_node(**node)
        skate.init(cluster.address, log_to_driver=False)
        yield
    finally:
        skate.shutdown()
        cluster.shutdown()


# -- overhead ------------------------------------------------------------------------------------


def nothing(*args: object) -> None:
    return None


class Idle:
    def nothing(self, *args: object) -> None:
        return None

    def count(self, limit: int) -> Iterator[int]:
        for number in range(limit):  # noqa: UP028  # Ray does not stream a `yield from`
            yield number


def workloads(module: Any) -> dict[str, tuple[int, Work]]:
    """Name -> (calls, work), on Ray or on skate: the programs are the same."""
    task = module.remote(nothing)
    actor = module.remote(Idle).remote()
    payload = {"numbers": list(range(100)), "text": "some text"}

    def one_by_one() -> None:
        for _ in range(300):
            module.get(task.remote())

    def together() -> None:
        module.get([task.remote() for _ in range(1000)])

    def calls_one_by_one() -> None:
        for _ in range(500):
            module.get(actor.nothing.remote())

    def calls_together() -> None:
        module.get([actor.nothing.remote() for _ in range(1000)])

    def calls_with_arguments() -> None:
        module.get([actor.nothing.remote(payload, index) for index in range(1000)])

    def items() -> None:
        for ref in actor.count.remote(300):
            module.get(ref)

    return {
        "task, one at a time": (300, one_by_one),
        "task, 1,000 at a time": (1000, together),
        "actor call, one at a time": (500, calls_one_by_one),
        "actor call, 1,000 at a time": (1000, calls_together),
        "actor call with arguments, 1,000 at a time": (1000, calls_with_arguments),
        "streamed items": (300, items),
    }


def in_turns(first: Work, second: Work, rounds: int) -> list[tuple[float, float]]:
    """Seconds of both, round by round, as a machine's moods last longer than a round."""
    first()
    second()
    return [(timed(first), timed(second)) for _ in range(rounds)]


def overhead(rounds: int, only: str) -> bool:
    """Print the table; whether every row with a goal reaches it."""
    fine = True
    with raylets(1):
        ours, theirs = workloads(skate), workloads(ray)
        for name, (calls, work) in ours.items():
            if only not in name:
                continue
            pairs = in_turns(work, theirs[name][1], rounds)
            ratio = median(mine / plain for mine, plain in pairs)
            fine = fine and (ratio <= ALLOWED or name not in WITH_GOAL)
            mine, plain = (calls / min(side) for side in zip(*pairs, strict=True))
            print(f"{name:<45} Ray {plain:8,.0f}/s   skate {mine:8,.0f}/s   time x {ratio:.2f}")
    return fine


# -- growth --------------------------------------------------------------------------------------


def sleeping(seconds: float) -> None:
    import time

    time.sleep(seconds)


def run_all(tasks: int, seconds: float) -> None:
    task: Any = skate.remote(sleeping)
    skate.get([task.remote(seconds) for _ in range(tasks)])


def growth(tasks: int = 60, seconds: float = 0.2) -> None:
    """Tasks that wait, so that the nodes of one machine do not share what they measure."""
    for count in (1, 2, 3):
        with raylets(count, num_cpus=4):
            run_all(8 * count, 0)  # workers are there
            elapsed = timed(partial(run_all, tasks, seconds))
        ideal = tasks * seconds / (4 * count)
        print(f"{count} raylets: {tasks} tasks of {seconds} s in {elapsed:.2f} s", end=" ")
        print(f"(ideal {ideal:.2f} s, {ideal / elapsed:.0%})")


# -- exchanges -----------------------------------------------------------------------------------


def rows_of_100_bytes(batch: dict[str, Any]) -> dict[str, Any]:
    import numpy

    count = len(batch["id"])
    random = numpy.random.default_rng(int(batch["id"][0]))
    text = numpy.frombuffer(random.bytes(42 * count).hex().encode(), "S84")
    return {"id": batch["id"], "key": random.integers(0, 1 << 40, count), "text": text}


def ends_of(batch: dict[str, Any]) -> dict[str, Any]:
    keys = batch["key"]
    node = ray.get_runtime_context().get_node_id()
    return {"rows": [len(keys)], "first": [keys[0]], "last": [keys[-1]], "node": [node]}


def peak_mb() -> int:
    """Of this program; what getrusage tells began with the process that started it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) >> 10


def exchange(side: str, gigabytes: float) -> None:
    """Sort so much in this process's cluster, and print what it took."""
    rows, blocks = int(gigabytes * 1e7), max(6, int(gigabytes * 10))
    with raylets(3, object_store_memory=int(gigabytes * 7e8) + 100_000_000):
        if side == "skate":
            skate.data.DataContext.get_current().partition_min_bytes = int(gigabytes * 2e8)
            made: Any = skate.data.range(rows, override_num_blocks=blocks)
        else:
            import ray.data

            ray.data.DataContext.get_current().enable_progress_bars = False
            made = ray.data.range(rows, override_num_blocks=blocks)
        made = made.map_batches(rows_of_100_bytes, batch_size=None).sort("key")
        start, found, last, nodes = perf_counter(), 0, -1, set()
        for row in made.map_batches(ends_of, batch_size=None).iter_rows():
            assert row["first"] >= last, "not in order"
            found, last = found + row["rows"], row["last"]
            nodes.add(row["node"])
        assert found == rows, f"{found} of {rows} rows"
        took = perf_counter() - start
    print(f"{side:<6} {gigabytes:g} GB sorted in {took:.1f} s", end=", ")
    print(f"driver {peak_mb()} MB at the most, {len(nodes)} nodes worked", flush=True)


def exchanges(gigabytes: float) -> bool:
    """Both sides, each in a process of its own; whether our driver stays as small as it should."""
    said = ""
    for side in ("ray", "skate"):
        command = [sys.executable, "-m", "benchmarks.cluster", "--exchange", str(gigabytes)]
        done = subprocess.run([*command, "--side", side], stdout=subprocess.PIPE, text=True)
        said = done.stdout.strip().rpartition("\n")[2]
        print(said or f"{side} failed")
    return 0 < int(said.partition("driver ")[2].partition(" ")[0] or 0) < MOST_DRIVER_MB


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--growth", action="store_true", help="1, 2 and 3 raylets")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--exchange", type=float, metavar="GB", help="sort so much")
    parser.add_argument("--side", choices=["ray", "skate"], help="of the exchange, here")
    given = parser.parse_args()
    if given.side:
        exchange(given.side, given.exchange)
        return 0
    if given.exchange:
        return 0 if exchanges(given.exchange) else 1
    if given.growth:
        growth()
        return 0
    return 0 if overhead(given.rounds, given.only) else 1


if __name__ == "__main__":
    raise SystemExit(main())
