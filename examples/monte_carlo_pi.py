"""Pi by throwing darts: the same function many times, in parallel."""

from __future__ import annotations

import random

import skate


@skate.remote
def hits(darts: int, seed: int) -> int:
    """How many darts fall into the quarter circle."""
    draw = random.Random(seed).random
    return sum(draw() ** 2 + draw() ** 2 <= 1 for _ in range(darts))


def estimate(batches: int, darts: int) -> float:
    """Pi; prints the estimate as the batches come in, whichever is first."""
    pending = [hits.remote(darts, seed) for seed in range(batches)]
    inside = done = 0
    while pending:
        (ready,), pending = skate.wait(pending, num_returns=1)
        inside += skate.get(ready)
        done += 1
        print(f"after {done:2} batches: pi = {4 * inside / (done * darts):.4f}")
    return 4 * inside / (batches * darts)


if __name__ == "__main__":
    skate.init()
    pi = estimate(batches=16, darts=20_000)
    print(f"pi is about {pi:.3f}")
