"""What tasks and actors have printed lately, by process, actor, task or submitted job.

Nothing is written to files: the last million characters are in the driver's memory, and the names
of `list_logs` stand for them. What C libraries and child processes of workers print goes to one
pipe for all of them, so that it has names of its own.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

import skate
from skate._core.argument_checks import whole_number
from skate.engine import current_engine, installed_engine
from skate.engine.base import Engine
from skate.util._state_sources import StateSource, submitted_jobs

if TYPE_CHECKING:
    from skate.job_submission import JobSubmissionClient

Row = dict[str, Any]

_STREAMS = {1: "out", 2: "err"}
_FOLLOW_SECONDS = 0.5
_ANSI_CODE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_OF_NOBODY = "workers"  # printed below Python: nobody knows by which of them


def list_logs(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    glob_filter: str | None = None,
    timeout: float = 30,
) -> dict[str, list[str]]:
    """List what there is of printed output: a name for each process and stream.

    Args:
        address: Without effect: the session of this program is asked.
        node_id: The machine, by its id.
        node_ip: The machine, by its address; one of the two is needed.
        glob_filter: A pattern of the names, as "*worker*".
        timeout: Without effect: the answer is there at once.

    Returns:
        Names that `get_log(filename=...)` takes: of standard output under "worker_out", of
        standard error under "worker_err".

    Raises:
        ValueError: If no machine is named, or another one.
    """
    if node_id is None and node_ip is None:
        raise ValueError("node_id or node_ip says whose logs to list; got neither")
    _check_node(node_id, node_ip)
    return log_names(current_engine(), glob_filter or "*")


def log_names(source: StateSource, pattern: str) -> dict[str, list[str]]:
    """Return the names of what was printed, by stream."""
    found: dict[str, list[str]] = {}
    for piece in source.printed(0):
        name, group = _file_name(piece), f"worker_{_STREAMS[piece['stream']]}"
        if fnmatchcase(name, pattern) and name not in found.setdefault(group, []):
            found[group].append(name)
    return {group: names for group, names in found.items() if names}


def get_log(
    address: str | None = None,
    node_id: str | None = None,
    node_ip: str | None = None,
    filename: str | None = None,
    actor_id: str | None = None,
    task_id: str | None = None,
    pid: int | None = None,
    follow: bool = False,
    tail: int = -1,
    timeout: float = 30,
    suffix: str = "out",
    encoding: str | None = "utf-8",
    errors: str = "strict",
    submission_id: str | None = None,
    attempt_number: int = 0,
    _interval: float | None = None,
    filter_ansi_code: bool = False,
) -> Iterator[Any]:
    """Return what was printed by a process, an actor, a task or a submitted job.

    Args:
        address: Without effect: the session of this program is asked.
        node_id: The machine, by its id; there is one.
        node_ip: The machine, by its address.
        filename: A name of `list_logs`.
        actor_id: An actor, by its id.
        task_id: A task, by its id: what it printed in all its attempts.
        pid: A process.
        follow: Whether to go on with what is printed later, for as long as the session is there,
            or the job is not over.
        tail: How many lines of the end; -1 for all that is kept.
        timeout: Without effect: the answer is there at once.
        suffix: "out" for standard output, "err" for standard error; a filename says it itself.
        encoding: How to encode what is yielded; None for bytes.
        errors: What to do with characters that the encoding lacks.
        submission_id: A job, by the id of its submission; both streams.
        attempt_number: Without effect: attempts of a task are not told apart.
        _interval: Seconds between two looks, with `follow`.
        filter_ansi_code: Whether to leave out codes of colours and the like.

    Returns:
        Pieces of text, or of bytes if `encoding` is None.

    Raises:
        ValueError: If none or several of what can be asked for are named, or it is not known.
    """
    _check_node(node_id, node_ip)
    texts = log_of(
        current_engine(),
        {
            "filename": filename,
            "actor_id": actor_id,
            "task_id": task_id,
            "pid": pid,
            "submission_id": submission_id,
        },
        suffix=suffix,
        tail=tail,
        interval=(_interval or _FOLLOW_SECONDS) if follow else None,
    )
    return _encoded(texts, encoding, errors, filter_ansi_code)


def log_of(
    source: StateSource,
    asked: Mapping[str, Any],
    *,
    suffix: str = "out",
    tail: int = -1,
    interval: float | None = None,
) -> Iterator[str]:
    """Yield what was printed.

    Args:
        source: Who knows.
        asked: One of filename, actor_id, task_id, pid and submission_id; the others are None.
        suffix: "out" for standard output, "err" for standard error.
        tail: How many lines of the end; -1 for all that is kept.
        interval: Seconds between two looks, to go on with what is printed later; None: not.
    """
    whole_number("tail", tail, -1)
    if suffix not in _STREAMS.values():
        raise ValueError(f'suffix takes "out" or "err"; got {suffix!r}')
    given = [name for name, value in asked.items() if value is not None]
    if len(given) != 1:
        raise ValueError(
            f"get_log() needs one of {', '.join(asked)}; got {', '.join(given) or 'none'}"
        )
    if given == ["submission_id"]:
        return job_log(asked["submission_id"], tail, interval)
    return _printed(source, _wanted(source, given[0], asked[given[0]], suffix), tail, interval)


class _Wanted(NamedTuple):
    """Which pieces are asked for; what is None does not matter."""

    filename: str | None = None
    pid: int | None = None
    actor: int | None = None
    task: int | None = None
    stream: str | None = None

    def has(self, piece: Row) -> bool:
        """Return whether a piece is one of them."""
        return (
            (self.filename is None or _file_name(piece) == self.filename)
            and (self.pid is None or piece["pid"] == self.pid)
            and (self.actor is None or piece["actor"] == self.actor)
            and (self.task is None or piece["task"] == self.task)
            and (self.stream is None or _STREAMS[piece["stream"]] == self.stream)
        )


def _wanted(source: StateSource, by: str, value: Any, suffix: str) -> _Wanted:
    if by == "filename":
        known = {_file_name(piece) for piece in source.printed(0)}
        if value not in known:
            raise ValueError(f"filename takes one of {sorted(known)}; got {value!r}")
        return _Wanted(filename=value)
    row = _known(
        source, {"pid": "workers", "task_id": "tasks", "actor_id": "actors"}[by], by, value
    )
    if by == "pid":
        return _Wanted(pid=row["pid"], stream=suffix)
    id = int(row[by], 16)
    return _Wanted(task=id, stream=suffix) if by == "task_id" else _Wanted(actor=id, stream=suffix)


def _known(source: StateSource, kind: str, key: str, value: object) -> Row:
    for row in source.state(kind):
        if row[key] == value:
            return row
    raise ValueError(f"there is no {key} {value!r}; list_{kind}() says which there are")


def _check_node(node_id: str | None, node_ip: str | None) -> None:
    (node, *_) = skate.nodes()
    here = {"node_id": node["NodeID"], "node_ip": node["NodeManagerAddress"]}
    for name, value in (("node_id", node_id), ("node_ip", node_ip)):
        if value is not None and value != here[name]:
            raise ValueError(f"{name} takes {here[name]!r}, the only machine; got {value!r}")


def _file_name(piece: Row) -> str:
    who = f"worker-{piece['pid']}" if piece["pid"] else _OF_NOBODY
    return f"{who}.{_STREAMS[piece['stream']]}"


def _printed(
    source: StateSource, wanted: _Wanted, tail: int, interval: float | None
) -> Iterator[str]:
    """Yield the texts of pieces; with an interval, also of those to come in this session."""
    pieces = source.printed(0)
    seen = pieces[-1]["number"] if pieces else 0
    text = "".join(piece["text"] for piece in pieces if wanted.has(piece))
    if shown := _last_lines(text, tail):
        yield shown
    is_over = False
    while interval is not None and not is_over:
        time.sleep(interval)
        is_over = _has_ended(source)  # before the look, which is the last one then
        new = source.printed(seen)
        seen = new[-1]["number"] if new else seen
        yield from (piece["text"] for piece in new if wanted.has(piece))


def _has_ended(source: StateSource) -> bool:
    """Return whether this program has shut its session down; those of others do not answer."""
    return isinstance(source, Engine) and installed_engine() is not source


def job_log(submission_id: str, tail: int, interval: float | None) -> Iterator[str]:
    """Return what a job has printed; with an interval, also what it prints until it is over.

    Raises:
        ValueError: If there is no such job.
    """
    client = submitted_jobs()
    try:
        text = client.get_job_logs(submission_id)
    except RuntimeError as error:
        raise ValueError(str(error)) from error
    return _of_job(client, submission_id, text, tail, interval)


def _of_job(
    client: JobSubmissionClient, submission_id: str, text: str, tail: int, interval: float | None
) -> Iterator[str]:
    if shown := _last_lines(text, tail):
        yield shown
    is_over = False
    while interval is not None and not is_over:
        time.sleep(interval)
        is_over = client.get_job_status(submission_id).is_terminal()
        seen, text = len(text), client.get_job_logs(submission_id)
        if new := text[seen:]:
            yield new


def _last_lines(text: str, count: int) -> str:
    return text if count < 0 else "".join(text.splitlines(keepends=True)[-count or len(text) :])


def _encoded(
    texts: Iterator[str], encoding: str | None, errors: str, without_codes: bool
) -> Iterator[Any]:
    for text in texts:
        shown = _ANSI_CODE.sub("", text) if without_codes else text
        if encoding is None:
            yield shown.encode()
        else:
            yield shown.encode(encoding, errors).decode(encoding)
