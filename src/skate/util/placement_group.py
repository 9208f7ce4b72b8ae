"""Resources reserved together, for tasks and actors that must run at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import skate
from skate._core import notices
from skate._core.argument_checks import text, wrong_type
from skate._core.ids import PlacementGroupID
from skate._core.labels import check_selector
from skate._core.refs import ObjectRef
from skate.engine import current_engine, engine_of, installed_engine
from skate.exceptions import TaskUnschedulableError

if TYPE_CHECKING:
    Bundle = dict[str, float]


_REF_SIZE = 28  # bytes of an object id; a group's id is its end
_LARGEST = 1 << 53  # up to here all whole numbers have a float
_RESERVED = "bundle"  # Ray counts the bundles of a machine under this name
NODE_ID_LABEL_KEY = "ray.io/node-id"  # the label of a machine that is its id
STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")
VALID_PLACEMENT_GROUP_STRATEGIES = set(STRATEGIES)


class PlacementGroup:
    """Refer to a reservation of resources; made by `placement_group`, and can be sent anywhere.

    Args:
        id: The group's identifier.
        bundle_cache: The resources of each bundle, if they are known here.
        _ref: The engine's reference for the group.
    """

    def __init__(
        self,
        id: PlacementGroupID,
        bundle_cache: list[Bundle] | None = None,
        _ref: ObjectRef[object] | None = None,
    ) -> None:
        self.id = id
        self.bundle_cache: list[dict[str, float]] | list[Any] | None = bundle_cache
        self._known_ref = _ref

    @staticmethod
    def empty() -> PlacementGroup:
        """Return the group that stands for "no group"."""
        return PlacementGroup(PlacementGroupID.nil(), [])

    @property
    def is_empty(self) -> bool:
        """Whether this stands for "no group"."""
        return self.id.is_nil()

    @property
    def _ref(self) -> ObjectRef[Any]:
        """The engine's reference for the group."""
        if self._known_ref is None:
            self._known_ref = ObjectRef.from_binary(self.id.binary().rjust(_REF_SIZE, b"\0"))
        return self._known_ref

    def ready(self) -> ObjectRef[Any]:
        """Return a reference that is ready, with this group as its value, once all is reserved."""
        if self.is_empty:
            return skate.put(self)
        engine_of(self._ref)  # a group of a session that has ended begins no other
        remote: Any = skate.remote(_second).options(
            num_cpus=0, name="PlacementGroup.ready", enable_task_events=False
        )
        ref: ObjectRef[Any] = remote.remote(self._ref, self)
        return ref

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Wait until all is reserved.

        Args:
            timeout_seconds: How long to wait at the most.

        Returns:
            Whether all is reserved. False at once if it never can be, with a warning that says
            why; `ready()` has that as its error.

        Raises:
            TaskPlacementGroupRemoved: If the group was removed.
        """
        if self.is_empty:
            return True
        ready, _ = skate.wait([self._ref], num_returns=1, timeout=timeout_seconds)
        if not ready:
            return False
        try:
            skate.get(self._ref)
        except TaskUnschedulableError as error:
            notices.warn(str(error))
            return False
        return True

    @property
    def bundle_specs(self) -> list[Bundle]:
        """The resources of each bundle."""
        if self.bundle_cache is None:
            row = placement_group_table(self)
            if not row:
                raise ValueError(f"there is no placement group with the id {self.id.hex()}")
            self.bundle_cache = list(row["bundles"].values())
        return self.bundle_cache

    @property
    def bundle_count(self) -> int:
        """How many bundles there are."""
        return len(self.bundle_specs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"PlacementGroup({self.id.hex()}, bundles={self.bundle_cache})"


def _second(_: object, value: object) -> Any:
    return value


def placement_group(
    bundles: list[Bundle],
    strategy: str | None = None,
    name: str = "",
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: dict[str, str] | None = None,
) -> PlacementGroup:
    """Reserve bundles of resources, all or nothing; return at once.

    A group that an actor has made goes with it if the actor is killed or crashes.

    Args:
        bundles: Amounts of resources by name, for each bundle; `[{"CPU": 1}, {"CPU": 1}]` has two.
        strategy: How bundles spread over machines: "PACK" (the default), "SPREAD", "STRICT_PACK"
            or "STRICT_SPREAD".
        name: By which `get_placement_group` finds it; empty for none.
        lifetime: "detached" keeps the group when the actor that made it ends; None does not.
        _soft_target_node_id: None: placement by machine is not supported.
        bundle_label_selector: A selector of machines by their labels for each bundle, as
            `label_selector` of tasks; None takes any machine.
        topology_strategy: None: placement by topology is not supported.

    Returns:
        The group, which may still wait for its resources: `ready()` and `wait()` tell.

    Raises:
        ValueError: If bundles are empty, amounts are not above 0, or a value is not one of those
            above.

    Example:
        >>> group = skate.util.placement_group([{"CPU": 1}])
        >>> group.wait(timeout_seconds=60)
        True
        >>> skate.util.remove_placement_group(group)
    """
    validate_placement_group(
        bundles,
        strategy,
        lifetime,
        _soft_target_node_id,
        bundle_label_selector,
        topology_strategy,
    )
    if not isinstance(name, str):
        raise wrong_type("name", name, "a string")
    specs = [{key: float(amount) for key, amount in bundle.items()} for bundle in bundles]
    ref = current_engine().create_placement_group(
        specs, strategy or "PACK", name, lifetime == "detached", bundle_label_selector or ()
    )
    return _handle(ref, specs)


def validate_placement_group(
    bundles: list[Bundle],
    strategy: str | None = None,
    lifetime: str | None = None,
    _soft_target_node_id: str | None = None,
    bundle_label_selector: list[dict[str, str]] | None = None,
    topology_strategy: dict[str, str] | None = None,
) -> None:
    """Raise ValueError if `placement_group` would not take these arguments.

    Args:
        bundles: As `placement_group` takes them.
        strategy: As `placement_group` takes it.
        lifetime: As `placement_group` takes it.
        _soft_target_node_id: As `placement_group` takes it.
        bundle_label_selector: As `placement_group` takes it.
        topology_strategy: As `placement_group` takes it.
    """
    _refuse("_soft_target_node_id", _soft_target_node_id)
    _refuse("topology_strategy", topology_strategy)
    _check_bundles(bundles)
    if bundle_label_selector is not None:
        _check_selectors(bundle_label_selector, len(bundles))
    if strategy not in (None, *STRATEGIES):
        raise ValueError(
            f"Invalid placement group strategy {strategy!r}: it must be one of "
            f"{', '.join(STRATEGIES)}"
        )
    if lifetime not in (None, "detached"):
        raise ValueError(f'lifetime must be None or "detached"; got {lifetime!r}')


def _handle(ref: ObjectRef[object], bundles: list[Bundle] | None) -> PlacementGroup:
    id_bytes = ref.binary()[-PlacementGroupID.SIZE :]
    return PlacementGroup(PlacementGroupID(id_bytes), bundles, ref)


def _refuse(parameter: str, value: object) -> None:
    if value:
        raise ValueError(
            f"{parameter} is not supported; got {value!r}. Leave it out and use strategy=…"
        )


def _check_bundles(bundles: object) -> None:
    if not isinstance(bundles, list) or not bundles or not all(map(_is_bundle, bundles)):
        raise ValueError(
            "bundles must be a list of resources, not empty, each with an amount above 0, like "
            f'[{{"CPU": 1}}, {{"CPU": 1, "GPU": 0.5}}]; got {bundles!r}'
        )
    for bundle in bundles:
        if _RESERVED in bundle:
            raise ValueError(
                f"a bundle cannot hold a resource named {_RESERVED!r}, which is reserved for the "
                f"group itself: give it another name; got {bundle!r}"
            )


def _check_selectors(selectors: object, count: int) -> None:
    name = "bundle_label_selector"
    wanted = f'{name} takes a list with one selector per bundle, like [{{"zone": "in(a, b)"}}]'
    if not isinstance(selectors, list) or len(selectors) != count:
        raise ValueError(f"{wanted}, hence {count} here; got {selectors!r}")
    try:
        for number, selector in enumerate(selectors):
            check_selector(
                f"{name}[{number}]", selector if isinstance(selector, dict) else [selector]
            )
    except TypeError as error:
        raise ValueError(str(error)) from None


def _is_bundle(bundle: object) -> bool:
    if not isinstance(bundle, dict) or not any(bundle.values()):
        return False
    return all(
        isinstance(name, str) and isinstance(amount, (int, float)) and 0 <= amount <= _LARGEST
        for name, amount in bundle.items()
    )


def remove_placement_group(placement_group: PlacementGroup) -> None:
    """Give a reservation back; what runs in it is ended.

    Args:
        placement_group: The group.
    """
    _check_group(placement_group)
    engine = installed_engine()
    if engine is not None:  # otherwise it has ended with its session
        engine.remove_placement_group(placement_group._ref)


def _check_group(value: object) -> None:
    if not isinstance(value, PlacementGroup):
        raise wrong_type("placement_group", value, "a PlacementGroup")


def get_placement_group(placement_group_name: str) -> PlacementGroup:
    """Return the placement group of a name.

    Args:
        placement_group_name: What the group was given as `name`.

    Raises:
        ValueError: If there is none.

    Example:
        >>> group = skate.util.placement_group([{"CPU": 1}], name="shared")
        >>> skate.util.get_placement_group("shared") == group
        True
        >>> skate.util.remove_placement_group(group)
    """
    text("placement_group_name", placement_group_name)
    return _handle(*current_engine().get_placement_group(placement_group_name))


def placement_group_table(placement_group: PlacementGroup | None = None) -> dict[str, Any]:
    """Return the state of placement groups.

    Args:
        placement_group: The group; None for all.

    Returns:
        The state of the group, or a dictionary of states by the ids of the groups.

    Example:
        >>> group = skate.util.placement_group([{"CPU": 1}])
        >>> group.wait(timeout_seconds=60)
        True
        >>> skate.util.placement_group_table(group)["state"]
        'CREATED'
        >>> skate.util.remove_placement_group(group)
    """
    if placement_group is not None:
        _check_group(placement_group)
    table = current_engine().placement_group_table()
    if placement_group is None:
        return table
    return table.get(placement_group.id.hex(), {})


def get_current_placement_group() -> PlacementGroup | None:
    """Return the group in which the calling task or actor runs; None outside of one."""
    group: PlacementGroup | ObjectRef[Any] | None = current_engine().context().placement_group
    return _handle(group, None) if isinstance(group, ObjectRef) else group


def check_placement_group_index(placement_group: PlacementGroup, bundle_index: int) -> None:
    """Raise ValueError if the group has no such bundle; -1 means any."""
    if placement_group.is_empty:
        if bundle_index != -1:
            raise ValueError(f"without a placement group the index must be -1; got {bundle_index}")
    elif not -1 <= bundle_index < placement_group.bundle_count:
        raise ValueError(
            f"the placement group has bundles 0 to {placement_group.bundle_count - 1} "
            f"(-1: any); got {bundle_index}"
        )
