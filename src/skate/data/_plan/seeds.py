"""Seeds of random operations."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.random.bit_generator import ISeedSequence


class Reseeding(ISeedSequence):
    """A seed that gives other numbers each time it is used, always in the same succession."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.uses = 0

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        self.uses += 1
        return np.random.SeedSequence([self.seed, self.uses]).generate_state(n_words, dtype)


Seed: TypeAlias = "int | Reseeding | None"


def generators(seed: Seed) -> Callable[[int], np.random.Generator]:
    """Make a generator for each block, by its number: as Ray seeds them, so that the same seed and
    blocks choose the same rows."""
    if seed is None:
        unseeded = np.random.default_rng()
        return lambda number: unseeded
    if isinstance(seed, Reseeding):
        seed.uses += 1
        use, first = seed.uses - 1, seed.seed
        return lambda number: np.random.default_rng([use, number, first])
    return lambda number: np.random.default_rng([number, seed])


def seed_of_one_run(seed: Seed) -> int:
    """Return a number by which all tasks of an execution draw, however often they are repeated:
    one nobody knows where there is no seed, and the next of a succession."""
    if isinstance(seed, int):
        return seed
    source = np.random.SeedSequence() if seed is None else seed
    return int.from_bytes(source.generate_state(4).tobytes(), "little")


def seed_of(seed: int | None, reseed: bool) -> Seed:
    return Reseeding(seed) if reseed and seed is not None else seed


@dataclass
class RandomSeedConfig:
    """Seed random_shuffle, random_sample and the like.

    Args:
        seed: The seed; None is another one each time.
        reseed_after_execution: Whether each execution is random in another way, and a second run
            of the program repeats them all; if not, all executions are the same.
        use_timestamp_as_default: Whether the time is the seed where none is given.
    """

    seed: int | None = None
    reseed_after_execution: bool = True
    use_timestamp_as_default: bool = False

    def __post_init__(self) -> None:
        if self.seed is not None and not isinstance(self.seed, int):
            raise ValueError(f"seed takes a whole number or None; got {self.seed!r}")
        if self.seed is None and self.use_timestamp_as_default:
            self.seed = time.time_ns()
        self._numbers = seed_of(self.seed, self.reseed_after_execution)

    @staticmethod
    def create_seed_config(
        seed: int | RandomSeedConfig | None, use_timestamp_as_default: bool = False
    ) -> RandomSeedConfig:
        """Return the configuration that a `seed=` argument means.

        Args:
            seed: A number stands for itself, in each execution.
            use_timestamp_as_default: Whether the time is the seed where none is given.
        """
        if isinstance(seed, RandomSeedConfig):
            return seed
        return RandomSeedConfig(seed, False, use_timestamp_as_default)

    def get_seed_tuple(self, *, data_context: object = None) -> tuple[int, ...] | None:
        """Return the numbers that the next execution is seeded with; None if there is no seed.

        Args:
            data_context: Without effect: executions are counted here.
        """
        if self.seed is None:
            return None
        uses = self._numbers.uses if isinstance(self._numbers, Reseeding) else None
        return (self.seed,) if uses is None else (self.seed, uses + 1)


def numpy_seed(seed: int | RandomSeedConfig | None) -> Seed:
    """Return what to give to numpy.random.default_rng."""
    return RandomSeedConfig.create_seed_config(seed)._numbers
