"""From a request to what a model takes, for DAGDriver and PredictorDeployment.

Ray had these until 2.9. Each is a dependency of FastAPI: annotations say what it is given.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate._core.untrusted_images import open_image

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray
    from pydantic import BaseModel
    from starlette.exceptions import HTTPException
    from starlette.requests import Request

    Array = NDArray[Any]
else:
    BaseModel = try_import("pydantic", "serve").BaseModel
    HTTPException = try_import("starlette.exceptions", "serve").HTTPException
    Request = try_import("starlette.requests", "serve").Request

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


# Types of items: others have items of any size, several fields, or objects.
_TYPE_NAMES = frozenset(
    "bool int float complex str int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 "
    "float64 complex64 complex128 half single double".split()
)
_TYPE_CODE = re.compile(r"[<>=|]?[biufc][0-9]{1,2}")  # with its size, as f4
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


@contextmanager
def _mistakes_of_the_client(what: str) -> Iterator[None]:
    """Answer with 422 if what a request brings is not what it should be."""
    try:
        yield
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise HTTPException(422, f"the request has no {what}: {error}") from error


async def json_request(request: Request) -> Any:
    """Return the JSON of the body."""
    with _mistakes_of_the_client("JSON in its body"):
        return await request.json()


def json_to_ndarray(payload: NdArray) -> Any:
    """Return an array, from `{"array": […], "shape": […], "dtype": "…"}` or `array` alone."""
    numpy = try_import("numpy", "data")
    with _mistakes_of_the_client("array of numbers or text, of this shape and type"):
        array: Array = numpy.array(payload.array)
        if payload.shape is not None:
            array = array.reshape(payload.shape)
        if payload.dtype is not None:
            array = array.astype(_type_of_items(payload.dtype))
        if array.dtype.hasobject:
            raise ValueError("its items are neither numbers nor text")
    return array


def _type_of_items(name: str) -> Any:
    """Return the type of an array by its name.

    Raises:
        ValueError: If it is none of plain numbers or text.
    """
    if name not in _TYPE_NAMES and not _TYPE_CODE.fullmatch(name):
        raise ValueError(
            "dtype is the name of one of NumPy's types of numbers, such as float32, or str for "
            f"text; got {name!r}"
        )
    return try_import("numpy", "data").dtype(name)


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
        with _mistakes_of_the_client("image that can be read"):
            pixels: Array = numpy.asarray(open_image(await file.read(), "the file `img`"))
    return pixels


async def pandas_read_json(raw_request: Request) -> pd.DataFrame:
    """Return a DataFrame from its JSON; the query has parameters of `pandas.read_json`."""
    pandas = try_import("pandas", "data")
    with _mistakes_of_the_client("JSON that pandas.read_json takes, with this query"):
        text = (await raw_request.body()).decode()
        return pandas.read_json(io.StringIO(text), **raw_request.query_params)
