"""Tables of plain text: numbers to the right, their points below each other."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(headers: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Draw a table with a frame, as text."""
    columns = [_column(name, [row[i] for row in rows]) for i, name in enumerate(headers)]
    frame = "+".join("-" * (len(column[0]) + 2) for column in columns)
    lines = [f"| {' | '.join(cells)} |" for cells in zip(*columns, strict=True)]
    return "\n".join([f"+{frame}+", lines[0], f"|{frame}|", *lines[1:], f"+{frame}+"])


def _column(name: str, values: list[object]) -> list[str]:
    """Pad the header and the cells of a column to one width, numbers aligned at their point."""
    known = [value for value in values if value is not None and value != ""]
    numeric = bool(known) and all(_is_number(value) for value in known)
    cells = [_cell(value, numeric) for value in values]
    if numeric:
        decimals = max((_decimals(cell) for cell in cells), default=-1)
        cells = [cell + " " * (decimals - _decimals(cell)) for cell in cells]
    width = max([len(name) + 2, *map(len, cells)])
    if numeric:
        return [name.rjust(width), *(cell.rjust(width) for cell in cells)]
    return [name.ljust(width), *(cell.ljust(width) for cell in cells)]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _cell(value: object, numeric: bool) -> str:
    if value is None:
        return ""
    return format(value, "g") if numeric and isinstance(value, float) else str(value)


def _decimals(cell: str) -> int:
    """Count the characters behind the point or before the exponent; -1 for whole numbers."""
    place = cell.rfind(".")
    if place < 0:
        place = cell.lower().rfind("e")
    return len(cell) - place - 1 if place >= 0 else -1
