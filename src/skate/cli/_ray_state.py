"""`skate ray list`, `get`, `summary`, `logs`: as Ray's commands of the same names.

Who is asked: the session of this process, or of the program that has started it; if there is
none, all sessions of this user.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate.cli._sessions import chosen
from skate.cli._tables import commands_of, show_rows, table_of

if TYPE_CHECKING:
    from skate.engine.sessions import Session
    from skate.util._state_sources import StateSource

Row = dict[str, Any]

_RULE = "-" * 30
_NOTHING = "No resource in the cluster"
_FORMATS = ("default", "json", "yaml", "table")
_SUMMED_UP = ("actors", "objects", "tasks")
# What a row is asked for by; kinds without an entry are not asked for one by one.
_IDS = {
    "actors": "actor_id",
    "nodes": "node_id",
    "objects": "object_id",
    "placement_groups": "placement_group_id",
    "tasks": "task_id",
    "workers": "worker_id",
}
_FOLLOW_SECONDS = 0.3
_STREAM = ("out", "err")


def ray_state_commands(click: ModuleType) -> list[Any]:
    """Return the commands."""
    from skate.util._state_sources import STATE_KINDS

    usual = (
        click.Option(["--address"], help="Without effect: this machine is asked."),
        click.Option(["--timeout"], type=float, default=30, help="Without effect."),
    )
    rules = ["-f", "--filter", "filters"]
    listing = (
        click.Argument(["kind"], type=click.Choice([_dashed(kind) for kind in STATE_KINDS])),
        click.Option(["--format", "form"], type=click.Choice(_FORMATS), default="default"),
        click.Option(rules, multiple=True, help="KEY=VALUE or KEY!=VALUE; repeatable."),
        click.Option(
            ["--limit"],
            type=click.IntRange(min=0),
            default=100,
            help="How many rows at the most; 100 unless given.",
        ),
        click.Option(["--detail"], is_flag=True, help="As YAML, unless a format is given."),
    )
    getting = (
        click.Argument(["kind"], type=click.Choice([_dashed(kind) for kind in _IDS])),
        click.Argument(["id"]),
    )
    rows = (
        ("list", "List what there is of a KIND.", _list, (*listing, *usual)),
        ("get", "Show one of a KIND, by its ID.", _get, (*getting, *usual)),
    )
    commands = commands_of(click, rows)
    return [*commands, summary_group(click, usual), logs_group(click, usual)]


def _dashed(kind: str) -> str:
    return kind.replace("_", "-")


# -- who is asked ---------------------------------------------------------------------------------


class _OtherSession:
    """A session of another process, in the place of an engine."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def state(self, kind: str) -> list[Row]:
        return list(self._session.ask("list", kind=kind))

    def printed(self, since: int) -> list[Row]:
        return list(self._session.ask("logs", number=since))

    def nodes(self) -> list[Row]:
        return self.state("nodes")

    def placement_group_table(self) -> dict[str, Any]:
        return {row["placement_group_id"]: row for row in self.state("placement_groups")}


def _sources() -> list[StateSource]:
    from skate.engine import installed_engine

    engine = installed_engine()
    if engine is not None:
        return [engine]
    return [_OtherSession(one) for one in chosen(session_above())]


def session_above() -> int | None:
    """Return the driver below which this process runs, if it has a session."""
    from skate.engine.sessions import sessions

    drivers = {session.pid for session in sessions()}
    return next((pid for pid in _parents() if pid in drivers), None)


def _parents() -> Iterator[int]:
    """Yield the parent of this process, its parent, and so on."""
    pid = os.getppid()
    while pid > 1:
        yield pid
        try:
            with open(f"/proc/{pid}/stat") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except OSError:  # it has just ended
            return


def _of_each(ask: Callable[[StateSource], Any]) -> list[Any]:
    """Return what the sessions answer, but for those that have ended since they were listed."""
    found, sources = [], _sources()
    for source in sources:
        try:
            found.append(ask(source))
        except ConnectionError:
            if len(sources) == 1:
                raise
    return found


# -- list, get ------------------------------------------------------------------------------------


def _list(
    kind: str,
    form: str,
    filters: Sequence[str],
    limit: int,
    detail: bool,
    address: str | None,
    timeout: float,
) -> None:
    from skate.util._state_kinds import ROWS_OF
    from skate.util._state_rows import chosen as chosen_rows

    kind = kind.replace("-", "_")
    wanted = [filter_of(text) for text in filters]
    all_rows = _rows(kind)
    if detail and form == "default":
        form = "yaml"
    rows = chosen_rows(all_rows, wanted, limit, ROWS_OF[kind])
    if len(rows) == limit < len(all_rows):
        _warn_of_more(kind, limit, len(all_rows))
    print(shown(rows, form))


