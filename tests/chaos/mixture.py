"""A random mixture of calamities on the local engine: `python -m tests.chaos.mixture 1000`.

Each round does something terrible to a running session and then asks it to do ordinary work. A
round survives when every answer is right or a typed error in time, and is lost otherwise. What a
round does follows from the seed and its number: `--seed 7 --first 123 1` runs that one again.

Sessions run in programs of their own, which are watched from here: a round that does not end has
hung, is shown with what every thread was doing, and the next one begins in a new program.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import faulthandler
import os
import queue
import random
import signal
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable
from subprocess import PIPE, STDOUT
from typing import Any

import psutil

import skate
from tests.leftovers import MARKER, Picture, leftovers_since
from tests.support import Program, handle_signals_as_usual

PATIENCE = 20.0
ROUNDS_PER_SESSION = 50
HUNG_SECONDS = float(os.environ.get("SKATE_CHAOS_HUNG_SECONDS", "180"))  # no word from a round
BEGUN, SURVIVED, LOST, HUNG = "== begun", "== survived", "== lost", "== hung"

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


def run_session(seed: int, first: int, rounds: int) -> None:
    """Run rounds in one session, and tell the program that watches about each."""
    faulthandler.enable()
    skate.init(engine="local", num_cpus=2, log_to_driver=False)
    for number in range(first, first + rounds):
        chance = random.Random(f"{seed}-{number}")
        what = chance.choice(CALAMITIES)
        print(f"{BEGUN} {what.__name__}", flush=True)
        try:
            what(chance)
            still_usable()
            print(SURVIVED, flush=True)
        except Exception:
            print(f"{traceback.format_exc()}\n{LOST}", flush=True)
    skate.shutdown()


class Watch:
    """Runs sessions in programs of their own, and counts what becomes of their rounds."""

    def __init__(self, seed: int, rounds: int) -> None:
        self._seed = seed
        self._rounds = rounds
        self._start = time.monotonic()
        self.score = collections.Counter(survived=0, lost=0, hung=0, leftovers=0)

    def run(self, first: int) -> None:
        """Run all rounds, the first of which has this number."""
        done = 0
        while done < self._rounds:
            before = Picture.take()
            done += self._session(first + done, min(ROUNDS_PER_SESSION, self._rounds - done))
            if left := leftovers_since(before):
                self.score["leftovers"] += len(left)
                print("left behind:\n  " + "\n  ".join(left), flush=True)
            print(f"{done} of {self._rounds} rounds: {self.summary()}", flush=True)

    def summary(self) -> str:
        counts = "  ".join(f"{name} {count}" for name, count in self.score.items())
        return f"{counts}  ({time.monotonic() - self._start:.0f} s)"

    def _session(self, first: int, rounds: int) -> int:
        """Run a session; return how many of its rounds are over, one way or another."""
        command = [sys.executable, "-m", "tests.chaos.mixture", str(rounds)]
        options = ["--session", "--seed", str(self._seed), "--first", str(first)]
        with Program([*command, *options], stdout=PIPE, stderr=STDOUT) as program:
            lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
            threading.Thread(target=_read, args=(program, lines), daemon=True).start()
            over = self._follow(program, lines, first)
            program.kill_group()
        Program.started.remove(program)
        return over

    def _follow(self, program: Program, lines: queue.SimpleQueue[str | None], first: int) -> int:
        over, said, end = 0, [""], "lost"
        while (line := _next(lines, HUNG_SECONDS)) is not None:
            if line == HUNG:
                end = "hung"
                program.send_signal(signal.SIGABRT)  # it shows what every thread does
                said += _rest(lines)
                break
            if line.startswith(BEGUN):
                said = [line]
            elif line == SURVIVED:
                over += 1
                self.score["survived"] += 1
            elif line == LOST:
                self._tell("lost", first + over, said)
                over += 1
            else:
                said.append(line)
        if end == "hung" or program.wait(HUNG_SECONDS) != 0:
            self._tell(end, first + over, said)
            over += 1
        return over

    def _tell(self, end: str, number: int, said: list[str]) -> None:
        self.score[end] += 1
        again = f"--seed {self._seed} --first {number} 1"
        print(f"{end}: round {number} (again: {again})", *said, sep="\n  ", flush=True)


def _read(program: Program, lines: queue.SimpleQueue[str | None]) -> None:
    assert program.stdout is not None
    for line in program.stdout:
        lines.put(line.rstrip("\n"))
    lines.put(None)


def _next(lines: queue.SimpleQueue[str | None], patience: float) -> str | None:
    """Return the next line; None at the end, and `HUNG` if neither comes in time."""
    try:
        return lines.get(timeout=patience)
    except queue.Empty:
        return HUNG


def _rest(lines: queue.SimpleQueue[str | None]) -> list[str]:
    rest = []
    while (line := _next(lines, PATIENCE)) not in (None, HUNG):
        rest.append(str(line))
    return rest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rounds", type=int, nargs="?", default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--first", type=int, default=0, help="the number of the first round")
    parser.add_argument("--session", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.session:
        run_session(options.seed, options.first, options.rounds)
        return 0
    print(f"{options.rounds} rounds, seed {options.seed}", flush=True)
    os.environ.setdefault(MARKER, uuid.uuid4().hex)
    handle_signals_as_usual()
    watch = Watch(options.seed, options.rounds)
    watch.run(options.first)
    print(watch.summary())
    return int(watch.score["survived"] < options.rounds or watch.score["leftovers"] > 0)


if __name__ == "__main__":
    # Under its own name the module can be imported by the workers.
    from tests.chaos import mixture

    sys.exit(mixture.main())
