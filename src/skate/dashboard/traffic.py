"""Rates and times of deployments, from what replicas have counted."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]

_MOST_SAMPLES = 300
_LEAST_SECONDS = 0.2  # between two looks that are compared


class DeploymentTraffic:
    """Compares what replicas say now with what they have said before."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, float]] = {}  # answers and seconds, by replica
        self._moment = time.monotonic()
        self._samples: dict[tuple[str, str], deque[Row]] = {}

    def rows(self, deployments: Sequence[Row], replicas: Sequence[Row]) -> list[Row]:
        """Return the deployments, each with its replicas and what was measured lately."""
        now = time.monotonic()
        elapsed = now - self._moment
        found = []
        for row in deployments:
            key = (row["application"], row["deployment"])
            own = [one for one in replicas if (one["application"], one["deployment"]) == key]
            kept = self._samples.setdefault(key, deque(maxlen=_MOST_SAMPLES))
            if elapsed >= _LEAST_SECONDS:
                kept.append(self._sample(own, elapsed))
            found.append({**row, "processes": own, "samples": [*kept]})
        if elapsed >= _LEAST_SECONDS:
            self._moment = now
            self._before = {one["replica"]: (one["answered"], one["seconds"]) for one in replicas}
        return found

    def _sample(self, replicas: Sequence[Row], elapsed: float) -> Row:
        answered, seconds = 0, 0.0
        for one in replicas:
            if one["replica"] in self._before:
                before, busy = self._before[one["replica"]]
                answered += one["answered"] - before
                seconds += one["seconds"] - busy
        return {
            "time": time.time(),
            "rate": answered / elapsed,
            "latency": seconds / answered if answered else None,
            "ongoing": sum(one["ongoing"] for one in replicas),
        }
