"""Images of untrusted files and requests, by Pillow."""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING

from skate._core.optional_imports import try_import

if TYPE_CHECKING:
    from PIL import Image


COMMON_PLUGINS = ("PIL.JpegImagePlugin", "PIL.PngImagePlugin")
_STARTS_PROGRAMS = {"EPS"}  # of which Pillow has Ghostscript make a picture


@cache
def _formats(rare: bool) -> tuple[str, ...]:
    """Return the formats that Pillow reads by itself; the code of those that are `rare`, fifty
    modules, is imported for them only."""
    images = try_import("PIL.Image", "data")
    if rare:
        images.init()
    else:
        images.preinit()
    return tuple(name for name in images.OPEN if name not in _STARTS_PROGRAMS)


def open_image(content: bytes, where: str) -> Image.Image:
    """Return the image as Pillow has it; `where` names it in the error."""
    images = try_import("PIL.Image", "data")
    for rare in (False, True):
        try:
            return images.open(io.BytesIO(content), formats=_formats(rare))
        except images.UnidentifiedImageError:
            continue
    raise ValueError(f"{where} is no image that Pillow knows")
