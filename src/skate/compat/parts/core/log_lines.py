"""`ray._common.formatters` and `ray._common.filters`: for programs that set logging up alone."""

from __future__ import annotations

import logging

from skate._facade.log_lines import ContextFilter, JSONFormatter, TextFormatter, whereabouts

__all__ = ["CoreContextFilter", "JSONFormatter", "TextFormatter"]


class CoreContextFilter(ContextFilter):
    """Also notes the time, under the name that formatters of Ray look for."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.__dict__.setdefault("_ray_timestamp_ns", int(record.created * 1e9))
        return super().filter(record)

    @classmethod
    def get_ray_core_logging_context(cls) -> dict[str, str]:
        return whereabouts()
