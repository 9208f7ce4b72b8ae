"""`@serve.ingress`: a class whose HTTP requests are answered by an ASGI application."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable
from typing import Any

from skate._core import serialization
from skate.serve._http import fastapi_support
from skate.serve._http.answers import retry_after
from skate.serve._http.lifespan import Lifespan
from skate.serve.exceptions import BackPressureError, DeploymentUnavailableError

_BUILDER = "__serve_build_asgi_app__"


def ingress(app: object = None) -> Callable[..., Any]:
    """Let an ASGI application answer the HTTP requests to a deployment.

    Args:
        app: A FastAPI application or router, whose endpoints may be methods of the class; any
            other ASGI application; or a function that makes one in the replica. Without it, the
            class has a method `__serve_build_asgi_app__`, called after `__init__`.

    Returns:
        A decorator for the class. Called without one, it makes an empty class:
        `serve.deployment(serve.ingress(app)())`.

    Raises:
        ValueError: By the decorator, if it is given no class, or one with a `__call__`.

    Example:
        >>> from skate import serve
        >>> from fastapi import FastAPI
        >>> app = FastAPI()
        >>> @serve.deployment
        ... @serve.ingress(app)
        ... class Api:
        ...     @app.get("/hello")
        ...     def hello(self) -> str:
        ...         return "hello"
    """

    def decorate(cls: Any = None) -> type:
        cls = _EmptyIngress if cls is None else cls
        _check(cls, app)
        return _with_app(cls, _source_of(app, cls))

    return decorate


class _EmptyIngress:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs


_EmptyIngress.__name__ = _EmptyIngress.__qualname__ = "ASGIIngressDeployment"


def _check(cls: Any, app: object) -> None:
    if not inspect.isclass(cls):
        raise ValueError(
            f"@serve.ingress must be used with a class, not with {cls!r}. Put @serve.deployment "
            "above @serve.ingress, and both above a class"
        )
    if issubclass(cls, Callable):  # type: ignore[arg-type]
        raise ValueError(
            f"Classes passed to @serve.ingress may not have __call__ method, as {cls.__name__} "
            "has: requests go to the endpoints of the application. Give the method a route"
        )
    if app is None and not hasattr(cls, _BUILDER):
        raise ValueError(
            f"serve.ingress() without an application needs a method {_BUILDER} in {cls.__name__}"
        )


def _source_of(app: object, cls: type) -> Any:
    """Return what the replica makes the application of: a function, or its pickle.

    It is pickled here so that routes which are added later do not appear in this deployment.
    """
    if app is None or inspect.isfunction(app):
        return app
    fastapi_support.teach_pickle()
    if _is_fastapi(app):
        fastapi_support.adopt_methods(app, fastapi_support.bodies_of(cls))
    return serialization.dumps(app, "the application given to serve.ingress").packed()


def _is_fastapi(app: object) -> bool:
    fastapi = sys.modules.get("fastapi")  # an application of it could not be here without
    return fastapi is not None and isinstance(app, (fastapi.FastAPI, fastapi.APIRouter))


def _with_app(cls: type, source: object) -> type:
    """Make a subclass that knows its application; the replica starts and ends that."""

    class Ingress(cls):  # type: ignore[misc]
        __serve_source__ = source
        __serve_bodies__ = fastapi_support.bodies_of(cls)

        async def __serve_start__(self) -> Any:
            app = await _build(self, type(self))
            self.__serve_lifespan__ = Lifespan(app)
            await self.__serve_lifespan__.start()
            return app

        async def __serve_stop__(self) -> None:
            await self.__serve_lifespan__.stop()

    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(Ingress, name, getattr(cls, name))
    return Ingress


async def _build(servable: object, cls: Any) -> Any:
    """Return the application of this replica."""
    source = cls.__serve_source__
    if source is None:
        app = getattr(servable, _BUILDER)()
    elif inspect.isfunction(source):
        app = source()
    else:
        app = serialization.loads(source)
        if _is_fastapi(app):
            fastapi_support.drop_foreign_methods(app, cls.__serve_bodies__)
    if asyncio.iscoroutine(app):
        app = await app
    if not callable(app):
        raise TypeError(f"an ASGI application was expected of serve.ingress, got {app!r}")
    fastapi_support.teach_fastapi()
    if hasattr(app, "add_exception_handler"):  # or it would answer 500 to what is no mistake
        for error in (BackPressureError, DeploymentUnavailableError):
            app.add_exception_handler(error, _unavailable)
    return app


async def _unavailable(request: Any, error: Any) -> Any:
    """Answer that a deployment behind this one cannot take the request now."""
    from starlette.responses import PlainTextResponse

    status = getattr(error, "status_code", 503)
    headers = retry_after(getattr(error, "retry_after_s", None))
    return PlainTextResponse(
        getattr(error, "public_message", error.message),
        status,
        {name.decode(): value.decode() for name, value in headers},
    )
