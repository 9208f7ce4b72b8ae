"""Rates and times of deployments, from what replicas have counted."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from skate._core.latencies import added, percentile

Row = dict[str, Any]

_MOST_SAMPLES = 300
_LEAST_SECONDS = 0.2  # between two looks that are compared
_PERCENTS = (50, 90, 99)
_RAW = ("seconds", "latencies")  # what a replica counts, for what is shown instead


class _AnswerCounts(NamedTuple):
    """What has been answered: how often, in how many seconds altogether, and in which ranges."""

    number: int
    seconds: float
    latencies: Counter[int]

    @classmethod
    def of(cls, replicas: Iterable[Row]) -> _AnswerCounts:
        found = [(row["answered"], row["seconds"], row["latencies"]) for row in replicas]
        numbers, seconds, latencies = zip(*found, strict=True) if found else ((), (), ())
        return cls(sum(numbers), sum(seconds), added(latencies))

    def since(self, before: _AnswerCounts) -> _AnswerCounts:
        return _AnswerCounts(
            self.number - before.number,
            self.seconds - before.seconds,
            self.latencies - before.latencies,
        )

    def times(self) -> Row:
        """Return the mean and percentiles, in seconds; None where nothing was answered."""
        times: Row = {"mean_s": self.seconds / self.number if self.number else None}
        return times | {f"p{one}_s": percentile(self.latencies, one) for one in _PERCENTS}


def with_times(deployments: Iterable[Row], replicas: Sequence[Row]) -> list[Row]:
    """Return the deployments with how many requests were answered, and the times that it took."""
    found = []
    for row in deployments:
        answers = _AnswerCounts.of(_replicas_of(row, replicas))
        found.append({**row, "answered": answers.number, **answers.times()})
    return found


class DeploymentTraffic:
    """Compares what replicas say now with what they have said before."""

    def __init__(self) -> None:
        self._before: dict[str, _AnswerCounts] = {}  # by replica
        self._moment = time.monotonic()
        self._samples: dict[tuple[str, str], deque[Row]] = {}

    def rows(self, deployments: Sequence[Row], replicas: Sequence[Row]) -> list[Row]:
        """Return the deployments, each with its replicas and what was measured lately."""
        now = time.monotonic()
        elapsed = now - self._moment
        found = []
        for row in with_times(deployments, replicas):
            own = _replicas_of(row, replicas)
            key = (row["application"], row["deployment"])
            kept = self._samples.setdefault(key, deque(maxlen=_MOST_SAMPLES))
            if elapsed >= _LEAST_SECONDS:
                kept.append(self._sample(own, elapsed))
            processes = [_shown(one) for one in own]
            found.append({**row, "processes": processes, "samples": [*kept]})
        if elapsed >= _LEAST_SECONDS:
            self._moment = now
            self._before = {one["replica"]: _AnswerCounts.of([one]) for one in replicas}
        return found

    def _sample(self, replicas: Sequence[Row], elapsed: float) -> Row:
        known = [one for one in replicas if one["replica"] in self._before]
        lately = _AnswerCounts.of(known)
        for one in known:
            lately = lately.since(self._before[one["replica"]])
        return {
            "time": time.time(),
            "rate": lately.number / elapsed,
            **lately.times(),
            "ongoing": sum(one["ongoing"] for one in replicas),
        }


def _replicas_of(deployment: Row, replicas: Iterable[Row]) -> list[Row]:
    names = ("application", "deployment")
    return [one for one in replicas if all(one[name] == deployment[name] for name in names)]


def _shown(replica: Row) -> Row:
    plain = {name: value for name, value in replica.items() if name not in _RAW}
    return plain | _AnswerCounts.of([replica]).times()
