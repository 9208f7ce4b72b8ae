"""Bars of progress in tasks and actors, drawn by the driver without getting into each other's way.

from skate.experimental import tqdm_ray

@skate.remote
def work(items):
    for item in tqdm_ray.tqdm(items, desc="work"): ...
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator

from skate._core.progress_bars import MAGIC as RAY_TQDM_MAGIC
from skate._core.progress_bars import instance, safe_print
from skate._core.public_names import name_publicly
from skate.engine import installed_engine
from skate.util import get_node_ip_address

__all__ = ["RAY_TQDM_MAGIC", "instance", "safe_print", "tqdm"]


class tqdm:  # noqa: N801  # as the package it stands for
    """A bar of progress.

    Args:
        iterable: What to go through, counting; `None` for calls of `update`.
        desc: What stands in front of the bar.
        total: How many there are, if `iterable` does not know.
        unit: What is counted; "it" unless given.
        position: The line among the bars of this process.
        flush_interval_s: Seconds between two times that the bar is sent to be drawn.
    """

    DEFAULT_FLUSH_INTERVAL_SECONDS = 1.0

    def __init__(
        self,
        iterable: Iterable[object] | None = None,
        desc: str | None = None,
        total: int | None = None,
        unit: str | None = None,
        position: int | None = None,
        flush_interval_s: float | None = None,
    ) -> None:
        if total is None and iterable is not None:
            try:
                total = len(iterable)  # type: ignore[arg-type]
            except TypeError:
                total = None
        self.total = total
        self.n: int = 0
        self._iterable = iterable
        self._desc = desc or ""
        self._unit = unit or "it"
        self._position = position or 0
        self._uuid = uuid.uuid4().hex
        self._closed = False
        self._interval = (
            self.DEFAULT_FLUSH_INTERVAL_SECONDS if flush_interval_s is None else flush_interval_s
        )
        self._sent = 0.0

    def update(self, n: int = 1) -> None:
        """Count `n` more."""
        self.n += n
        self.refresh()

    def set_description(self, desc: str) -> None:
        """Change what stands in front of the bar."""
        self._desc = desc
        self.refresh()

    def refresh(self) -> None:
        """Send the bar to be drawn, unless that was done a moment ago."""
        if time.monotonic() - self._sent >= self._interval:
            self._send()

    def close(self) -> None:
        """Have it drawn for the last time."""
        if not self._closed:
            self._closed = True
            self._send()

    def _send(self) -> None:
        self._sent = time.monotonic()
        if _in_worker():
            print(json.dumps(self._get_state()) + "\n", end="", flush=True)
        else:
            instance().process_state_update(self._get_state())

    def _get_state(self) -> dict[str, object]:
        return {
            "__magic_token__": RAY_TQDM_MAGIC,
            "x": self.n,
            "pos": self._position,
            "desc": self._desc,
            "total": self.total,
            "unit": self._unit,
            "ip": get_node_ip_address(),
            "pid": os.getpid(),
            "uuid": self._uuid,
            "closed": self._closed,
        }

    def __iter__(self) -> Iterator[object]:
        if self._iterable is None:
            raise ValueError("this bar was made without an iterable: call update()")
        try:
            for item in self._iterable:
                yield item
                self.update()
        finally:
            self.close()

    def __enter__(self) -> tqdm:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _in_worker() -> bool:
    """Return whether another process draws."""
    engine = installed_engine()
    if engine is None or not engine.has_workers:
        return False
    context = engine.context()
    return context.task_id is not None or context.actor_id is not None


name_publicly(__name__)
