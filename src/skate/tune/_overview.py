"""Trials in a table that fits: short ids, three digits, and whole columns left out before a value
is cut. All of it is in `ResultGrid.get_dataframe()`."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from skate._run.progress_lines import first_line, short_number
from skate._run.reporting import AUTOMATIC
from skate._run.values import lookup, plain
from skate.tune._table import text_table

if TYPE_CHECKING:
    from skate.tune.experiment.trial import Trial

_MOST_METRICS = 4
_MOST_ROWS = 20
_LONGEST_VALUE = 24

Column = tuple[str, Callable[["Trial"], Any]]  # header, value


def overview(
    trials: Sequence[Trial],
    metric: str | None = None,
    width: int | None = None,
    rows: int = _MOST_ROWS,
) -> str:
    """Return a table of trials as text, at most `width` wide: by default as the terminal is."""
    if width is None:
        width = shutil.get_terminal_size((100, 0)).columns
    headers, cells = fitted(trials, columns(trials, metric), width, frame=1)
    more = f"\n... {len(trials) - rows} more trials not shown" if len(trials) > rows else ""
    return f"{text_table(headers, cells[:rows])}{more}"


def columns(trials: Sequence[Trial], metric: str | None) -> list[Column]:
    """Return what can be shown of trials, the most important first."""
    reported: dict[str, Any] = {}
    for trial in trials:
        reported.update(trial.last_result)
    own = [name for name, value in reported.items() if _is_shown(name, value)]
    metrics = [name for name in own if name != metric][:_MOST_METRICS]
    parameters = dict.fromkeys(name for trial in trials for name in trial.evaluated_params)
    found: list[Column] = [(metric, _result(metric))] if metric is not None else []
    found += [(name, _parameter(name)) for name in parameters]
    found += [(name, _result(name)) for name in metrics]
    found.append(("iter", _result("training_iteration")))
    found.append(("time (s)", _result("time_total_s")))
    if any(trial.status == "ERROR" for trial in trials):
        found.insert(bool(metric), ("error", _error))
    return found


def _is_shown(name: str, value: object) -> bool:
    return name not in AUTOMATIC and isinstance(plain(value), (int, float, str))


def _result(name: str) -> Callable[[Trial], object]:
    return lambda trial: lookup(trial.last_result, name)


def _parameter(name: str) -> Callable[[Trial], object]:
    return lambda trial: trial.evaluated_params.get(name)


def _error(trial: Trial) -> str:
    return first_line(trial.error) if trial.error is not None else ""


def fitted(
    trials: Sequence[Trial], found: Sequence[Column], width: int, frame: int
) -> tuple[list[str], list[list[str]]]:
    """Return headers and rows of the columns that fit, after the ids and states of the trials.

    Args:
        trials: The rows.
        found: The columns, the most important first.
        width: Of the whole table.
        frame: How many characters a header has beside its text, on each side.
    """
    ids = short_ids(trials)
    headers, rows = ["trial", "status"], [[ids[t.trial_id], t.status] for t in trials]
    used = 1 + sum(_width(headers[i], [row[i] for row in rows], frame) for i in (0, 1))
    for header, value in found:
        cells = [_shown(value(trial)) for trial in trials]
        wide = _width(header, cells, frame)
        if used + wide > width or not any(cells):
            continue
        used += wide
        headers.append(header)
        for row, cell in zip(rows, cells, strict=True):
            row.append(cell)
    return headers, rows


def _width(header: str, cells: Sequence[str], frame: int) -> int:
    """Return the width of a column, with its border and the blanks around it."""
    return max([len(header) + 2 * frame, *map(len, cells)]) + 3


def _shown(value: object) -> str:
    value = plain(value)
    text = "" if value is None else short_number(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def short_ids(trials: Sequence[Trial]) -> dict[str, str]:
    """Return the ends of the ids, which differ, if they do; by the ids."""
    short = {trial.trial_id: trial.trial_id.rpartition("_")[2] for trial in trials}
    return short if len(set(short.values())) == len(short) else {id: id for id in short}
