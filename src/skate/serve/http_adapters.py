"""From a request to what a model takes; Ray had these until 2.9, for PredictorDeployment."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from starlette.requests import Request

    Array = NDArray[Any]

__all__ = [
    "image_to_ndarray",
    "json_request",
    "json_to_multi_ndarray",
    "json_to_ndarray",
    "pandas_read_json",
    "starlette_request",
]


async def starlette_request(request: Request) -> Request:
    """Return the request itself."""
    return request


async def json_request(request: Request) -> Any:
    """Return the JSON of the body."""
    return await request.json()


async def json_to_ndarray(request: Request) -> Array:
    """Return an array, from `{"array": […], "shape": […], "dtype": "…"}` or `array` alone."""
    return _array(await request.json())


async def json_to_multi_ndarray(request: Request) -> dict[str, Array]:
    """Return several arrays, by name, each as for `json_to_ndarray`."""
    return {name: _array(said) for name, said in (await request.json()).items()}


def _array(said: object) -> Array:
    numpy = try_import("numpy", "data")
    if not isinstance(said, dict) or "array" not in said:
        raise ValueError(f'the body looks like {{"array": [1, 2]}}; got {said!r}')
    array: Array = numpy.array(said["array"])
    if said.get("shape"):
        array = array.reshape(said["shape"])
    return array.astype(said["dtype"]) if said.get("dtype") else array


async def image_to_ndarray(request: Request) -> Array:
    """Return the pixels of an image file, which is the body: height, width, channels."""
    numpy, image = try_import("numpy", "data"), try_import("PIL.Image", "data")
    pixels: Array = numpy.asarray(image.open(io.BytesIO(await request.body())))
    return pixels


async def pandas_read_json(request: Request) -> pd.DataFrame:
    """Return a DataFrame from its JSON; the query has parameters of `pandas.read_json`."""
    text = (await request.body()).decode()
    return try_import("pandas", "data").read_json(io.StringIO(text), **request.query_params)
