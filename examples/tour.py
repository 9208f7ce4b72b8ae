"""A first tour of skate: tasks, objects, actors. Prints what it did and how long each took.

scripts/quickstart
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

PROGRAM_START = time.perf_counter()

import numpy as np  # noqa: E402

import skate  # noqa: E402


@skate.remote
def count_primes(low: int, high: int) -> int:
    numbers = np.arange(max(low, 2), high)
    divisors = np.arange(2, int(high**0.5) + 1)
    return sum(1 for n in numbers if not (n % divisors[divisors * divisors <= n] == 0).any())


@skate.remote
def mean_of(image: np.ndarray, row: int) -> float:
    return float(image[row].mean())


@skate.remote
class Account:
    """State that lives in a process of its own."""

    def __init__(self) -> None:
        self.balance = 0

    def deposit(self, amount: int) -> int:
        self.balance += amount
        return self.balance


@skate.remote(num_returns="streaming")
def squares(count: int) -> Iterator[int]:
    for i in range(count):
        yield i * i


def first_result() -> str:
    primes = skate.get(count_primes.remote(0, 100))
    return f"{primes} primes below 100, the first result of this program"


def tasks() -> str:
    parts = [count_primes.remote(i, i + 2_500) for i in range(0, 20_000, 2_500)]
    return f"{sum(skate.get(parts)):,} primes below 20,000, counted by {len(parts)} tasks"


def many_small_tasks() -> str:
    answers = skate.get([count_primes.remote(0, 3) for _ in range(1_000)])
    return f"{len(answers):,} tiny tasks"


def objects() -> str:
    image = skate.put(np.random.default_rng(0).random((1_000, 8_000)))
    means = skate.get([mean_of.remote(image, row) for row in range(100)])
    return f"64 MB stored once, read by {len(means)} tasks without a copy"


def actors() -> str:
    account = Account.remote()
    balance = skate.get([account.deposit.remote(1) for _ in range(1_000)])[-1]
    return f"{balance:,} deposits into one actor, in order"


def streams() -> str:
    total = sum(skate.get(ref) for ref in squares.remote(100))
    return f"{total:,} summed from a generator while it was still running"


def errors() -> str:
    try:
        skate.get(mean_of.remote(np.zeros((1, 1)), 7))
    except IndexError as error:
        return f"an IndexError from a worker, caught here: {str(error).splitlines()[-1]}"
    raise AssertionError("the task should have failed")


def report(step: Callable[[], str]) -> None:
    start = time.perf_counter()
    text = step()
    name = step.__name__.replace("_", " ")
    print(f"  {name:<18} {(time.perf_counter() - start) * 1e3:8.1f} ms   {text}", flush=True)


def main() -> None:
    print("skate: a first tour")
    for step in (first_result, tasks, many_small_tasks, objects, actors, streams, errors):
        report(step)
    start = time.perf_counter()
    skate.shutdown()
    print(f"  {'shutdown':<18} {(time.perf_counter() - start) * 1e3:8.1f} ms   nothing is left")
    print(f"Done in {time.perf_counter() - PROGRAM_START:.2f} s. To try next:")
    print("  docs/first-steps.md explains what ran here, in ten minutes")
    print("  scripts/quickstart trains, tunes and serves a model on real pictures")


if __name__ == "__main__":
    main()
