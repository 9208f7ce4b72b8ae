"""What a replica logs: where `logging_config` says so, and each request, if that is asked for.

    logging.getLogger("ray.serve"), "skate.serve"
        └─► handlers of the replica ─► standard error, and a file in `logs_dir`

Without a `logging_config`, what Ray programs log by `ray.serve` is shown from INFO on, unless the
process has handlers of its own; the rest is the program's.
"""

from __future__ import annotations

import asyncio
import json
import logging
import logging.handlers
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import skate
from skate._core.printable import printable
from skate.serve._identity import ReplicaID
from skate.serve.context import ReplicaContext, current_replica, request_context

_NAMES = ("ray.serve", "skate.serve")
_MOST_BYTES = 100 * 2**20  # of a file; then it becomes one of those before
_FORMER_FILES = 5
_STANDARD = frozenset(
    (*vars(logging.LogRecord("", 0, "", 0, "", None, None)), "message", "asctime", "taskName")
) | {"log_to_stderr", "serve_access_log"}  # what says where a record goes is not shown
_MORE_FIELDS = "ray_serve_extra_fields"  # in `extra`: fields that are shown by their own names

logger = logging.getLogger("skate.serve")


class ReplicaLogs:
    """The handlers of one replica."""

    def __init__(
        self, context: ReplicaContext, given: Mapping[str, Any] | None, owns_process: bool
    ) -> None:
        """Log as `given` says.

        Raises:
            OSError: If the file in its `logs_dir` cannot be written.
        """
        self.has_access_log = given is not None and bool(given["enable_access_log"])
        self._before: list[tuple[logging.Logger, int, bool]] = []
        self._handlers: list[logging.Handler] = []
        if given is not None:
            formatter = _Formatter(
                context.replica_id, given["encoding"], given["additional_log_standard_attrs"]
            )
            self._handlers.append(_made(_stream(), formatter, context))
            if given["logs_dir"] is not None:
                file = _file(given["logs_dir"], context.replica_id)
                self._handlers.append(_made(file, formatter, context))
            for handler in () if self.has_access_log else self._handlers:
                handler.addFilter(lambda record: not getattr(record, "serve_access_log", False))
            self._attach(_NAMES, given["log_level"], propagate=not owns_process)
        elif owns_process:
            formatter = _Formatter(context.replica_id, "TEXT", ())
            self._handlers.append(_made(_stream(), formatter, context))
            self._handlers[0].addFilter(lambda record: not logging.getLogger().handlers)
            self._attach(_NAMES[:1], logging.INFO, propagate=True)

    def _attach(self, names: Iterable[str], level: int | str, propagate: bool) -> None:
        for name in names:
            one = logging.getLogger(name)
            self._before.append((one, one.level, one.propagate))
            one.setLevel(level)
            one.propagate = propagate
            for handler in self._handlers:
                one.addHandler(handler)

    def end(self) -> None:
        """Leave the loggers as they were."""
        for one, level, propagate in self._before:
            one.setLevel(level)
            one.propagate = propagate
            for handler in self._handlers:
                one.removeHandler(handler)
        for handler in self._handlers:
            handler.close()

    def log_call(self, method: str, seconds: float) -> None:
        """Log a call by a handle that has ended, with the exception that is being handled."""
        error = sys.exc_info()[1]
        line = f"CALL {method} {{}} {1000 * seconds:.1f}ms"
        if error is None:
            self._log(line.format("OK"))
        elif isinstance(error, (asyncio.CancelledError, GeneratorExit)):
            self._log(line.format("CANCELLED"))
        else:
            self._log(line.format("ERROR"), logging.ERROR, error)

    def log_http(self, scope: Mapping[str, object], status: object, seconds: float) -> None:
        """Log a request over HTTP that has ended."""
        path = getattr(scope.get("route"), "path", None)
        prefix = request_context().route.rstrip("/")
        route = printable(str(scope["path"])) if path is None else prefix + path
        self._log(f"{scope.get('method', 'WS')} {route} {status} {1000 * seconds:.1f}ms")

    def _log(
        self, line: str, level: int = logging.INFO, error: BaseException | None = None
    ) -> None:
        logger.log(level, line, exc_info=error, extra={"serve_access_log": True})


def _made(
    handler: logging.Handler, formatter: logging.Formatter, context: ReplicaContext
) -> logging.Handler:
    handler.setFormatter(formatter)
    handler.addFilter(lambda record: current_replica() is context)
    return handler


def _stream() -> logging.Handler:
    """Return a handler of standard error, without what is said to be for files only."""
    stream = logging.StreamHandler()
    stream.addFilter(lambda record: getattr(record, "log_to_stderr", None) is not False)
    return stream


def _file(folder: str, id: ReplicaID) -> logging.Handler:
    os.makedirs(folder, exist_ok=True)
    name, app = id.deployment_id
    path = os.path.join(folder, f"replica_{app}_{name}_{id.unique_id}.log")
    return logging.handlers.RotatingFileHandler(
        path, maxBytes=_MOST_BYTES, backupCount=_FORMER_FILES, encoding="utf-8"
    )


def _whereabouts() -> dict[str, object]:
    """Return where all records of this replica are from, by the names of Ray's structured logs."""
    place = skate.get_runtime_context()
    return {
        "job_id": place.get_job_id(),
        "worker_id": place.get_worker_id(),
        "node_id": place.get_node_id(),
        "actor_id": place.get_actor_id(),
    }


class _Formatter(logging.Formatter):
    """Writes which replica and request a record is of."""

    def __init__(self, id: ReplicaID, encoding: str, further: Iterable[str]) -> None:
        name, app = id.deployment_id
        self._deployment, self._replica = f"{app}_{name}", id.unique_id
        self._is_json = encoding == "JSON"
        self._place = _whereabouts() if self._is_json else {}
        self._further = tuple(further)
        super().__init__()

    def format(self, record: logging.LogRecord) -> str:
        further = {name: getattr(record, name, None) for name in self._further}
        return self._as_json(record, further) if self._is_json else self._as_text(record, further)

    def _as_text(self, record: logging.LogRecord, further: Mapping[str, object]) -> str:
        request = request_context().request_id
        words = [record.levelname, self.formatTime(record), self._deployment, self._replica]
        words += [request] * bool(request) + [str(value) for value in further.values()]
        return f"{' '.join(words)} -- {super().format(record)}"

    def _as_json(self, record: logging.LogRecord, further: Mapping[str, object]) -> str:
        around = request_context()
        fields = {
            "asctime": self.formatTime(record),
            "levelname": record.levelname,
            "message": record.getMessage(),
            "filename": record.filename,
            "lineno": record.lineno,
            "deployment": self._deployment,
            "replica": self._replica,
            "application": around.app_name,
            "route": around.route,
            "request_id": around.request_id,
            "component_name": "replica",
            "process": record.process,
            **self._place,
            "timestamp_ns": int(record.created * 1e9),
        }
        extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if isinstance(extra.get(_MORE_FIELDS), Mapping):
            extra.update(extra.pop(_MORE_FIELDS))
        if record.exc_info:
            extra["exc_text"] = self.formatException(record.exc_info)
        given = {name: value for name, value in fields.items() if value != ""}
        return json.dumps({**given, **further, **extra}, default=str)
