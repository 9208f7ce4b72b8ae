"""How the root logger writes, here and in workers: `init(logging_config=LoggingConfig(...))`."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass, field
from typing import Any

from skate._facade.log_lines import STANDARD, ContextFilter, JSONFormatter, TextFormatter

__all__ = ["LoggingConfig"]

_FORMATTERS = {"TEXT": TextFormatter, "JSON": JSONFormatter}


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
        if self.encoding not in _FORMATTERS:
            raise ValueError(
                f"encoding takes one of {', '.join(_FORMATTERS)}; got {self.encoding!r}"
            )
        for name in self.additional_log_standard_attrs:
            if name not in STANDARD:
                raise ValueError(
                    "additional_log_standard_attrs takes attributes of logging.LogRecord "
                    f"({', '.join(STANDARD)}); got {name!r}"
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
        formatter = _FORMATTERS[self.encoding]()
        formatter.set_additional_log_standard_attrs(self.additional_log_standard_attrs)
        handler.setFormatter(formatter)
        handler.addFilter(ContextFilter())
        root = logging.getLogger()
        root.handlers[:] = [old for old in root.handlers if not isinstance(old, _Handler)]
        root.addHandler(handler)
        root.setLevel(self.log_level)
        logging.getLogger("skate").setLevel(self.log_level)


class _Handler(logging.StreamHandler[Any]):
    """Ours, so that it is found again."""
