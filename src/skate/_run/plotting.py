"""Curves of what a run reported."""

from __future__ import annotations

from typing import Any

from skate._core.notebooks import in_notebook
from skate._core.optional_imports import try_import
from skate._run.reporting import AUTOMATIC
from skate._run.types import ResultRow
from skate._run.values import flatten


def draw(history: list[ResultRow], metrics: tuple[str, ...], x: str, ax: Any) -> Any:
    rows = [dict(flatten(row)) for row in history]
    names = metrics or tuple(_numbers(rows))
    if not names:
        raise ValueError("there is nothing to draw: the run has reported no numbers")
    for name in names:
        if not any(name in row for row in rows):
            raise ValueError(f"no result has {name!r}; there are {_numbers(rows)}")
    if ax is None:
        ax = _new_axes()
    for name in names:
        points = [(row.get(x, i + 1), row[name]) for i, row in enumerate(rows) if name in row]
        ax.plot(*zip(*points, strict=True), marker=".", label=name)
    ax.set_xlabel(x)
    ax.legend()
    return ax


def _new_axes() -> object:
    """Return axes of a figure of their own. In a notebook pyplot knows it, and shows it below the
    cell; elsewhere nobody has to close it."""
    if in_notebook():
        return try_import("matplotlib.pyplot", "plot").subplots(layout="tight")[1]
    return try_import("matplotlib.figure", "plot").Figure(layout="tight").subplots()


def _numbers(rows: list[ResultRow]) -> list[str]:
    found: dict[str, None] = {}
    for row in rows:
        for name, value in row.items():
            own = name.partition("/")[0] not in AUTOMATIC
            if own and isinstance(value, (int, float)) and not isinstance(value, bool):
                found[name] = None
    return list(found)
