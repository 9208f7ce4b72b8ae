"""How the cost of a dataset grows: with the number of files, and with the gigabytes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import timed

FILES = (1, 10, 100, 1_000, 10_000)
GIGABYTES = (0.1, 0.3, 1.0, 3.0, 10.0)
ROW_BYTES, BLOCK_ROWS = 1000, 25_000
Curves = dict[str, list[tuple[float, float]]]  # size and seconds, by system


def seconds_by_files(
    write: Callable[[Path, int], None], systems: dict[str, Callable[[Path], object]], place: Path
) -> Curves:
    """(files, seconds) of passes over ever more small files by each system; the best of three."""
    curves: Curves = {name: [] for name in systems}
    for count in FILES:
        folder = place / f"in-{count}"
        folder.mkdir()
        write(folder, count)
        for name, work in systems.items():
            work(folder)
            seconds = min(timed(partial(work, folder)) for _ in range(3))
            curves[name].append((count, seconds))
    return curves


def draw(panels: dict[str, tuple[str, Curves]], path: Path) -> None:
    """Draw curves of seconds, as SVG.

    Args:
        panels: Title -> what grows, and the curve of each system.
        path: The file.
    """
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "growth"  # the same figure for the same numbers
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(panels), figsize=(5 * len(panels), 3.6), squeeze=False)
    for axis, (title, (unit, curves)) in zip(axes[0], panels.items(), strict=True):
        for name, points in curves.items():
            axis.loglog(*zip(*points, strict=True), "o-" if name == "skate" else "o:", label=name)
        axis.set(title=title, xlabel=unit, ylabel="seconds")
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None})


def passes_by_gigabytes(sizes: tuple[float, ...] = GIGABYTES) -> list[tuple[float, float, float]]:
    """(gigabytes, seconds, peak MB over the baseline) of streaming passes."""
    streamed(0.01)
    return [(size, *streamed(size)) for size in sizes]


def widen(batch: dict[str, Any]) -> dict[str, Any]:
    return {"x": np.repeat(batch["id"][:, None], ROW_BYTES // 8, 1)}


def streamed(gigabytes: float) -> tuple[float, float]:
    """Seconds and peak memory of one pass over so many generated rows."""
    import skate.data

    rows = int(gigabytes * 1e9 / ROW_BYTES)
    blocks = max(1, rows // BLOCK_ROWS)

    def consume() -> None:
        data = skate.data.range(rows, override_num_blocks=blocks).map_batches(widen)
        seen = sum(len(batch["x"]) for batch in data.iter_batches(batch_size=None))
        assert seen == rows

    with Peak() as peak:
        seconds = timed(consume)
    return seconds, peak.megabytes


class Peak:
    """The most memory that this process and its children had, over what they had before."""

    def __enter__(self) -> Peak:
        self._before, self._most = used_memory(), 0.0
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self._most = max(self._most, used_memory())

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._watcher.join()
        self.megabytes = max(0.0, self._most - self._before)


def used_memory() -> float:
    """MB, with what is shared counted once."""
    import psutil

    total = 0.0
    me = psutil.Process(os.getpid())
    for process in (me, *me.children(recursive=True)):
        try:
            total += process.memory_full_info().pss
        except psutil.Error:  # it has ended
            continue
    return total / 2**20
