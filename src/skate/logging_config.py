"""How the root logger writes, here and in workers: `init(logging_config=LoggingConfig(...))`."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["LoggingConfig"]

_ENCODINGS = ("TEXT", "JSON")
_LINE = "%(asctime)s\t%(levelname)s %(filename)s:%(lineno)s -- %(message)s"
_STANDARD = (
    *vars(logging.LogRecord("", 0, "", 0, "", None, None)), "message", "asctime", "taskName",
)  # fmt: skip


@dataclass
class LoggingConfig:
    """Write one line per record, with the job, worker, task and actor that it comes from.

    Args:
        encoding: "TEXT", or "JSON" for one object per line.
        log_level: The least severe level that is written, by name.
        additional_log_standard_attrs: Further attributes of `logging.LogRecord` to write, such as
            "name".

    Raises:
        ValueError: If there is no such encoding, level or attribute.

    Example:
        >>> skate.LoggingConfig(encoding="JSON").to_dict()["encoding"]
        'JSON'
    """

    encoding: str = "TEXT"
    log_level: str = "INFO"
    additional_log_standard_attrs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.encoding not in _ENCODINGS:
            raise ValueError(
                f"encoding takes one of {', '.join(_ENCODINGS)}; got {self.encoding!r}"
            )
        for name in self.additional_log_standard_attrs:
            if name not in _STANDARD:
                raise ValueError(
                    "additional_log_standard_attrs takes attributes of logging.LogRecord "
                    f"({', '.join(_STANDARD)}); got {name!r}"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a dictionary, for `from_dict`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, d: dict[str, Any]) -> LoggingConfig:
        """Return the configuration that `to_dict` has described.

        Args:
            d: The dictionary; what it has besides settings is left out.
        """
        return cls(**{name: d[name] for name in cls.__dataclass_fields__ if name in d})

    def _apply(self) -> None:
        """Set up this process, in place of what was set up before."""
        handler = _Handler()
        handler.setFormatter(_Formatter(self.encoding, self.additional_log_standard_attrs))
        root = logging.getLogger()
        root.handlers[:] = [old for old in root.handlers if not isinstance(old, _Handler)]
        root.addHandler(handler)
        root.setLevel(self.log_level)
        logging.getLogger("skate").setLevel(self.log_level)


class _Handler(logging.StreamHandler[Any]):
    """Ours, so that it is found again."""


class _Formatter(logging.Formatter):
    def __init__(self, encoding: str, further: Iterable[str]) -> None:
        super().__init__(_LINE)
        self._encoding = encoding
        self._further = tuple(further)

    def format(self, record: logging.LogRecord) -> str:
        details = self._details(record)
        if self._encoding == "TEXT":
            words = (f"{name}={value}" for name, value in details.items())
            return " ".join((super().format(record), *words))
        return json.dumps({**self._standard(record), **details}, default=str)

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

    def _details(self, record: logging.LogRecord) -> dict[str, Any]:
        """Collect what was asked for, what the caller gave as `extra`, and where this happens."""
        return {
            **{name: getattr(record, name, None) for name in self._further},
            **{name: value for name, value in vars(record).items() if _is_extra(name)},
            **_whereabouts(),
            "timestamp_ns": int(record.created * 1e9),
        }


def _is_extra(name: str) -> bool:
    return name not in _STANDARD and not name.startswith("_")


def _whereabouts() -> dict[str, str]:
    import skate

    if not skate.is_initialized():
        return {}
    place = skate.get_runtime_context()
    found = {
        "job_id": place.get_job_id(),
        "worker_id": place.get_worker_id(),
        "node_id": place.get_node_id(),
        "actor_id": place.get_actor_id(),
        "actor_name": place.get_actor_name(),
        "task_id": place.get_task_id(),
        "task_name": place.get_task_name(),
        "task_func_name": place.get_task_function_name(),
    }
    return {name: value for name, value in found.items() if value}
