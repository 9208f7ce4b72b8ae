"""Counters, gauges and histograms that say which replica they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from skate.serve.context import current_replica, request_with_pattern
from skate.util import metrics

__all__ = ["Counter", "Gauge", "Histogram"]

_OF_REPLICA = ("deployment", "replica", "application")
_OF_REQUEST = "route"


def _all_keys(tag_keys: Sequence[str] | None) -> tuple[str, ...]:
    """Return the user's keys and, inside a replica, those that every measurement there has."""
    given = tuple(tag_keys or ())
    if current_replica() is None:
        return given
    _check_free("tag_keys", given)
    return tuple(dict.fromkeys((*given, *_OF_REPLICA, _OF_REQUEST)))


def _check_free(parameter: str, names: Iterable[str]) -> None:
    taken = [name for name in names if name in _OF_REPLICA]
    if taken and current_replica() is not None:
        raise ValueError(
            f"{', '.join(_OF_REPLICA)} are reserved: they say which replica it is; "
            f"{parameter} takes other names, got {taken}"
        )


def _with_replica(tags: Mapping[str, str]) -> Mapping[str, str]:
    replica = current_replica()
    if replica is None:
        return tags
    own = {
        "deployment": replica.deployment,
        "replica": replica.replica_tag,
        "application": replica.app_name,
        _OF_REQUEST: request_with_pattern().route,
    }
    return {**own, **tags}


class _OfReplica(metrics.Metric):
    """Adds to every record which replica it comes from."""

    def __init__(
        self, name: str, description: str = "", tag_keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(name, description, _all_keys(tag_keys))

    def set_default_tags(self: metrics.MetricT, default_tags: dict[str, str]) -> metrics.MetricT:
        _check_free("default_tags", default_tags)
        return metrics.Metric.set_default_tags(self, default_tags)

    def _tags(self, tags: Mapping[str, str]) -> metrics.Tags:
        return super()._tags(_with_replica(tags))


class Counter(_OfReplica, metrics.Counter):
    """A number that only grows, with tags that say which replica it comes from.

    Args:
        name: The name of the metric.
        description: What it counts.
        tag_keys: Keys of your own tags, which every measurement gives or has a default for.
    """


class Gauge(_OfReplica, metrics.Gauge):
    """A number that goes up and down, with tags that say which replica it comes from.

    Args:
        name: The name of the metric.
        description: What it measures.
        tag_keys: Keys of your own tags, which every measurement gives or has a default for.
    """


class Histogram(_OfReplica, metrics.Histogram):
    """How often values fell between boundaries, with tags that say which replica it comes from.

    Args:
        name: The name of the metric.
        description: What it measures.
        boundaries: The upper limits of the ranges, ascending and above 0.
        tag_keys: Keys of your own tags, which every measurement gives or has a default for.
    """

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: list[float] | None = None,
        tag_keys: Sequence[str] | None = None,
    ) -> None:
        metrics.Histogram.__init__(self, name, description, boundaries, _all_keys(tag_keys))
