"""The ray engine against plain Ray on the same cluster, and how a cluster of raylets grows.

    python -m benchmarks.cluster             overhead against Ray, on one raylet
    python -m benchmarks.cluster --growth    the same work on 1, 2 and 3 raylets

Both sides run in one process, in turns, on the same cluster; the median of the ratios counts, and
the rates are those of the fastest rounds. The goal is an overhead of at most 10 % on tasks and
actor calls.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any

import ray
from ray.cluster_utils import Cluster

import skate
from benchmarks.timing import timed

ALLOWED = 1.10
WITH_GOAL = (
    "task, one at a time",
    "task, 1,000 at a time",
    "actor call, one at a time",
    "actor call, 1,000 at a time",
)
NODE = {"num_cpus": 2, "object_store_memory": 150_000_000}
Work = Callable[[], object]


@contextmanager
def raylets(count: int, cpus: int = 2) -> Iterator[None]:
    """A cluster of that many nodes on this machine, with skate on it."""
    logging.getLogger("ray").setLevel(logging.ERROR)
    node = {**NODE, "num_cpus": cpus}
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
        with raylets(count, cpus=4):
            run_all(8 * count, 0)  # workers are there
            elapsed = timed(partial(run_all, tasks, seconds))
        ideal = tasks * seconds / (4 * count)
        print(f"{count} raylets: {tasks} tasks of {seconds} s in {elapsed:.2f} s", end=" ")
        print(f"(ideal {ideal:.2f} s, {ideal / elapsed:.0%})")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--growth", action="store_true", help="1, 2 and 3 raylets")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    given = parser.parse_args()
    if given.growth:
        growth()
        return 0
    return 0 if overhead(given.rounds, given.only) else 1


if __name__ == "__main__":
    raise SystemExit(main())