def _warn_of_more(kind: str, limit: int, total: int) -> None:
    warnings.warn(
        f"{limit} ({total} total) {kind} are returned. {total - limit} entries have been "
        "truncated. Use `--filter` to choose among them, or a higher `--limit`",
        UserWarning,
        stacklevel=3,
    )


def _rows(kind: str) -> Sequence[Row]:
    from skate.util._state_kinds import ROWS_OF
    from skate.util._state_rows import completed
    from skate.util._state_sources import all_rows, job_rows

    if kind == "jobs":  # the machine knows them, whether there is a session or not
        answers = [[*job_rows()]]
    else:
        answers = _of_each(lambda source: [*all_rows(kind, source)])
    return [*completed((row for some in answers for row in some), ROWS_OF[kind])]


def filter_of(text: str) -> tuple[str, str, str]:
    """Return a filter from the command line as the functions of `util.state` take it."""
    found = re.fullmatch("([^=!]+)(!?=)(.+)", text, re.DOTALL)
    if found is None:
        raise ValueError(f"--filter looks like KEY=VALUE or KEY!=VALUE; got {text!r}")
    key, predicate, value = found.groups()
    return key, predicate, value


def shown(rows: Sequence[Row], form: str) -> str:
    """Return rows as text, in one of the formats of `--format`."""
    if form not in _FORMATS:
        raise ValueError(f"a format is one of {', '.join(_FORMATS)}; got {form!r}")
    if form == "json":
        return json.dumps([dict(row) for row in rows], default=str)
    if form == "yaml":
        return _yaml([dict(row) for row in rows])
    if not rows:
        return _NOTHING
    head = f"\n======== List: {datetime.now()} ========\nStats:\n{_RULE}\nTotal: {len(rows)}\n"
    return f"{head}\nTable:\n{_RULE}\n{table_of([_titled(row) for row in rows])}"


def _titled(row: Row) -> Row:
    return {name.upper(): value for name, value in row.items()}


def _yaml(value: object) -> str:
    plain = json.loads(json.dumps(value, default=str))
    text: str = try_import("yaml", "serve").dump(
        plain, indent=4, sort_keys=False, explicit_start=True, explicit_end=True
    )
    return text


def _get(kind: str, id: str, address: str | None, timeout: float) -> None:
    kind = kind.replace("-", "_")
    rows = [row for row in _rows(kind) if row[_IDS[kind]] == id]
    if rows:
        print(shown(rows, "yaml"))
    else:
        print(f"Resource with id={id} not found in the cluster")


# -- summary --------------------------------------------------------------------------------------


def summary_group(click: ModuleType, options: Sequence[Any]) -> Any:
    """Return the commands below `summary`."""
    rows = [(kind, f"Count {kind}.", _summary_of(kind), options) for kind in _SUMMED_UP]
    text = "Count actors, tasks or objects, by what they are."
    return click.Group("summary", help=text, commands=commands_of(click, rows))


def _summary_of(kind: str) -> Callable[..., None]:
    def summarize(address: str | None, timeout: float) -> None:
        from skate.util._state_summaries import summary_of

        for found in _of_each(lambda source: summary_of(kind, source)):
            _show_summary(kind, found["cluster"])

    return summarize


def _show_summary(kind: str, found: Row) -> None:
    print(f"\n======== {kind.capitalize()} Summary: {datetime.now()} ========\nStats:\n{_RULE}")
    for name, value in found.items():
        if name not in ("summary", "summary_by"):
            print(f"{name}: {value}")
    print(f"\nTable (group by {found['summary_by']}):\n{_RULE}")
    rows = [{found["summary_by"]: name, **row} for name, row in found["summary"].items()]
    show_rows([_titled(row) for row in rows], as_json=False, nothing=_NOTHING)


# -- logs -----------------------------------------------------------------------------------------


