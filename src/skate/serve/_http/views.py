"""Methods of a class as endpoints of a FastAPI application.

`@app.get("/x")` inside a class sees a plain function, and takes its `self` for a query parameter.
Once the class is there, its endpoints get `self` by injection instead: the object that is set in
the context of the request.
"""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Callable, Iterator
from typing import Any

Bodies = list[tuple[str, str]]

_MARK = "__serve_method__"  # on endpoints that are methods of a class with an ingress

current: contextvars.ContextVar[Any] = contextvars.ContextVar("servable")


async def get_current_servable_instance() -> Any:
    """The user's object that answers this request."""
    return current.get()


def bodies_of(cls: type) -> Bodies:
    """Where methods of `cls` may have been defined: in its body and those of its bases.

    Kept by name, and asked for where the class is written: a class that was pickled by value has
    another qualified name.
    """
    return [(base.__module__, f"{base.__qualname__}.") for base in cls.__mro__]


def adopt_methods(app: Any, bodies: Bodies) -> None:
    """Make the endpoints of `app` that are methods take their `self` from the context."""
    from fastapi import Depends

    for _, route in _routes(app):
        if _is_method(route.endpoint, bodies):
            _inject(route.endpoint, Depends(get_current_servable_instance))
            _analyse_again(route)


def drop_foreign_methods(app: Any, bodies: Bodies) -> None:
    """Remove the endpoints of `app` that are methods of other classes."""
    for owner, route in list(_routes(app)):
        if hasattr(route.endpoint, _MARK) and not _is_method(route.endpoint, bodies):
            owner.routes.remove(route)


def _routes(router: Any) -> Iterator[tuple[Any, Any]]:
    """Every route with an endpoint and the router that holds it; routers may hold routers."""
    for route in router.routes:
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from _routes(inner)
        elif hasattr(route, "dependant"):
            yield router, route


def _is_method(endpoint: Callable[..., Any], bodies: Bodies) -> bool:
    """Also if the class has another method of that name by now."""
    return any(
        endpoint.__module__ == module and endpoint.__qualname__.startswith(body)
        for module, body in bodies
    )


def _inject(endpoint: Any, dependency: Any) -> None:
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
