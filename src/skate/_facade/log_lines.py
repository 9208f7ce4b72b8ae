"""One line per record, as text or JSON, with what its context says: for `LoggingConfig`."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from typing import Any

from skate.engine import installed_engine

_LINE = "%(asctime)s\t%(levelname)s %(filename)s:%(lineno)s -- %(message)s"
_MORE_FIELDS = "ray_serve_extra_fields"  # in `extra`: fields that are shown by their own names
STANDARD = (
    *vars(logging.LogRecord("", 0, "", 0, "", None, None)), "message", "asctime", "taskName",
)  # fmt: skip


class ContextFilter(logging.Filter):
    """Lets every record pass, and notes on it where it comes from: job, worker, task, actor."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in whereabouts().items():
            setattr(record, name, value)
        return True


class ContextFormatter(logging.Formatter):
    """Collects what is written besides the usual; its subclasses say how."""

    def __init__(
        self, fmt: str | None = None, datefmt: str | None = None, style: Any = "%", **options: Any
    ) -> None:
        super().__init__(fmt or _LINE, datefmt, style, **options)
        self.additional_log_standard_attrs: list[str] = []

    def set_additional_log_standard_attrs(self, names: Iterable[str]) -> None:
        """Write these attributes of `logging.LogRecord` as well."""
        self.additional_log_standard_attrs = list(names)

    def details(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return what was asked for, what the caller gave as `extra`, and what filters noted."""
        wanted = self.additional_log_standard_attrs
        return {
            **{name: getattr(record, name, None) for name in wanted},
            **dict(_extra_fields(record)),
            "timestamp_ns": int(record.created * 1e9),
        }


class TextFormatter(ContextFormatter):
    """Writes a line for people, with the details as `name=value` behind it."""

    def format(self, record: logging.LogRecord) -> str:
        words = (f"{name}={value}" for name, value in self.details(record).items())
        return " ".join((super().format(record), *words))


class JSONFormatter(ContextFormatter):
    """Writes an object per line."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({**self._standard(record), **self.details(record)}, default=str)

    def _standard(self, record: logging.LogRecord) -> dict[str, Any]:
        found = {
            "asctime": self.formatTime(record),
            "levelname": record.levelname,
            "message": record.getMessage(),
            "filename": record.filename,
            "lineno": record.lineno,
            "process": record.process,
        }
        if record.exc_info:
            found["exc_text"] = record.exc_text or self.formatException(record.exc_info)
        return found


def _extra_fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    for name, value in vars(record).items():
        if name in STANDARD or name.startswith("_"):
            continue
        if name != _MORE_FIELDS:
            yield name, value
        elif isinstance(value, dict):
            yield from value.items()
        else:
            raise ValueError(f"{_MORE_FIELDS} takes a dictionary of fields; got {value!r}")


def whereabouts() -> dict[str, str]:
    """Return the ids and names of what runs this code; nothing if no session does."""
    engine = installed_engine()
    if engine is None:
        return {}
    context = engine.context()
    found = {
        "job_id": context.job_id,
        "worker_id": context.worker_id,
        "node_id": context.node_id,
        "actor_id": context.actor_id,
        "actor_name": context.actor_name,
        "task_id": context.task_id,
        "task_name": context.task_name,
        "task_func_name": context.function_name,
    }
    return {name: value for name, value in found.items() if value}
