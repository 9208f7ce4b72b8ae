"""`--as-ray`: commands that run programs which say `import ray`."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from skate._core.optional_imports import try_import


def install_as_ray() -> None:
    """Let `import ray` mean skate, here and in workers; why it cannot is an error of usage."""
    from skate.compat.ray import install

    try:
        install()
    except RuntimeError as error:
        raise try_import("click", "cli").UsageError(f"--as-ray: {error}") from None


def as_ray_option(click: ModuleType, always: bool = False) -> Any:
    """Return an option that does so before the command runs; `always`: also where it is not
    given."""
    return click.Option(
        ["--as-ray"],
        is_flag=True,
        default=always,
        hidden=always,
        expose_value=False,
        callback=lambda context, option, given: install_as_ray() if given else None,
        help="`import ray` means skate.",
    )