def logs_group(click: ModuleType, usual: Sequence[Any]) -> Any:
    """Return the commands below `logs`; a name that is none of them is that of a log."""
    where = (
        click.Option(["-ip", "--node-ip"], help="Without effect: there is one machine."),
        click.Option(["-id", "--node-id"], help="Without effect: there is one machine."),
        *usual,
    )
    how = (
        click.Option(["--tail"], type=int, default=1000, help="Lines of the end; -1 for all."),
        click.Option(["-f", "--follow"], is_flag=True, help="Go on, until Ctrl-C."),
        click.Option(["--interval"], type=float, help="Seconds between two looks."),
    )
    stream = click.Option(["--err"], is_flag=True, help="Standard error instead of output.")
    id = click.Option(["--id"], help="Its id.", required=True)
    optional_id = click.Option(["-a", "--id"], help="Its id.")
    pid = click.Option(["-pid", "--pid"], type=int, help="Its process.")
    attempt = click.Option(["-a", "--attempt-number"], type=int, default=0, help="Not told apart.")
    pattern = click.Argument(["pattern"], required=False)
    encoding = [
        click.Option([name], expose_value=False, help="Without effect: what is kept is text.")
        for name in ("--encoding", "--encoding-errors")
    ]
    rows = (
        ("cluster", "List logs, or show the one that PATTERN fits.", _cluster_logs,
         (pattern, *how, *encoding, *where)),
        ("actor", "Show what an actor has printed.", _actor_logs,
         (optional_id, pid, stream, *how, *where)),
        ("worker", "Show what a process has printed.", _worker_logs,
         (click.Option(["-pid", "--pid"], type=int, required=True), stream, *how, *where)),
        ("task", "Show what a task has printed.", _task_logs,
         (id, attempt, stream, *how, *usual)),
        ("job", "Show what a submitted job has printed.", _job_logs, (id, *how, *usual)),
    )  # fmt: skip
    text = "Show what workers have printed lately."
    commands = {command.name: command for command in commands_of(click, rows)}
    return _logs_class(click)("logs", help=text, commands=commands)


def _logs_class(click: ModuleType) -> Any:
    class LogsGroup(click.Group):  # type: ignore[misc, name-defined]
        def resolve_command(self, context: Any, arguments: list[str]) -> Any:
            """Take what is no command, and nothing, for the name of a log."""
            if arguments[0] not in self.commands:
                arguments.insert(0, "cluster")
            return super().resolve_command(context, arguments)

        def parse_args(self, context: Any, arguments: list[str]) -> Any:
            helps = any(one in ("--help", "-h") for one in arguments)
            if not helps and (not arguments or arguments[0].startswith("-")):
                arguments.insert(0, "cluster")
            return super().parse_args(context, arguments)

    return LogsGroup


def _cluster_logs(
    pattern: str | None, tail: int, follow: bool, interval: float | None, **where: object
) -> None:
    from skate.util._state_logs import log_names

    found = _of_each(lambda source: log_names(source, pattern or "*"))
    names = [name for groups in found for some in groups.values() for name in some]
    if pattern is not None and len(names) == 1:
        _print_log({"filename": names[0]}, tail, follow, interval)
        return
    print(_yaml([groups for groups in found if groups]) if names else "no logs")


def _actor_logs(id: str | None, pid: int | None, err: bool, **how: Any) -> None:
    _print_log({"actor_id": id, "pid": pid}, **_kept(how), suffix=_STREAM[err])


def _worker_logs(pid: int, err: bool, **how: Any) -> None:
    _print_log({"pid": pid}, **_kept(how), suffix=_STREAM[err])


def _task_logs(id: str, attempt_number: int, err: bool, **how: Any) -> None:
    _print_log({"task_id": id}, **_kept(how), suffix=_STREAM[err])


def _job_logs(id: str, tail: int, follow: bool, interval: float | None, **where: object) -> None:
    from skate.util._state_logs import job_log

    _print_all(job_log(id, tail, _pause(follow, interval)))


def _kept(how: Mapping[str, Any]) -> Row:
    return {name: how[name] for name in ("tail", "follow", "interval")}


def _print_log(
    asked: Row, tail: int, follow: bool, interval: float | None, suffix: str = "out"
) -> None:
    """Print it from the first session that knows of it."""
    from skate.util._state_logs import log_of

    pause = _pause(follow, interval)
    sources = _sources()
    for number, source in enumerate(sources, start=1):
        try:
            texts = log_of(source, asked, suffix=suffix, tail=tail, interval=pause)
            break
        except ValueError:
            if number == len(sources):
                raise
    _print_all(texts)


def _pause(follow: bool, interval: float | None) -> float | None:
    return (interval or _FOLLOW_SECONDS) if follow else None


def _print_all(texts: Iterator[str]) -> None:
    with suppress(KeyboardInterrupt, ConnectionError):  # nobody looks any more, or it has ended
        for text in texts:
            print(text, end="", flush=True)
