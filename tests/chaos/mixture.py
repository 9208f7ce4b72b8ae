"""A random mixture of calamities on the local engine: `python -m tests.chaos.mixture 1000`.

Each round does something terrible to a running session and then asks it to do ordinary work. A
round survives when every answer is right or a typed error in time, and is lost otherwise.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import psutil

import skate
from tests.leftovers import Picture, leftovers_since

PATIENCE = 20.0
ROUNDS_PER_SESSION = 50

CALAMITIES: list[Callable[[random.Random], None]] = []


def calamity(function: Callable[[random.Random], None]) -> Callable[[random.Random], None]:
    CALAMITIES.append(function)
    return function


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DiesOnArrival:
    def __reduce__(self) -> tuple[Any, ...]:
        return die, ()


class DiesOnDeparture:
    def __reduce__(self) -> tuple[Any, ...]:
        die()
        return str, ()


WAYS: list[Callable[[], Any]] = [
    die,
    lambda: os._exit(3),
    lambda: sys.exit(4),
    lambda: ctypes.string_at(0),
    lambda: os.abort(),
]


@skate.remote
def identity(x: Any) -> Any:
    return x


@skate.remote
def work(x: int, seconds: float) -> int:
    time.sleep(seconds)
    return x + 1


@skate.remote
def end(way: int) -> Any:
    return WAYS[way]()


@skate.remote
def departing() -> Any:
    return DiesOnDeparture()


@skate.remote
def large_then_die(delay: float, size: int) -> bytes:
    threading.Timer(delay, die).start()
    return b"x" * size


@skate.remote
class Counter:
    def __init__(self) -> None:
        self.value = 0

    def increment(self) -> int:
        self.value += 1
        return self.value

    def pid(self) -> int:
        return os.getpid()


def answer(ref: Any) -> Any:
    """The value or the typed error; anything else, or no answer in time, is raised."""
    try:
        return skate.get(ref, timeout=PATIENCE)
    except skate.exceptions.GetTimeoutError:
        raise
    except skate.exceptions.SkateError as error:
        return error


@calamity
def a_task_ends_its_worker(chance: random.Random) -> None:
    retries = chance.choice([0, 1, 3])
    answer(end.options(max_retries=retries).remote(chance.randrange(len(WAYS))))


@calamity
def an_argument_kills(chance: random.Random) -> None:
    answer(identity.options(max_retries=1).remote(DiesOnArrival()))


@calamity
def a_result_kills(chance: random.Random) -> None:
    answer(departing.options(max_retries=1).remote())


@calamity
def a_worker_dies_while_it_writes(chance: random.Random) -> None:
    task = large_then_die.options(max_retries=1)
    answer(task.remote(chance.random() * 0.01, chance.choice([1_000, 1_000_000, 20_000_000])))


@calamity
def a_random_process_dies_under_load(chance: random.Random) -> None:
    refs = [work.remote(i, chance.random() * 0.002) for i in range(100)]
    time.sleep(chance.random() * 0.05)
    family = psutil.Process().children(recursive=True)
    if family:
        with contextlib.suppress(psutil.NoSuchProcess):
            chance.choice(family).kill()
    expect([answer(ref) for ref in refs], [i + 1 for i in range(100)])


@calamity
def every_process_dies(chance: random.Random) -> None:
    refs = [identity.remote(i) for i in range(chance.randrange(20))]
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    expect([answer(ref) for ref in refs], list(range(len(refs))))


@calamity
def an_actor_dies_with_calls_queued(chance: random.Random) -> None:
    actor = Counter.options(max_restarts=chance.choice([0, 1]), max_task_retries=1).remote()
    pid = answer(actor.pid.remote())
    refs = [actor.increment.remote() for _ in range(20)]
    time.sleep(chance.random() * 0.005)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    for ref in refs:
        answer(ref)


@calamity
def an_actor_is_killed(chance: random.Random) -> None:
    actor = Counter.options(max_restarts=1).remote()
    refs = [actor.increment.remote() for _ in range(5)]
    skate.kill(actor, no_restart=chance.random() < 0.5)
    for ref in refs:
        answer(ref)


@calamity
def tasks_are_cancelled(chance: random.Random) -> None:
    refs = [work.remote(i, 0.01) for i in range(20)]
    for ref in chance.sample(refs, 10):
        skate.cancel(ref, force=chance.random() < 0.5)
    for ref in refs:
        answer(ref)


@calamity
def references_are_dropped(chance: random.Random) -> None:
    for i in range(50):
        work.remote(i, 0)
        skate.put(b"x" * chance.choice([10, 200_000]))


def expect(answers: list[Any], values: list[Any]) -> None:
    for got, wanted in zip(answers, values, strict=True):
        if got != wanted and not isinstance(got, skate.exceptions.SkateError):
            raise AssertionError(f"expected {wanted!r}, got {got!r}")


def still_usable() -> None:
    expect(skate.get([identity.remote(i) for i in range(10)], timeout=PATIENCE), list(range(10)))
    counter = Counter.remote()
    expect([skate.get(counter.increment.remote(), timeout=PATIENCE)], [1])


def run_session(rounds: int, chance: random.Random, score: collections.Counter[str]) -> None:
    before = Picture.take()
    skate.init(engine="local", num_cpus=2, log_to_driver=False)
    for _ in range(rounds):
        what = chance.choice(CALAMITIES)
        try:
            what(chance)
            still_usable()
            score["survived"] += 1
        except Exception:
            score["lost"] += 1
            print(f"lost: {what.__name__}\n{traceback.format_exc()}", flush=True)
    skate.shutdown()
    if left := leftovers_since(before):
        score["leftovers"] += len(left)
        print("left behind:\n  " + "\n  ".join(left), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    print(f"{options.rounds} rounds, seed {options.seed}", flush=True)
    chance, score = random.Random(options.seed), collections.Counter(survived=0, lost=0)
    while (done := score["survived"] + score["lost"]) < options.rounds:
        run_session(min(ROUNDS_PER_SESSION, options.rounds - done), chance, score)
    print(f"survived {score['survived']}  lost {score['lost']}  leftovers {score['leftovers']}")
    return int(score["lost"] > 0 or score["leftovers"] > 0)


if __name__ == "__main__":
    # Under its own name the module can be imported by the workers.
    from tests.chaos import mixture

    sys.exit(mixture.main())
