"""How many actors, tasks and objects there are, by what they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from skate.engine import current_engine
from skate.util._state_kinds import ROWS_OF
from skate.util._state_rows import Filters, filtered
from skate.util._state_sources import StateSource

Row = dict[str, Any]

_BYTES_PER_MB = 1024 * 1024


_ARGUMENTS = """

    Args:
        address: Without effect: the session of this program is asked.
        timeout: Without effect: the answer is there at once.
        raise_on_missing_output: Without effect: nothing is missing.
        _explain: Without effect: no query is made that could be explained.
    """

Summarizing: TypeAlias = Callable[..., Row]


def _summarizer(kind: str, doc: str) -> Summarizing:
    def summarizing(
        address: str | None = None,
        timeout: float = 30,
        raise_on_missing_output: bool = True,
        _explain: bool = False,
    ) -> Row:
        return summary_of(kind, current_engine())

    summarizing.__name__ = summarizing.__qualname__ = f"summarize_{kind}"
    summarizing.__doc__ = f"{doc}{_ARGUMENTS}"
    return summarizing


summarize_actors: Summarizing = _summarizer(
    "actors", "Return how many actors of each class are in which state."
)
summarize_tasks: Summarizing = _summarizer(
    "tasks", "Return how many tasks of each name are in which state."
)
summarize_objects: Summarizing = _summarizer(
    "objects",
    "Return how many objects there are, and how many bytes, by the lines that made them.",
)


def summary_of(kind: str, source: StateSource, filters: Filters | None = None) -> Row:
    """Return how many there are of "actors", "tasks" or "objects", by what they are.

    Args:
        kind: Of what.
        source: Who knows.
        filters: Which rows count, as for lists; None for all.
    """
    rows = source.state(kind)
    if filters:
        rows = [*filtered(rows, filters, ROWS_OF[kind])]
    return {"actors": _of_actors, "tasks": _of_tasks, "objects": _of_objects}[kind](rows)


def _of_actors(rows: Sequence[Row]) -> Row:
    return _cluster(_by(rows, "class_name"), "class", total_actors=len(rows))


def _of_tasks(rows: Sequence[Row]) -> Row:
    rows = [{**row, "func_or_class_name": row["name"]} for row in rows]  # as in Ray
    summary = _by(rows, "func_or_class_name")
    for row in rows:
        summary[row["name"]]["type"] = row["type"]
    kinds = Counter(row["type"] for row in rows)
    return _cluster(
        summary,
        "func_name",
        total_tasks=kinds["NORMAL_TASK"],
        total_actor_tasks=kinds["ACTOR_TASK"],
        total_actor_scheduled=kinds["ACTOR_CREATION_TASK"],
    )


def _of_objects(rows: Sequence[Row]) -> Row:
    sites: dict[str, list[Row]] = {}
    for row in rows:
        sites.setdefault(row["call_site"], []).append(row)
    return _cluster(
        {site: _object_summary(some) for site, some in sites.items()},
        "callsite",
        total_objects=len(rows),
        total_size_mb=_megabytes(rows),
        callsite_enabled="disabled" not in sites,
    )


def _object_summary(rows: Sequence[Row]) -> Row:
    return {
        "total_objects": len(rows),
        "total_size_mb": _megabytes(rows),
        "total_num_workers": len({row["pid"] for row in rows}),
        "total_num_nodes": len({row["ip"] for row in rows}),
        "task_state_counts": dict(Counter(row["task_status"] for row in rows)),
        "task_attempt_number_counts": dict(Counter(str(row["attempt_number"]) for row in rows)),
        "ref_type_counts": dict(Counter(row["reference_type"] for row in rows)),
    }


def _megabytes(rows: Sequence[Row]) -> float:
    return float(sum(max(0, row["object_size"]) for row in rows)) / _BYTES_PER_MB


def _by(rows: Sequence[Row], title: str) -> dict[str, Row]:
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row[title], Counter())[row["state"]] += 1
    return {name: {title: name, "state_counts": dict(some)} for name, some in counts.items()}


def _cluster(summary: dict[str, Row], by: str, **totals: float) -> Row:
    return {"cluster": {"summary": summary, "summary_by": by, **totals}}
