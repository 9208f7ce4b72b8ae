"""One number of one system, in a process of its own:

python -m benchmarks.one SYSTEM ROW BUDGET
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

from benchmarks import growth, peers, workloads
from benchmarks.timing import timed

SYSTEMS: dict[str, Callable[[str, float], object]] = {
    "skate": workloads.skate,
    "ray": workloads.ray,
    "ppe": peers.ppe,
    "loky": peers.loky,
    "dask": peers.dask,
    "socket": peers.bare_socket,
    "memcpy": peers.bare_memcpy,
}

PROGRAMS = {
    "skate": """
import skate

@skate.remote
def answer():
    return 42

assert skate.get(answer.remote()) == 42
""",
    "ray": """
import ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")

@ray.remote
def answer():
    return 42

assert ray.get(answer.remote()) == 42
""",
    "ppe": """
from concurrent.futures import ProcessPoolExecutor

with ProcessPoolExecutor(2) as pool:
    assert pool.submit(int, 42).result() == 42
""",
    "loky": """
from loky import get_reusable_executor

assert get_reusable_executor(2).submit(int, 42).result() == 42
""",
    "dask": """
from distributed import Client, LocalCluster

with LocalCluster(2, threads_per_worker=1, dashboard_address=None) as c, Client(c) as client:
    assert client.submit(int, 42).result() == 42
""",
}


def program_seconds(system: str, budget: float) -> float:
    """The whole life of a small program, less that of an empty one."""
    repeats = 2 if system in ("ray", "dask") else 10
    empty = min(timed(lambda: run("pass")) for _ in range(10))
    run(PROGRAMS[system])
    return min(timed(lambda: run(PROGRAMS[system])) for _ in range(repeats)) - empty


def run(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    system, row, budget = sys.argv[1], sys.argv[2], float(sys.argv[3])
    result: object
    if row == "start":
        result = program_seconds(system, budget)
    elif row in growth.CURVES:
        result = growth.measure(system, row, limit=budget)
    else:
        result = SYSTEMS[system](row, budget)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
