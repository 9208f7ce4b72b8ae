"""Arguments on their way to Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.refs import ObjectRef
from skate._core.serialization import dumps
from skate.engine.ray.carrying import Carried, carried

if TYPE_CHECKING:
    from skate.engine.ray.references import References


def carried_arguments(
    args: tuple[object, ...], kwargs: dict[str, object], references: References
) -> tuple[list[object], dict[str, object]]:
    """Turn top-level references into Ray's, which it replaces by their values; carry the rest."""

    def one(value: object) -> object:
        if type(value) is ObjectRef:
            return references.ray_ref(value)
        return carried(value, "arguments")

    try:
        return [one(value) for value in args], {name: one(kwargs[name]) for name in kwargs}
    except TypeError:
        dumps((args, kwargs), "arguments")  # raises again, with the path from the outside
        raise


def inner_references(args: list[object], kwargs: dict[str, object]) -> list[ObjectRef[object]]:
    """Return the references inside carried arguments. (Those at the top are Ray's own affair.)"""
    values = (value for value in (*args, *kwargs.values()) if type(value) is Carried)
    return [ref for value in values for ref in value.references]
