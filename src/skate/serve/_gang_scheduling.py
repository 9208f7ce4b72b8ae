"""Replicas that start and end in groups: what may be asked for, and is refused when it is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from skate._core.argument_checks import Check, wrong_value
from skate.serve._settings import CheckedSettings, positive_integer

if TYPE_CHECKING:
    from skate.serve.config import AutoscalingConfig


class GangPlacementStrategy(str, Enum):
    """Where the replicas of a group are."""

    PACK = "PACK"
    SPREAD = "SPREAD"


class GangRuntimeFailurePolicy(str, Enum):
    """What follows when a replica of a group fails."""

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


@dataclass
class GangSchedulingConfig(CheckedSettings):
    """Groups of replicas, as Ray starts them; skate starts replicas one by one, and says so when
    an application with such groups is run.

    Args:
        gang_size: How many replicas are a group.
        gang_placement_strategy: "PACK" or "SPREAD".
        runtime_failure_policy: "RESTART_GANG" or "RESTART_REPLICA".
    """

    gang_size: int
    gang_placement_strategy: GangPlacementStrategy = GangPlacementStrategy.PACK
    runtime_failure_policy: GangRuntimeFailurePolicy = GangRuntimeFailurePolicy.RESTART_GANG

    _checks: ClassVar[Mapping[str, Check]] = {
        "gang_size": positive_integer,
        "gang_placement_strategy": _member_of(GangPlacementStrategy),
        "runtime_failure_policy": _member_of(GangRuntimeFailurePolicy),
    }


def check_gangs(options: Mapping[str, Any], scaling: AutoscalingConfig | None) -> None:
    """Check that other options of a deployment fit its groups.

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
                f"groups say where replicas are; got {options[name]!r}. Leave one of the two out"
            )
    counts = {"num_replicas": options.get("num_replicas")}
    if scaling is not None:
        names = ("min_replicas", "max_replicas", "initial_replicas")
        counts = {f"autoscaling_config.{name}": getattr(scaling, name) for name in names}
    for name, count in counts.items():
        if isinstance(count, int) and count % gangs.gang_size:
            raise ValueError(
                f"{name}={count} must be a multiple of gang_size, which is {gangs.gang_size}"
            )
