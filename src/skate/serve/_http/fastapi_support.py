"""What applications of Starlette and FastAPI need to be served: to travel, and to find `self`.

`@app.get("/x")` inside a class sees a plain function, and takes its `self` for a query parameter.
Once the class is there, its endpoints get `self` by injection instead: the object that is set in
the context of the request.
"""

from __future__ import annotations

import contextvars
import copyreg
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

Bodies = list[tuple[str, str]]

_LOCK_TYPE = type(threading.Lock())
_NOT_PICKLED = (
    ("fastapi.routing", "_IncludedRouter"),
    ("fastapi.datastructures", "DefaultPlaceholder"),
    ("starlette.datastructures", "State"),
)

_MARK = "__serve_method__"  # on endpoints that are methods of a class with an ingress

current: contextvars.ContextVar[Any] = contextvars.ContextVar("servable")


async def get_current_servable_instance() -> Any:
    """Return the user's object that answers this request."""
    return current.get()


def bodies_of(cls: type) -> Bodies:
    """Return where methods of `cls` may have been defined: in its body and those of its bases.

    Kept by name, and asked for where the class is written: a class that was pickled by value has
    another qualified name.
    """
    return [(base.__module__, f"{base.__qualname__}.") for base in cls.__mro__]


def adopt_methods(app: object, bodies: Bodies) -> None:
    """Make the endpoints of `app` that are methods take their `self` from the context."""
    from fastapi import Depends

    for _, route in _routes(app):
        if _is_method(route.endpoint, bodies):
            _inject(route.endpoint, Depends(get_current_servable_instance))
            _analyse_again(route)


def drop_foreign_methods(app: object, bodies: Bodies) -> None:
    """Remove the endpoints of `app` that are methods of other classes."""
    for owner, route in list(_routes(app)):
        if hasattr(route.endpoint, _MARK) and not _is_method(route.endpoint, bodies):
            owner.routes.remove(route)


def _routes(router: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each route with an endpoint, and the router that holds it, also inside of others."""
    for route in router.routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from _routes(inner)
        elif hasattr(route, "dependant"):
            yield router, route


def _is_method(endpoint: Callable[..., object], bodies: Bodies) -> bool:
    """Return whether it is a method, also if the class has another of that name by now."""
    return any(
        endpoint.__module__ == module and endpoint.__qualname__.startswith(body)
        for module, body in bodies
    )


def _inject(endpoint: Any, dependency: object) -> None:
    if hasattr(endpoint, _MARK):
        return  # of a base that another class has, too
    signature = inspect.signature(endpoint)
    if not signature.parameters:
        raise TypeError(
            f"{endpoint.__qualname__}() has no parameter: methods that are endpoints need `self`"
        )
    first, *rest = signature.parameters.values()
    # What follows a default must have one or be given by name; FastAPI gives everything by name.
    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in rest]
    first = first.replace(default=dependency)
    endpoint.__signature__ = signature.replace(parameters=[first, *named])
    setattr(endpoint, _MARK, True)


def _analyse_again(route: Any) -> None:
    """Have the route read the signature of its endpoint once more; all else stays as it is."""
    parameters = inspect.signature(type(route).__init__).parameters
    facts = {name: getattr(route, name) for name in parameters if hasattr(route, name)}
    route.__init__(**facts)


# -- pickling and JSON ---------------------------------------------------------------------------


def teach_pickle() -> None:
    """Let applications of Starlette and FastAPI be pickled, if these are imported.

    An included router holds a lock. State answers for any attribute, also for `__setstate__`.
    One placeholder means "not given" by being itself, so that a copy of it means "None".
    """
    for module, name in _NOT_PICKLED:
        cls = getattr(sys.modules.get(module), name, None)
        if cls is not None:
            copyreg.pickle(cls, _reduce)


def _reduce(value: object) -> str | tuple[Any, ...]:
    for name, known in vars(sys.modules[type(value).__module__]).items():
        if known is value:
            return name
    locks = [name for name, part in vars(value).items() if isinstance(part, _LOCK_TYPE)]
    state = {name: part for name, part in vars(value).items() if name not in locks}
    return _empty, (type(value),), (state, locks), None, None, _fill


def _empty(cls: Any) -> Any:
    return cls.__new__(cls)


def _fill(value: object, state: tuple[dict[str, Any], list[str]]) -> None:
    attributes, locks = state
    value.__dict__.update(attributes)
    value.__dict__.update({name: threading.Lock() for name in locks})


def teach_fastapi() -> None:
    """Let FastAPI answer with NumPy's arrays and numbers, if both are imported."""
    encoders: Any = sys.modules.get("fastapi.encoders")
    numpy: Any = sys.modules.get("numpy")
    if encoders is None or numpy is None or numpy.ndarray in encoders.ENCODERS_BY_TYPE:
        return
    encoders.ENCODERS_BY_TYPE[numpy.ndarray] = lambda array: array.tolist()
    encoders.ENCODERS_BY_TYPE[numpy.generic] = lambda number: number.item()
    # It has looked its table up already, for subclasses.
    encoders.encoders_by_class_tuples = encoders.generate_encoders_by_class_tuples(
        encoders.ENCODERS_BY_TYPE
    )
