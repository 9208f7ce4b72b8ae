"""The resources of a trial."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate._run.config_checks import WrongKindError

Bundle = dict[str, float]


class PlacementGroupFactory:
    """Say what a trial needs, in bundles of resources.

    Args:
        bundles: The first is for the trial itself, the others are for what it starts. An empty
            first bundle means that the trial itself needs nothing.
        strategy: How bundles spread over machines; see `skate.util.placement_group`.
        *args: More arguments of the placement group.
        **kwargs: More keyword arguments of the placement group.

    Raises:
        ValueError: If no bundle asks for something, or another than the first is empty.

    Example:
        >>> from skate import tune
        >>> tune.PlacementGroupFactory([{"CPU": 1}, {"CPU": 2}]).required_resources
        {'CPU': 3.0}
    """

    def __init__(self, bundles: object, strategy: str = "PACK", *args: Any, **kwargs: Any) -> None:
        if not isinstance(bundles, list) or not bundles:
            raise ValueError(f"bundles takes a list of at least one bundle; got {bundles!r}")
        self._head_bundle_is_empty = not any(bundles[0].values())
        kept = [{k: float(v) for k, v in bundle.items() if v} for bundle in bundles]
        self._bundles = kept[1:] if self._head_bundle_is_empty else kept
        if not self._bundles and not self._head_bundle_is_empty:
            raise ValueError(f"at least one bundle must ask for something; got {bundles!r}")
        if any(not bundle for bundle in self._bundles):
            raise ValueError(f"only the first bundle may be empty; got {bundles!r}")
        self._strategy = strategy
        self._args = args
        self._kwargs = kwargs

    @property
    def bundles(self) -> list[Bundle]:
        """All bundles that ask for something."""
        return self._bundles

    @property
    def head_bundle_is_empty(self) -> bool:
        """Whether the trial itself needs nothing."""
        return self._head_bundle_is_empty

    @property
    def head_cpus(self) -> float:
        """The CPUs of the trial itself."""
        return self.head_bundle.get("CPU", 0.0)

    @property
    def head_bundle(self) -> Bundle:
        """What the trial itself needs."""
        return {} if self._head_bundle_is_empty or not self._bundles else self._bundles[0]

    @property
    def strategy(self) -> str:
        """How the bundles are to be placed."""
        return self._strategy

    @property
    def required_resources(self) -> Bundle:
        """All bundles together."""
        total: Bundle = {}
        for bundle in self._bundles:
            for name, amount in bundle.items():
                total[name] = total.get(name, 0.0) + amount
        return total

    def to_placement_group(self) -> Any:
        """Reserve the resources now.

        Returns:
            The placement group.
        """
        from skate.util.placement_group import placement_group

        return placement_group(self._bundles, self._strategy, *self._args, **self._kwargs)

    def __eq__(self, other: object) -> bool:
        if self is other:  # as those of one search mostly are
            return True
        return isinstance(other, PlacementGroupFactory) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> object:
        bundles = tuple(tuple(sorted(bundle.items())) for bundle in self._bundles)
        return bundles, self._strategy, self._head_bundle_is_empty

    def __repr__(self) -> str:
        return f"PlacementGroupFactory({self._bundles!r}, strategy={self._strategy!r})"


# What would be custom resources, which no machine has: the trial would never start.
_MISSPELT = {"cpus": "cpu", "gpus": "gpu", "num_cpus": "cpu", "num_gpus": "gpu"}


def resource_dict_to_pg_factory(spec: Mapping[str, Any] | None = None) -> PlacementGroupFactory:
    """Make bundles of `{"cpu": 1, "memory": …, "custom_resources": {…}}`; `extra_*` a second."""
    wanted = dict(spec or {"cpu": 1})
    extra = {name: wanted.pop(name, 0) for name in ("extra_cpu", "extra_gpu")}
    bundle: Bundle = dict(wanted.pop("custom_resources", None) or {})
    for name, amount in wanted.items():
        if name in _MISSPELT:
            raise ValueError(f"resources have no {name!r}: did you mean {_MISSPELT[name]!r}?")
        bundle[name.upper() if name in ("cpu", "gpu") else name] = amount
    more = {"CPU": extra["extra_cpu"], "GPU": extra["extra_gpu"]}
    bundles = [bundle, *([more] if any(more.values()) else [])]
    return (
        PlacementGroupFactory(bundles)
        if any(bundle.values())
        else PlacementGroupFactory([{}, *bundles[1:]])
    )


def as_resources(wanted: object) -> PlacementGroupFactory:
    """Make bundles of what a user may write; nothing means one CPU."""
    if wanted is None:
        return PlacementGroupFactory([{"CPU": 1}])
    if isinstance(wanted, PlacementGroupFactory):
        return wanted
    if isinstance(wanted, Mapping):
        return resource_dict_to_pg_factory(wanted)
    if hasattr(wanted, "as_placement_group_factory"):
        found: PlacementGroupFactory = wanted.as_placement_group_factory()
        return found
    raise WrongKindError(
        f"resources are a dictionary, a PlacementGroupFactory or a ScalingConfig; got {wanted!r}"
    )
