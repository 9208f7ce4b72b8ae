"""How cost grows with size: tasks, bytes, actors, and references in one argument."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.timing import timed
from benchmarks.workloads import MEGABYTE, echo, echo_actor, start

Points = list[tuple[int, float]]


def tasks(api: Any, count: int) -> float:
    answer = echo(api)
    return timed(lambda: api.get([answer.remote() for _ in range(count)]))


def object_bytes(api: Any, size: int) -> float:
    import numpy as np

    array = np.ones(size, np.uint8)
    return min(timed(lambda: api.get(api.put(array))) for _ in range(3))


def actors(api: Any, count: int) -> float:
    echoes = echo_actor(api)
    return timed(
        lambda: api.get([a.answer.remote() for a in [echoes.remote() for _ in range(count)]])
    )


def references(api: Any, count: int) -> float:
    answer = echo(api)
    refs = [api.put(i) for i in range(count)]
    return min(timed(lambda: api.get(answer.remote(refs))) for _ in range(3))


@dataclass(frozen=True)
class Curve:
    title: str
    unit: str
    cost: Callable[[Any, int], float]
    sizes: tuple[int, ...]

    def sizes_up_to(self, share: float) -> list[int]:
        """All sizes, or only the smaller part of the (logarithmic) range."""
        return list(self.sizes[: max(2, round(len(self.sizes) * share))])


CURVES = {
    "growth_tasks": Curve("tasks", "tasks", tasks, (1_000, 3_000, 10_000, 30_000, 100_000)),
    "growth_objects": Curve(
        "put and get of one object", "bytes", object_bytes,
        (1 << 10, 1 << 14, 1 << 18, 1 << 22, 1 << 26, 1 << 30, 1 << 32),
    ),
    "growth_actors": Curve("actors created and answering", "actors", actors, (1, 5, 20, 100, 500)),
    "growth_references": Curve(
        "references in one argument", "references", references, (1, 10, 100, 1_000, 10_000)
    ),
}  # fmt: skip


def measure(system: str, name: str, limit: float) -> Points:
    """(size, seconds) of each point, in one session that has worked before."""
    curve, api = CURVES[name], __import__(system)
    start(api)
    try:
        curve.cost(api, curve.sizes[1])
        return [(size, curve.cost(api, size)) for size in fitting(curve, limit)]
    finally:
        api.shutdown()


def fitting(curve: Curve, share: float) -> list[int]:
    """Sizes that this machine's memory can hold: an object exists as array and in the store."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = free / 3 if curve.unit == "bytes" else math.inf
    return [size for size in curve.sizes_up_to(share) if size <= most]


def exponent(points: Points) -> float:
    """k where the cost of the larger half grows as size to the power of k; 1 is linear."""
    (small, fast), (large, slow) = points[len(points) // 2 - 1], points[-1]
    return math.log(slow / fast) / math.log(large / small)


def table(curves: dict[str, Points]) -> list[str]:
    lines = []
    for name, points in curves.items():
        lines.append(f"{CURVES[name].title}: cost grows as n^{exponent(points):.2f}")
        lines += [line(CURVES[name], size, seconds) for size, seconds in points]
    return lines


def line(curve: Curve, size: int, seconds: float) -> str:
    each = f"{seconds / size * 1e6:12.4f} us each" if curve.unit != "bytes" else ""
    speed = f"{size / seconds / 1e9:12.3f} GB/s" if curve.unit == "bytes" else ""
    return f"  {label(curve, size):>12}  {seconds * 1e3:12.3f} ms  {each}{speed}"


def label(curve: Curve, size: int) -> str:
    if curve.unit != "bytes":
        return f"{size:,}"
    return f"{size / MEGABYTE:,.3f} MB" if size < MEGABYTE else f"{size // MEGABYTE:,} MB"


def plot(curves: dict[str, Points], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(curves), figsize=(4 * len(curves), 3.6), squeeze=False)
    for axis, (name, points) in zip(axes[0], curves.items(), strict=True):
        sizes, seconds = zip(*points, strict=True)
        scale = seconds[-1] / sizes[-1]
        axis.loglog(sizes, seconds, "o-", label="skate")
        axis.loglog(sizes, [size * scale for size in sizes], ":", color="grey", label="linear")
        axis.set(title=CURVES[name].title, xlabel=CURVES[name].unit, ylabel="seconds")
        axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
