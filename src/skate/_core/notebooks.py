"""Live views and tables in notebooks, with nothing but what IPython itself has."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH, _HEIGHT = 120, 1000  # of a live view, in characters: a page has no end
_PRE = '<pre style="white-space:pre;overflow-x:auto;line-height:normal">{code}</pre>'
_MOST_CHARACTERS = 200  # of a cell
_CURVE = (240, 48)  # width and height, in pixels


def in_notebook() -> bool:
    """Return whether this is a notebook's kernel, where what was shown can be replaced."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


class NotebookView:
    """Shows what rich draws, in the cell that runs, each time in the place of the last.

    It is used as `rich.live.Live` is; the last drawing stays.
    """

    def __init__(self) -> None:
        self.console: Console = _console()
        self._handle: Any = None

    def start(self) -> None:
        """Begin. Nothing is shown before the first update."""

    def update(self, drawing: object, refresh: bool = True) -> None:
        """Show a drawing; `refresh` is for those who would rather show it later."""
        display: Any = sys.modules["IPython"].display.display
        self.console = _console()  # what it has recorded is never needed again
        self.console.print(drawing)
        text = self.console.export_text(clear=False)
        page = self.console.export_html(code_format=_PRE, inline_styles=True)
        shown = {"text/plain": text, "text/html": page}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def stop(self) -> None:
        """End. What was shown stays."""


def _console() -> Console:
    """Return a console that records what is drawn, and shows nothing by itself."""
    from rich.console import Console

    return Console(file=StringIO(), record=True, width=_WIDTH, height=_HEIGHT, force_jupyter=False)


# -- HTML -----------------------------------------------------------------------------------------


def html_table(rows: Sequence[Mapping[str, object]], most: int = 20) -> str:
    """Return rows as a table whose columns are all of their keys.

    Args:
        rows: What to show.
        most: How many rows are shown; how many more there are is said.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{_text(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td>{_text(row.get(name))}</td>' for name in names)}</tr>"
        for row in rows[:most]
    )
    more = f"<p>… and {len(rows) - most} more</p>" if len(rows) > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def html_facts(title: str, facts: Mapping[str, object]) -> str:
    """Return names and values, below each other; those without a value are left out."""
    rows = "".join(
        f'<tr><th style="text-align:left">{_text(name)}</th>'
        f'<td style="text-align:left">{_text(value)}</td></tr>'
        for name, value in facts.items()
        if value is not None
    )
    return f"<b>{_text(title)}</b><table><tbody>{rows}</tbody></table>"


def html_curve(name: str, values: Iterable[object]) -> str:
    """Return a small drawing of how a number went. Values that are no finite numbers are left out;
    nothing is drawn of fewer than two."""
    points = [value for value in values if isinstance(value, (int, float)) and isfinite(value)]
    if len(points) < 2:
        return ""
    (width, height), lowest = _CURVE, min(points)
    spread = (max(points) - lowest) or 1.0
    step = width / (len(points) - 1)
    heights = [height - (value - lowest) / spread * height for value in points]
    path = " ".join(f"{place * step:.1f},{y:.1f}" for place, y in enumerate(heights))
    return (
        f'<figure style="display:inline-block;margin:4px"><svg width="{width}" height="{height}" '
        f'viewBox="-2 -2 {width + 4} {height + 4}"><polyline points="{path}" fill="none" '
        f'stroke="currentColor" stroke-width="1.5"/></svg><figcaption>{_text(name)}: '
        f"{_text(points[0])} → {_text(points[-1])}</figcaption></figure>"
    )


def _text(value: object) -> str:
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return html.escape(text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…")
