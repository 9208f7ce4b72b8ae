"""Weights as one object: many actors read one copy."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import skate
from tests.support import local_only

pytestmark = local_only

MEGABYTES = 100
LAYERS = 4
ACTORS = 8


class Network:
    def __init__(self) -> None:
        self.weights: dict[str, np.ndarray] = {}

    def set_weights(self, weights: dict[str, np.ndarray]) -> None:
        self.weights = weights

    def flags(self) -> list[tuple[bool, bool]]:
        """Whether the arrays can be written, and whether they own their memory."""
        return [(w.flags.writeable, w.flags.owndata) for w in self.weights.values()]

    def own_megabytes(self) -> float:
        """Read everything, then count the memory that is this process's own."""
        for weights in self.weights.values():
            assert weights[::1024].all()
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) / 1024

    def fill(self) -> None:
        next(iter(self.weights.values()))[0] = 1


def shared_megabytes() -> float:
    """What lies in shared memory, in files that this process's sessions have made."""
    return sum(
        path.stat().st_blocks * 512 / 2**20
        for path in Path("/dev/shm").glob(f"skate-*-{os.getpid()}-*/**/*")
        if path.is_file()
    )


@pytest.mark.init(num_cpus=2)
def test_eight_actors_read_one_copy(engine: str) -> None:
    size = MEGABYTES * 2**20 // 4 // LAYERS
    weights = {f"layer {i}": np.full(size, i + 1, np.float32) for i in range(LAYERS)}
    actors = [skate.remote(num_cpus=0)(Network).remote() for _ in range(ACTORS)]
    before = sum(skate.get([actor.own_megabytes.remote() for actor in actors]))
    ref = skate.put(weights)
    skate.get([actor.set_weights.remote(ref) for actor in actors])
    assert skate.get([a.flags.remote() for a in actors]) == [[(False, False)] * LAYERS] * ACTORS
    after = sum(skate.get([actor.own_megabytes.remote() for actor in actors]))
    assert after - before < 0.2 * MEGABYTES  # all eight together
    assert MEGABYTES <= shared_megabytes() < 1.1 * MEGABYTES
    with pytest.raises(ValueError, match="read-only"):
        skate.get(actors[0].fill.remote())
