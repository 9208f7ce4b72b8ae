"""`ray.serve._private.http_util`: endpoints that are methods, and requests to test with."""

from __future__ import annotations

from skate.serve._http import fastapi_support

__all__ = ["make_fastapi_class_based_view"]


def make_fastapi_class_based_view(fastapi_app: object, cls: type) -> None:
    """Let the endpoints of an application that are methods of `cls` get their `self`."""
    fastapi_support.adopt_methods(fastapi_app, fastapi_support.bodies_of(cls))
