"""Values of the option `scheduling_strategy` beside "DEFAULT" and "SPREAD"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from skate._core.ids import BaseID

if TYPE_CHECKING:
    from skate.util.placement_group import PlacementGroup


class PlacementGroupSchedulingStrategy:
    """Run in the resources that a placement group has reserved.

    Args:
        placement_group: The group; None for none, although the caller runs in one; "default" for
            the caller's, if that captures what it starts, or this says so.
        placement_group_bundle_index: Which bundle; -1 means any.
        placement_group_capture_child_tasks: Whether what the task or actor starts runs in the
            group as well.

    Example:
        >>> from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy
        >>> group = skate.util.placement_group([{"CPU": 1}])
        >>> @skate.remote(scheduling_strategy=PlacementGroupSchedulingStrategy(group))
        ... def inside() -> bool:
        ...     return skate.util.get_current_placement_group() is not None
        >>> skate.get(inside.remote())
        True
        >>> skate.util.remove_placement_group(group)
    """

    def __init__(
        self,
        placement_group: PlacementGroup | Literal["default"] | None,
        placement_group_bundle_index: int = -1,
        placement_group_capture_child_tasks: bool | None = None,
    ) -> None:
        self.placement_group = placement_group
        self.placement_group_bundle_index = placement_group_bundle_index
        self.placement_group_capture_child_tasks = placement_group_capture_child_tasks


class NodeAffinitySchedulingStrategy:
    """Run on a particular machine.

    Args:
        node_id: The machine's id, as `skate.nodes()` says it.
        soft: Whether it may run elsewhere if need be.
        _spill_on_unavailable: Whether it runs elsewhere if the machine is busy; needs `soft`.
        _fail_on_unavailable: Whether it fails if the machine is busy; not with `soft`.

    Raises:
        ValueError: If `node_id` is not an id, or the others contradict each other.
    """

    def __init__(
        self,
        node_id: str,
        soft: bool,
        _spill_on_unavailable: bool = False,
        _fail_on_unavailable: bool = False,
    ) -> None:
        self.node_id: str = _checked_node_id(node_id)
        self.soft = soft
        self._spill_on_unavailable = _spill_on_unavailable
        self._fail_on_unavailable = _fail_on_unavailable
        if _spill_on_unavailable and not soft:
            raise ValueError("_spill_on_unavailable needs soft=True; got soft=False")
        if _fail_on_unavailable and soft:
            raise ValueError("_fail_on_unavailable needs soft=False; got soft=True")


def _checked_node_id(node_id: Any) -> str:
    text = str(node_id.hex()) if isinstance(node_id, (BaseID, bytes)) else node_id
    try:
        valid = any(byte != 0xFF for byte in bytes.fromhex(text))  # all of them: no machine
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise ValueError(
            f"Invalid node_id {text!r}: it is the id of a machine, a valid hex string as in "
            'skate.nodes()[0]["NodeID"]'
        )
    return str(text)


class In:
    """The label has one of these values."""

    def __init__(self, *values: str) -> None:
        self.values: list[str] = _checked_values("In", values)


class NotIn:
    """The label has none of these values."""

    def __init__(self, *values: str) -> None:
        self.values: list[str] = _checked_values("NotIn", values)


class Exists:
    """The label is there, whatever its value."""


class DoesNotExist:
    """The label is not there."""


def _checked_values(operator: str, values: tuple[str, ...]) -> list[str]:
    if not values or not all(isinstance(value, str) for value in values):
        raise ValueError(
            f'{operator} takes one or more strings: {operator}("a", "b"); got {values}'
        )
    return list(values)


Operator = In | NotIn | Exists | DoesNotExist


class LabelMatchExpression:
    """State one condition on a machine: a label and what must hold for it.

    Args:
        key: The name of the label.
        operator: What must hold: `In`, `NotIn`, `Exists` or `DoesNotExist`.
    """

    def __init__(self, key: str, operator: Operator) -> None:
        self.key = key
        self.operator = operator


class NodeLabelSchedulingStrategy:
    """Run on a machine whose labels meet conditions.

    Args:
        hard: Conditions by label that must all be met, such as `{"region": In("eu", "us")}`.
        soft: Conditions that are met if possible, such as `{"ssd": Exists()}`.

    Raises:
        ValueError: If both are empty.
    """

    def __init__(
        self, hard: dict[str, Operator] | None, *, soft: dict[str, Operator] | None = None
    ) -> None:
        self.hard: list[LabelMatchExpression] = _expressions("hard", hard)
        self.soft: list[LabelMatchExpression] = _expressions("soft", soft)
        if not (self.hard or self.soft):
            raise ValueError("give at least one condition, in `hard` or in `soft`; both are empty")


def _expressions(
    parameter: str, conditions: dict[str, Operator] | None
) -> list[LabelMatchExpression]:
    if conditions is None:
        return []
    wanted = f'{parameter} must be a dict like {{"region": In("eu")}}'
    if not isinstance(conditions, dict):
        raise ValueError(f"{wanted}; got {conditions!r}")
    for key, operator in conditions.items():
        if not isinstance(key, str):
            raise ValueError(f"{wanted}: labels are strings; got {key!r}")
        if not isinstance(operator, (In, NotIn, Exists, DoesNotExist)):
            raise ValueError(
                f"{wanted}: conditions are In, NotIn, Exists or DoesNotExist; got {operator!r}"
            )
    return [LabelMatchExpression(key, operator) for key, operator in conditions.items()]


SchedulingStrategyT = (
    str
    | None
    | PlacementGroupSchedulingStrategy
    | NodeAffinitySchedulingStrategy
    | NodeLabelSchedulingStrategy
)
