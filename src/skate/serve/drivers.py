"""Deployments that stand in front of a model or a graph, and turn requests into its input.

Ray had them until 2.8. A function, the adapter, makes the input: it is a dependency of FastAPI.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from skate._core.optional_imports import try_import
from skate.serve._application.import_paths import import_attribute
from skate.serve._deployment import deployment
from skate.serve._http.ingress import ingress
from skate.serve._routing.responses import DeploymentResponse
from skate.serve.exceptions import SkateServeError
from skate.serve.http_adapters import starlette_request

if TYPE_CHECKING:
    from fastapi import FastAPI
    from pydantic import BaseModel
else:
    BaseModel = try_import("pydantic", "serve").BaseModel

__all__ = ["DAGDriver", "SimpleSchemaIngress", "load_http_adapter"]

HttpAdapter = Callable[..., Any]
_ANYWHERE = "/{path:path}"  # a route that matches all paths


def load_http_adapter(http_adapter: object) -> HttpAdapter:
    """Return the function that makes the input of a request.

    Args:
        http_adapter: A function whose parameters FastAPI finds by their annotations, a pydantic
            model for the body, or the import path of either; None for the request itself.

    Raises:
        ValueError: If it is none of them, or a parameter has no annotation.
    """
    adapter: Any = starlette_request if http_adapter is None else http_adapter
    if isinstance(adapter, str):
        adapter = import_attribute(adapter)
    if inspect.isclass(adapter) and issubclass(adapter, BaseModel):
        return _body_of(adapter)
    if not inspect.isfunction(adapter):
        raise ValueError(
            f"http_adapter is a callable function, a pydantic model or an import path of one; got "
            f"{adapter!r}"
        )
    parameters = inspect.signature(adapter).parameters.values()
    bare = [each.name for each in parameters if each.annotation is inspect.Parameter.empty]
    if bare:
        raise ValueError(
            f"the parameters of an http_adapter are type annotated, as in `request: Request`, for "
            f"FastAPI to find them; {adapter.__name__} has none at {', '.join(bare)}"
        )
    return adapter


def _body_of(model: type[BaseModel]) -> HttpAdapter:
    from fastapi import Body

    def body(inp: Any) -> Any:
        return inp

    body.__annotations__["inp"] = Annotated[model, Body()]
    return body


def _answer_at(app: FastAPI, path: str, adapter: HttpAdapter, answer: HttpAdapter) -> None:
    """Let an application answer GET and POST at a path."""
    from fastapi import Depends

    async def handle_request(inp: Any) -> Any:
        return await answer(inp)

    handle_request.__annotations__["inp"] = Annotated[Any, Depends(adapter)]
    app.add_api_route(path, handle_request, methods=["GET"], response_model=None)
    app.add_api_route(path, handle_request, methods=["POST"], response_model=None)


class SimpleSchemaIngress:
    """Answers requests with its method `predict`, which gets what the adapter makes of them.

    Args:
        http_adapter: Makes the input of a request, as for `load_http_adapter`.
    """

    def __init__(self, http_adapter: object = None) -> None:
        self.app: FastAPI = try_import("fastapi", "serve").FastAPI()
        _answer_at(self.app, "/", load_http_adapter(http_adapter), self.predict)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return self.app

    async def predict(self, inp: Any) -> Any:
        """Return the answer to an input; a subclass says which.

        Args:
            inp: What the adapter made.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method predict")


class _GraphDriver:
    """Answers requests with what graphs return.

    Args:
        dags: A graph, or several by the paths where they answer.
        http_adapter: Makes the input of a request, as for `load_http_adapter`.
    """

    def __init__(self, dags: Any, http_adapter: object = None) -> None:
        self._graphs: Mapping[str, Any] = dags if isinstance(dags, Mapping) else {_ANYWHERE: dags}
        self._adapter = load_http_adapter(http_adapter)

    def __serve_build_asgi_app__(self) -> FastAPI:
        app: FastAPI = try_import("fastapi", "serve").FastAPI()
        for path in self._graphs:
            self._answer_at(app, path)
        return app

    def _answer_at(self, app: FastAPI, path: str) -> None:
        async def answer(inp: object) -> Any:
            return await self.predict_with_route(path, inp)

        _answer_at(app, path, self._adapter, answer)

    async def predict(self, *args: object, **kwargs: object) -> Any:
        """Return what the graph returns.

        Args:
            args: Its input.
            kwargs: Named input.
        """
        return await self.predict_with_route(_ANYWHERE, *args, **kwargs)

    async def predict_with_route(self, route_path: str, /, *args: object, **kwargs: object) -> Any:
        """Return what one of several graphs returns.

        Args:
            route_path: The path where it answers.
            args: Its input.
            kwargs: Named input.

        Raises:
            SkateServeError: If no graph answers there.
        """
        if route_path not in self._graphs:
            self._refuse(route_path)
        result: Any = self._graphs[route_path].remote(*args, **kwargs)
        if not isinstance(result, DeploymentResponse):  # of a graph: its last response
            result = await result
        return await result if isinstance(result, DeploymentResponse) else result

    def _refuse(self, path: str) -> NoReturn:
        raise SkateServeError(f"{path} does not exist in dags routes: {', '.join(self._graphs)}")


DAGDriver = deployment(ingress()(_GraphDriver), name="DAGDriver").options(route_prefix="/")
