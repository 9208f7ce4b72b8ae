"""Of `ray.util.state.common`: the kinds of rows, rows of one's own, and the usual limits."""

from __future__ import annotations

from dataclasses import Field, asdict, field, fields
from typing import Any, ClassVar

from skate.util._state_kinds import (
    ActorState,
    ClusterEventState,
    JobState,
    NodeState,
    ObjectState,
    PlacementGroupState,
    RuntimeEnvState,
    TaskState,
    WorkerState,
)
from skate.util._state_rows import MOST_ROWS

DEFAULT_LIMIT = 100
DEFAULT_LOG_LIMIT = 1000
DEFAULT_RPC_TIMEOUT = 30  # seconds
MAX_LIMIT = RAY_MAX_LIMIT_FROM_API_SERVER = RAY_MAX_LIMIT_FROM_DATA_SOURCE = MOST_ROWS

PredicateType = str
SupportedFilterType = str | bool | int | float

_DETAIL, _FILTERABLE = "detail", "filterable"


def state_column(*, filterable: bool, detail: bool = False, **options: Any) -> Any:
    """Return a field for a data class that is a `StateSchema`.

    Args:
        filterable: Whether rows are chosen by it.
        detail: Whether it is shown on demand only; it is None then where nothing else is said.
        options: As of `dataclasses.field`.
    """
    options.pop("format_fn", None)
    if detail:
        options.setdefault("default", None)
    return field(metadata={_DETAIL: detail, _FILTERABLE: filterable}, **options)


class StateSchema:
    """A base for data classes whose fields are columns."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @classmethod
    def columns(cls) -> set[str]:
        """Return the names of all columns."""
        return {one.name for one in fields(cls)}

    @classmethod
    def base_columns(cls) -> set[str]:
        """Return the names of the columns that are shown always."""
        return cls.columns() - cls._marked(_DETAIL)

    @classmethod
    def filterable_columns(cls) -> set[str]:
        """Return the names of the columns that rows are chosen by."""
        return cls._marked(_FILTERABLE)

    @classmethod
    def _marked(cls, mark: str) -> set[str]:
        return {one.name for one in fields(cls) if one.metadata.get(mark)}

    def asdict(self) -> dict[str, Any]:
        """Return the columns and their values."""
        return asdict(self)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a column, or the default where there is no such column."""
        return getattr(self, name, default)


__all__ = [
    "DEFAULT_LIMIT",
    "DEFAULT_LOG_LIMIT",
    "DEFAULT_RPC_TIMEOUT",
    "MAX_LIMIT",
    "RAY_MAX_LIMIT_FROM_API_SERVER",
    "RAY_MAX_LIMIT_FROM_DATA_SOURCE",
    "ActorState",
    "ClusterEventState",
    "JobState",
    "NodeState",
    "ObjectState",
    "PlacementGroupState",
    "PredicateType",
    "RuntimeEnvState",
    "StateSchema",
    "SupportedFilterType",
    "TaskState",
    "WorkerState",
    "state_column",
]
