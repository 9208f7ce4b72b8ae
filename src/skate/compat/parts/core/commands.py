"""`ray.scripts.scripts` and `ray.util.state.state_cli`: the commands of `skate ray`, for click."""

from __future__ import annotations

from enum import Enum
from typing import Any

from skate._core.optional_imports import try_import
from skate.cli._ray import ray_group
from skate.cli._ray_state import filter_of as _parse_filter
from skate.cli._ray_state import shown
from skate.util._state_rows import StateRow

cli: Any = ray_group(try_import("click", "cli"))
main: Any = cli
ray_list: Any = cli.commands["list"]
ray_get: Any = cli.commands["get"]
logs_state_cli_group: Any = cli.commands["logs"]
summary_state_cli_group: Any = cli.commands["summary"]
start: Any = cli.commands["start"]
stop: Any = cli.commands["stop"]
status: Any = cli.commands["status"]
timeline: Any = cli.commands["timeline"]
memory: Any = cli.commands["memory"]
stack: Any = cli.commands["stack"]


class AvailableFormat(Enum):
    """How rows are shown."""

    DEFAULT = "default"
    JSON = "json"
    YAML = "yaml"
    TABLE = "table"


def format_list_api_output(
    state_data: list[StateRow],
    *,
    schema: type[StateRow] | None = None,
    format: AvailableFormat | str = AvailableFormat.DEFAULT,
    detail: bool = False,
) -> str:
    """Return rows as `ray list` shows them; without `detail` those columns that `schema` has."""
    names = schema.list_columns(detail) if schema is not None else None
    rows = [{name: row[name] for name in names or row} for row in state_data]
    return shown(rows, format.value if isinstance(format, AvailableFormat) else format)


__all__ = [
    "AvailableFormat",
    "_parse_filter",
    "cli",
    "format_list_api_output",
    "logs_state_cli_group",
    "main",
    "memory",
    "ray_get",
    "ray_list",
    "stack",
    "start",
    "status",
    "stop",
    "summary_state_cli_group",
    "timeline",
]
