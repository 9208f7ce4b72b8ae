"""Counters, gauges and histograms that say which replica they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skate.serve.context import current_replica, request_context
from skate.util import metrics

__all__ = ["Counter", "Gauge", "Histogram"]

_OF_REPLICA = ("deployment", "replica", "application")
_OF_REQUEST = "route"


def _all_keys(tag_keys: Sequence[str] | None) -> tuple[str, ...]:
    """Return the user's keys and, inside a replica, those that every measurement there has."""
    given = tuple(tag_keys or ())
    if current_replica() is None:
        return given
    added = (*_OF_REPLICA, _OF_REQUEST)
    taken = [key for key in added if key in given]
    if taken:
        raise ValueError(f"tag_keys takes other names than {', '.join(added)}; got {taken}")
    return (*given, *added)


def _tags(tags: dict[str, str] | None) -> dict[str, str] | None:
    replica = current_replica()
    if replica is None:
        return tags
    own = {
        "deployment": replica.deployment,
        "replica": replica.replica_tag,
        "application": replica.app_name,
        _OF_REQUEST: request_context().route,
    }
    return {**own, **(tags or {})}


class Counter(metrics.Counter):
    """A number that only grows."""

    def __init__(
        self, name: str, description: str = "", tag_keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(name, description, _all_keys(tag_keys))

    def inc(self, value: Any = 1.0, tags: dict[str, str] | None = None) -> None:
        super().inc(value, _tags(tags))


class Gauge(metrics.Gauge):
    """A number that goes up and down."""

    def __init__(
        self, name: str, description: str = "", tag_keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(name, description, _all_keys(tag_keys))

    def set(self, value: Any, tags: dict[str, str] | None = None) -> None:
        super().set(value, _tags(tags))


class Histogram(metrics.Histogram):
    """How often values fell between boundaries."""

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: Any = None,
        tag_keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(name, description, boundaries, _all_keys(tag_keys))

    def observe(self, value: Any, tags: dict[str, str] | None = None) -> None:
        super().observe(value, _tags(tags))
