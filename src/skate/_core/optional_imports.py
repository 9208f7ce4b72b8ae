"""Optional dependencies: imported when first needed, with an error that names our extra."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from types import FrameType
from typing import Any


def try_import(name: str, extra: str) -> Any:
    """Import the module `name`; without it, raise an ImportError that names our extra."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise  # it is there, and misses something of its own
        taken = getattr(sys.modules.get(package), "__file__", None)
        if taken is not None and error.name != package:
            raise ImportError(
                f"this needs {error.name!r}, and `import {package}` finds {taken}, which has "
                f"none: rename that file if it is yours, or install another {package}",
                name=error.name,
            ) from error
        raise missing(package, extra) from error


# What installs the packages that a library imports, but for those with an extra of their own.
_EXTRA_OF_LIBRARY = {
    "data": "data", "predict": "train", "serve": "serve", "train": "train", "tune": "tune",
    "util": "data",
}  # fmt: skip
_EXTRA_OF_PACKAGE = {"joblib": "all", "torch": "torch"}
_IMPORT_SYSTEM = ("importlib", "_frozen_importlib", "_frozen_importlib_external")


def check_library_import(name: str) -> None:
    """Check that no library of ours imports the module `name`, which nobody has found.

    Args:
        name: The module. Finders call this while it is imported.

    Raises:
        ModuleNotFoundError: If one does; with the command that installs it.
    """
    library = None if "." in name else _importing_library()
    if library is not None:
        extra = _EXTRA_OF_PACKAGE.get(name, _EXTRA_OF_LIBRARY[library])
        raise ModuleNotFoundError(
            f"skate.{library} needs the package {name!r}, which is not installed: "
            f"{install_command(extra)}",
            name=name,
        )


def _importing_library() -> str | None:
    """Return the library that the user has imported, if one of our modules imports something
    while it is loaded itself: not where a function imports what users have named."""
    frame: FrameType | None = sys._getframe(3)  # of whoever called the finder
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    if frame is None or frame.f_code.co_name != "<module>":
        return None
    library = None
    while frame is not None:
        root, *below = str(frame.f_globals.get("__name__")).split(".")
        if root == "skate" and below and below[0] in _EXTRA_OF_LIBRARY:
            library = below[0]
        elif root != "skate" and root not in _IMPORT_SYSTEM:
            break
        frame = frame.f_back
    return library


def missing(package: str, extra: str) -> ImportError:
    """Return the error of a package that is not installed, and belongs to one of our extras."""
    return ImportError(
        f"this needs the package {package!r}, which is not installed: {install_command(extra)}",
        name=package,
    )


def install_command(extra: str) -> str:
    """Return the command that installs what one of our extras needs, from where skate itself was
    installed: it is on no package index, where another project may have its name."""
    import json
    from importlib import metadata
    from urllib.parse import unquote, urlsplit

    place = "."
    with suppress(metadata.PackageNotFoundError, TypeError, KeyError, ValueError):
        origin = metadata.distribution("skate").read_text("direct_url.json")
        url = urlsplit(json.loads(origin or "")["url"])
        if url.scheme == "file" and os.path.isdir(unquote(url.path)):
            place = unquote(url.path)
    where = "" if place != "." else ", in a checkout of skate"
    return f'pip install "{place}[{extra}]"{where}'


def is_installed(name: str) -> bool:
    """Return whether the top-level module `name` could be imported, without importing it."""
    from importlib.util import find_spec

    try:
        return find_spec(name) is not None
    except ImportError:  # somebody's finder says no in this way
        return False


AS_RAY = "SKATE_AS_RAY"  # set by `compat.ray.install`, and so in all processes that follow
AS_RAY_PROGRAM = "SKATE_AS_RAY_PROGRAM"  # likewise: the process of the program


def ray_is_skate() -> bool:
    """Return whether `import ray` means skate in this program."""
    return AS_RAY in os.environ


@contextmanager
def without_collections() -> Iterator[None]:
    """Turn the collector off for imports, which make many objects and little garbage: a tenth to a
    quarter of the time of importing torch or torch._dynamo goes into collections that find next to
    nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
