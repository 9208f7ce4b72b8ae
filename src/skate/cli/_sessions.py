"""`skate status`, `list`, `memory`, `timeline`, `logs`: look into sessions that run."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any

from skate.cli._tables import commands_of, json_option, pair_of, show_rows

if TYPE_CHECKING:
    from skate.engine.sessions import Session

Row = dict[str, Any]

# What tables show of the rows; JSON has all of it. Kinds without an entry are shown as they are.
_COLUMNS: dict[str, tuple[str, ...]] = {
    "tasks": ("session", "name", "state", "type", "worker_pid", "start_time_ms", "task_id"),
    "actors": ("session", "class_name", "name", "state", "pid", "num_restarts", "actor_id"),
    "objects": (
        "session",
        "object_id",
        "object_size",
        "spilled",
        "task_status",
        "reference_count",
    ),
    "workers": ("session", "pid", "state", "runs", "resident"),
    "deployments": (
        "session",
        "application",
        "deployment",
        "state",
        "replicas",
        "answered",
        "mean_s",
        "p50_s",
        "p90_s",
        "p99_s",
        "message",
    ),
}
KINDS = ("tasks", "actors", "objects", "workers", "datasets", "trials", "deployments")
_FOLLOW_SECONDS = 0.3
_FILTER_FORM = "--filter looks like KEY=VALUE, as state=RUNNING"
_MEMORY_COLUMNS = ("session", "size", "where", "made_by", "held_by", "line", "object_id")


def session_commands(click: ModuleType) -> list[Any]:
    """Return the commands."""
    session = click.Option(
        ["--session"], type=int, help="The process id of the program; all sessions unless given."
    )
    usual = (session, json_option(click))
    limit = click.Option(
        ["--limit"],
        type=click.IntRange(min=1),
        default=100,
        help="How many rows at the most; 100 unless given.",
    )
    rule = click.Option(
        ["--filter", "filters"], multiple=True, metavar="KEY=VALUE", help="Which rows; repeatable."
    )
    kind = click.Argument(["kind"], type=click.Choice(KINDS))
    pid = click.Option(["--pid"], type=int, help="What this process printed, only.")
    lines = click.Option(
        ["-n", "lines"],
        type=click.IntRange(min=1),
        default=1000,
        help="How many lines; 1000 unless given.",
    )
    follow = click.Option(["-f", "--follow"], is_flag=True, help="Go on, until Ctrl-C.")
    file = click.Argument(["file"])
    to_file = "Write what ran when to FILE, for Perfetto (ui.perfetto.dev) or chrome://tracing."
    rows = (
        ("status", "Show sessions, their workers, actors, resources and memory.", _status, usual),
        ("list", "List what there is of a KIND.", _list, (kind, rule, limit, *usual)),
        ("memory", "Show who holds which bytes.", _memory, (limit, *usual)),
        ("logs", "Show what workers have printed lately.", _logs, (pid, lines, follow, *usual)),
        ("timeline", to_file, write_timeline, (file, session)),
    )
    return commands_of(click, rows)


def chosen(session: int | None) -> list[Session]:
    """Return the sessions of this user, or the one that was asked for.

    Raises:
        ValueError: If there is none.
    """
    from skate.engine.sessions import sessions

    found = sessions()
    if session is not None:
        wanted = [one for one in found if one.pid == session]
        if not wanted:
            there = ", ".join(str(one.pid) for one in found) or "none"
            raise ValueError(f"process {session} has no session of this user; there is {there}")
        return wanted
    if not found:
        raise ValueError("no program of this user has a session: it begins with skate.init()")
    return found


def _of_each(
    session: int | None, ask: Callable[[Session], list[Row]]
) -> list[tuple[Session, list[Row]]]:
    """Return what the sessions answer; say of those that do not that they do not."""
    from skate.engine.sessions import NoAnswerError

    found = []
    for one in chosen(session):
        try:
            found.append((one, ask(one)))
        except NoAnswerError as error:
            if session is None and one.is_over:  # it has ended since they were listed
                continue
            print(f"{error}; `skate stack {one.pid}` shows why", file=sys.stderr)
    return found


# -- status ---------------------------------------------------------------------------------------


def _status(session: int | None, as_json: bool) -> None:
    from skate.engine.sessions import sessions

    found = chosen(session) if session is not None else sessions()
    rows = [_status_of(one) for one in found]
    if as_json:
        show_rows(rows, as_json)
    elif not rows:
        print("no sessions")
    for row in rows if not as_json else ():
        print("\n".join(_described(row)))


def _status_of(session: Session) -> Row:
    from skate.engine.sessions import NoAnswerError, command_of, resident_bytes, state_of

    row: Row = {"pid": session.pid, "program": command_of(session.pid), "answers": False}
    row["stopped"] = state_of(session.pid) in ("T", "t")
    row["resident_bytes"] = sum(map(resident_bytes, session.processes()))
    if row["stopped"]:
        return row
    try:
        return {**row, **session.ask("status", timeout=2.0), "answers": True}
    except NoAnswerError:
        return row


def _described(row: Row) -> list[str]:
    program = row["program"] if isinstance(row["program"], str) else " ".join(row["program"])
    lines = [f"session {row['pid']}  {program}"]
    if row["stopped"]:
        lines.append(f"  stopped: `kill -CONT {row['pid']}` lets it go on")
    elif not row["answers"]:
        lines.append(f"  busy: it does not answer; `skate stack {row['pid']}` shows where")
    else:
        total, free = row["resources"], row["available"]
        store = total["object_store_memory"]
        lines += [
            f"  since      {_age(time.time() - row['started'])}",
            f"  workers    {_counts(row['workers'])}",
            f"  actors     {_counts(row['actors'])}",
            f"  tasks      {_counts(row['tasks'])}",
            f"  resources  {_used(total, free)}",
            f"  objects    {row['objects']}: {_size(row['object_bytes'])} of {_size(store)} "
            f"in memory, {_size(row['spilled_bytes'])} on disk",
        ]
    lines.append(f"  processes  {_size(row['resident_bytes'])} resident")
    return lines


def _counts(states: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"


def _used(total: Mapping[str, float], free: Mapping[str, float]) -> str:
    shown = {
        name: amount
        for name, amount in total.items()
        if not name.startswith("node:") and not name.endswith("memory")
    }
    return ", ".join(
        f"{amount - free.get(name, 0):g} of {amount:g} {name}" for name, amount in shown.items()
    )


def _age(seconds: float) -> str:
    whole = int(seconds)
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


# -- rows -----------------------------------------------------------------------------------------


def _rows(session: Session, kind: str) -> list[Row]:
    if kind != "deployments":
        return [*session.rows(kind)]
    from skate.dashboard.traffic import with_times

    found = session.under_way()
    rows = with_times(found.get("deployments", ()), found.get("replicas", ()))
    return [{"session": session.pid, **row} for row in rows]


def _list(
    kind: str, filters: Sequence[str], limit: int, session: int | None, as_json: bool
) -> None:
    from skate.engine.sessions import resident_bytes

    wanted = [pair_of(one, _FILTER_FORM) for one in filters]
    asked = "live_workers" if kind == "workers" else kind
    answers = _of_each(session, lambda one: _rows(one, asked))
    rows = [row for _, some in answers for row in some]
    for key, _ in wanted:
        if rows and not any(key in row for row in rows):
            raise ValueError(f"--filter takes one of {', '.join(rows[0])}; got {key!r}")
    rows = [row for row in rows if all(_is(row.get(key), value) for key, value in wanted)]
    if kind == "workers":
        rows = [{**row, "resident": resident_bytes(row["pid"])} for row in rows]
    _show(rows[:limit], _COLUMNS.get(kind), as_json, f"no {kind}")
    if len(rows) > limit and not as_json:
        print(f"… and {len(rows) - limit} more (--limit)")


def _is(found: object, wanted: str) -> bool:
    """Compare as it is written: 12 is "12", True is "true"."""
    return str(found).lower() == wanted.lower()


def _show(rows: Sequence[Row], columns: Sequence[str] | None, as_json: bool, nothing: str) -> None:
    if columns is not None and not as_json:
        rows = [{name: _cell(name, row.get(name)) for name in columns} for row in rows]
    show_rows(rows, as_json, nothing)


def _cell(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or None
    if value is not None and name == "start_time_ms":
        return time.strftime("%H:%M:%S", time.localtime(value / 1000))
    if name in ("size", "object_size", "resident"):
        return _size(value)
    return value


def _memory(limit: int, session: int | None, as_json: bool) -> None:
    answers = _of_each(session, lambda one: one.memory())
    rows = [{"session": one.pid, **row} for one, some in answers for row in some]
    rows.sort(key=lambda row: -row["size"])  # of several sessions, too
    columns = [
        name for name in _MEMORY_COLUMNS if name != "line" or any(row["line"] for row in rows)
    ]
    _show(rows[:limit], columns, as_json, "no objects with bytes")
    if rows and not as_json:
        total = sum(row["size"] for row in rows)
        print(f"{len(rows)} objects, {_size(total)}")
        if "line" not in columns:
            print("SKATE_CALL_SITES=1 in the program's environment shows the lines that made them")


# -- timeline and logs ----------------------------------------------------------------------------


def write_timeline(file: str, session: int | None) -> None:
    """Write what ran when in a session, the only one unless it is named, and say where."""
    events = timeline_of(session)
    with open(file, "w") as opened:
        save_timeline(events, opened)


def timeline_of(session: int | None) -> list[dict[str, Any]]:
    """Return what ran when in a session, the only one unless it is named."""
    found = chosen(session)
    if len(found) > 1:
        there = ", ".join(str(one.pid) for one in found)
        raise ValueError(f"there are {len(found)} sessions: choose one by --session ({there})")
    events: list[dict[str, Any]] = found[0].ask("timeline")
    return events


def save_timeline(events: list[dict[str, Any]], opened: IO[str]) -> None:
    """Write what ran when to a file, and say where."""
    json.dump(events, opened)
    where = os.path.abspath(opened.name)
    print(f"{where}: {sum(event['ph'] == 'X' for event in events)} spans")


def _logs(pid: int | None, lines: int, follow: bool, session: int | None, as_json: bool) -> None:
    seen: dict[int, int] = {}
    answers = _of_each(session, lambda one: _new(one, seen, pid))
    pieces = [piece for _, some in answers for piece in some]
    _print_pieces(sorted(pieces, key=lambda piece: piece["time"])[-lines:], as_json)
    left = [one for one, _ in answers] if follow else []
    with suppress(KeyboardInterrupt):  # nobody looks any more
        while left:
            time.sleep(_FOLLOW_SECONDS)
            for one in tuple(left):
                try:
                    _print_pieces(_new(one, seen, pid), as_json)
                except ConnectionError:  # it has ended
                    left.remove(one)


def _new(session: Session, seen: dict[int, int], pid: int | None) -> list[Row]:
    """Return what was printed since the last time."""
    pieces: list[Row] = session.ask("logs", number=seen.get(session.pid, 0))
    if pieces:
        seen[session.pid] = pieces[-1]["number"]
    return [piece for piece in pieces if pid in (None, piece["pid"])]


def _print_pieces(pieces: Iterable[Row], as_json: bool) -> None:
    for piece in pieces:
        if as_json:
            print(json.dumps(piece), flush=True)
            continue
        label = f"({piece['label']} pid={piece['pid']}) " if piece["pid"] else ""
        for line in piece["text"].splitlines():
            print(f"{label}{line}", flush=True)
