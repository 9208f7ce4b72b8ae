"""`ray.autoscaler.sdk`, as far as a program can use it that has one machine."""

from __future__ import annotations

from collections.abc import Mapping

from skate._core.argument_checks import numbers, text, whole_number, wrong_type, wrong_value

_amount = numbers(0, "a number that is not negative")


def request_resources(
    num_cpus: int | None = None,
    bundles: list[dict[str, float]] | None = None,
    bundle_label_selectors: list[dict[str, str]] | None = None,
) -> None:
    """Check a request for more nodes, which has no effect here: as on a Ray without an autoscaler,
    nobody adds any.

    Args:
        num_cpus: How many CPUs the program would like to have.
        bundles: What it would like to have together on a node, each by the names of resources.
        bundle_label_selectors: The labels of those nodes, one dictionary per bundle.

    Raises:
        TypeError: If something has the wrong type.
        ValueError: If an amount is negative, or there is not one selector per bundle.
    """
    if num_cpus is not None:
        whole_number("num_cpus", num_cpus, lowest=0)
    for bundle in _dictionaries("bundles", bundles):
        for name, amount in bundle.items():
            _amount(f"the amount of {text('a resource', name)!r} in bundles", amount)
    if bundle_label_selectors is None:
        return
    selectors = _dictionaries("bundle_label_selectors", bundle_label_selectors)
    if len(selectors) != len(bundles or ()):
        raise wrong_value("bundle_label_selectors", bundle_label_selectors, "one per bundle")
    for selector in selectors:
        for key, value in selector.items():
            text("a label in bundle_label_selectors", key)
            text(f"the value of {key!r} in bundle_label_selectors", value)


def _dictionaries(name: str, value: object) -> list[Mapping[object, object]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise wrong_type(name, value, "a list of dictionaries")
    return value
