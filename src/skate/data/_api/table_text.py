"""A dataset as a table of text: its columns, their types, and rows that are there already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skate.data._arrow.blocks import rows_of
from skate.data._arrow.schema import Schema
from skate.data._execution.bundles import Bundle

_ROWS = 10  # if there are more: the first and the last five
_CELL = 40  # characters
_CUT = "…"


def table_text(schema: Schema, bundles: Sequence[Bundle]) -> str:
    """Return the columns and types, and the first and last rows of `bundles`, in a frame.

    Args:
        schema: Of the rows.
        bundles: Rows in memory; none shows the columns only.
    """
    heads: list[Sequence[object]] = [schema.names, ["---"] * len(schema.names), schema.type_texts]
    rows = _shown(bundles, schema.names)
    lines = [[_cell(value) for value in line] for line in [*heads, *rows]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [_line("│", "┆", [f" {c:<{w}} " for c, w in zip(line, widths, strict=True)], "│")
            for line in lines]  # fmt: skip
    if rows:
        text.insert(len(heads), _line("╞", "╪", ["═" * (width + 2) for width in widths], "╡"))
    edge = ["─" * (width + 2) for width in widths]
    return "\n".join([_line("╭", "┬", edge, "╮"), *text, _line("╰", "┴", edge, "╯")])


def rows_shown(count: int) -> int:
    """Return how many of so many rows a table shows."""
    return min(count, _ROWS)


def _shown(bundles: Sequence[Bundle], names: Sequence[str]) -> list[list[object]]:
    if sum(bundle.rows for bundle in bundles) <= _ROWS:
        return _first(bundles, names, _ROWS)
    half = _ROWS // 2
    return [*_first(bundles, names, half), [_CUT] * len(names), *_last(bundles, names, half)]


def _first(bundles: Sequence[Bundle], names: Sequence[str], count: int) -> list[list[object]]:
    found: list[list[object]] = []
    for bundle in bundles:
        if len(found) == count:
            break
        found += _values(bundle, names, 0, count - len(found))
    return found


def _last(bundles: Sequence[Bundle], names: Sequence[str], count: int) -> list[list[object]]:
    found: list[list[object]] = []
    for bundle in reversed(bundles):
        if len(found) == count:
            break
        start = max(0, bundle.rows - (count - len(found)))
        found = [*_values(bundle, names, start, bundle.rows), *found]
    return found


def _values(bundle: Bundle, names: Sequence[str], start: int, stop: int) -> list[list[object]]:
    if not bundle.rows:
        return []
    block = bundle.get().slice(start, stop - start)
    return [[row.get(name) for name in names] for row in rows_of(block, plain=False)]


def _cell(value: object) -> str:
    text = " ".join(str(value.item() if isinstance(value, np.generic) else value).splitlines())
    return text if len(text) <= _CELL else text[: _CELL - 1] + _CUT


def _line(left: str, between: str, cells: Sequence[str], right: str) -> str:
    return left + between.join(cells) + right
