"""Gangs: replicas that reserve what they need, start and end together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from skate._core.argument_checks import Check, wrong_value
from skate.serve._settings import CheckedSettings, positive_integer

if TYPE_CHECKING:
    from skate.serve.config import AutoscalingConfig


class GangPlacementStrategy(str, Enum):
    """Where the replicas of a gang are."""

    PACK = "PACK"
    SPREAD = "SPREAD"


class GangRuntimeFailurePolicy(str, Enum):
    """What follows when a replica of a gang fails."""

    RESTART_GANG = "RESTART_GANG"
    RESTART_REPLICA = "RESTART_REPLICA"


def _member_of(kind: type[Enum]) -> Check:
    def check(name: str, value: object) -> Enum:
        try:
            return kind(value)
        except ValueError:
            allowed = ", ".join(repr(each.value) for each in kind)
            raise wrong_value(name, value, f"one of {allowed}") from None

    return check


def _failure_policy(name: str, value: object) -> GangRuntimeFailurePolicy:
    policy = GangRuntimeFailurePolicy(_member_of(GangRuntimeFailurePolicy)(name, value))
    if policy == GangRuntimeFailurePolicy.RESTART_REPLICA:
        raise NotImplementedError(
            f"{name} takes 'RESTART_GANG'; got {value!r}: a gang is started anew as a whole. "
            "Replicas that need not start together need no gang_scheduling_config"
        )
    return policy


@dataclass
class GangSchedulingConfig(CheckedSettings):
    """Replicas that start together or not at all, and are replaced together.

    What a gang needs is reserved as one: while there is not enough for all of its replicas, none
    of them starts. When one of them ends or is not well, all are replaced. `GangContext`, of
    `serve.get_replica_context().gang_context`, tells a replica who the others are.

    Args:
        gang_size: How many replicas are a gang. The number of replicas is a multiple of it.
        gang_placement_strategy: "PACK" or "SPREAD": whether bundles are to be on few nodes, or on
            many. One machine is one node.
        runtime_failure_policy: "RESTART_GANG".
    """

    gang_size: int
    gang_placement_strategy: GangPlacementStrategy = GangPlacementStrategy.PACK
    runtime_failure_policy: GangRuntimeFailurePolicy = GangRuntimeFailurePolicy.RESTART_GANG

    _checks: ClassVar[Mapping[str, Check]] = {
        "gang_size": positive_integer,
        "gang_placement_strategy": _member_of(GangPlacementStrategy),
        "runtime_failure_policy": _failure_policy,
    }


def check_gangs(options: Mapping[str, Any], scaling: AutoscalingConfig | None) -> None:
    """Check that other options of a deployment fit its gangs.

    Raises:
        ValueError: If they do not.
    """
    gangs: GangSchedulingConfig | None = options.get("gang_scheduling_config")
    if gangs is None:
        return
    for name in ("max_replicas_per_node", "placement_group_strategy"):
        if options.get(name) is not None:
            raise ValueError(
                f"Setting {name} is not allowed when gang_scheduling_config is provided, as "
                f"gangs say where replicas are; got {options[name]!r}. Leave one of the two out"
            )
    given = options.get("num_replicas")
    counts = {"num_replicas": 1 if given is None else given}
    if scaling is not None:  # what is not given is a default, within which gangs are kept
        limits: AutoscalingConfig | None = options.get("autoscaling_config")
        told = set() if limits is None else limits.model_fields_set
        names = told & {"min_replicas", "max_replicas", "initial_replicas"}
        counts = {f"autoscaling_config.{name}": getattr(scaling, name) for name in sorted(names)}
    for name, count in counts.items():
        if isinstance(count, int) and count % gangs.gang_size:
            raise ValueError(
                f"{name}={count} must be a multiple of gang_size, which is {gangs.gang_size}"
            )


def whole_gangs(replicas: float, size: int, most: int | None = None) -> int:
    """Round a number of replicas to whole gangs of this size: up, or down where that is beyond
    `most`."""
    whole = math.ceil(replicas / size) * size
    return whole if most is None or whole <= most else max(size, most // size * size)
