"""Run `joblib.Parallel` on skate.

from skate.util.joblib import register_skate
register_skate()
with joblib.parallel_config("skate"):
    joblib.Parallel(n_jobs=-1)(...)
"""

from __future__ import annotations

from skate._core.optional_imports import try_import


def register_skate() -> None:
    """Make the backend known to joblib as "skate"."""
    _register("skate")


def register_ray() -> None:
    """Make the backend known to joblib as "ray", for programs that ask for it by that name."""
    _register("ray")


def _register(name: str) -> None:
    joblib = try_import("joblib", extra="all")

    from skate.util.joblib._backend import SkateBackend

    joblib.register_parallel_backend(name, SkateBackend)


__all__ = ["register_ray", "register_skate"]
