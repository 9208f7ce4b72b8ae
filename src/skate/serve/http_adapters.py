"""From a request to what a model takes, for DAGDriver and PredictorDeployment.

Ray had these until 2.9. Each is a dependency of FastAPI: annotations say what it is given.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import Request

from skate._core.optional_imports import try_import
from skate._core.untrusted_images import open_image

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = [
    "NdArray",
    "image_to_ndarray",
    "json_request",
    "json_to_multi_ndarray",
    "json_to_ndarray",
    "pandas_read_json",
    "starlette_request",
]


class NdArray(BaseModel):
    """An array as JSON: its values, nested or flat, and if wanted its shape and type."""

    array: list[Any] | float
    shape: list[int] | None = None
    dtype: str | None = None


_LARGEST_ITEM_BYTES = 32  # complex256
_TRAVELLING = (
    "type", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path",
    "headers", "client", "server", "path_params",
)  # fmt: skip


class WholeRequest(Request):
    """A request with its body, which can be given to other deployments.

    Args:
        scope: What ASGI says of the request; what belongs to this process is left out.
        body: The body.
    """

    def __init__(self, scope: Mapping[str, Any], body: bytes) -> None:
        super().__init__({key: scope[key] for key in _TRAVELLING if key in scope})
        self._body = body

    def __reduce__(self) -> tuple[object, ...]:
        return WholeRequest, (self.scope, self._body)


async def starlette_request(request: Request) -> Any:
    """Return the request itself, with its body, so that it can be given to other deployments."""
    return WholeRequest(request.scope, await request.body())


async def json_request(request: Request) -> Any:
    """Return the JSON of the body."""
    return await request.json()


def json_to_ndarray(payload: NdArray) -> Any:
    """Return an array, from `{"array": […], "shape": […], "dtype": "…"}` or `array` alone."""
    numpy = try_import("numpy", "data")
    array: Array = numpy.array(payload.array)
    if payload.shape is not None:
        array = array.reshape(payload.shape)
    return array if payload.dtype is None else array.astype(_type_of_items(payload.dtype))


def _type_of_items(name: str) -> Any:
    """Return the type of an array by its name."""
    numpy = try_import("numpy", "data")
    try:
        dtype = numpy.dtype(name)
    except TypeError:
        dtype = None
    if dtype is None or dtype.itemsize > _LARGEST_ITEM_BYTES:  # which could ask for any memory
        raise HTTPException(
            422,
            "dtype is the name of one of NumPy's types, such as float32, or str for text of any "
            f"length, with {_LARGEST_ITEM_BYTES} bytes an item at most; got {name!r}",
        )
    return dtype


def json_to_multi_ndarray(payload: dict[str, NdArray]) -> dict[str, Any]:
    """Return several arrays, by name, each as for `json_to_ndarray`."""
    return {name: json_to_ndarray(said) for name, said in payload.items()}


async def image_to_ndarray(request: Request) -> Any:
    """Return the pixels of an image, the file `img` of a form: height, width, channels."""
    numpy = try_import("numpy", "data")
    async with request.form() as form:
        file = form.get("img")
        if file is None or isinstance(file, str):
            raise HTTPException(422, f"the image is a file `img` of a form; got {dict(form)!r}")
        pixels: Array = numpy.asarray(open_image(await file.read(), "the file `img`"))
    return pixels


async def pandas_read_json(raw_request: Request) -> pd.DataFrame:
    """Return a DataFrame from its JSON; the query has parameters of `pandas.read_json`."""
    text = (await raw_request.body()).decode()
    return try_import("pandas", "data").read_json(io.StringIO(text), **raw_request.query_params)
