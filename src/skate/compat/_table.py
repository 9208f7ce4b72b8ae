"""Where each `ray.x.y` lives in skate, and what to say of what does not."""

from __future__ import annotations

import importlib.util
from functools import cache

from skate._former import hint

# Modules whose home has another name, or several. What is below a module here is below its first
# home, unless it has a row of its own. All else: `ray.x.y` is `skate.x.y`.
HOMES: dict[str, tuple[str, ...]] = {
    "ray": ("skate.compat.parts.top", "skate"),
    "ray._common": ("skate.compat.parts",),
    "ray._private": ("skate.compat.parts",),
    "ray._raylet": ("skate",),
    "ray.client_builder": ("skate",),
    "ray.cloudpickle": ("cloudpickle",),
    "ray.cluster_utils": ("skate.compat.parts.cluster_utils",),
    "ray.includes": ("skate",),
    "ray.internal": ("skate.compat.parts.internal",),
    "ray.services": ("skate.compat.parts.services",),
    "ray.state": ("skate.compat.parts.state",),
    "ray.test_utils": ("skate.compat.parts.test_utils",),
    "ray.types": ("skate",),
    "ray.util.accelerators": ("skate.compat.parts.accelerators",),
    "ray.util.annotations": ("skate.compat.parts.annotations",),
    "ray.util.state": ("skate.compat.parts.state_api",),
    "ray.train.sklearn": ("skate.train.sklearn", "skate.predict.sklearn"),
    "ray.train.torch": ("skate.train.torch", "skate.predict.torch"),
    "ray.worker": ("skate.compat.parts.worker", "skate"),
    "ray.tune.integration.mlflow": ("skate.air.integrations.mlflow",),
    "ray.tune.integration.wandb": ("skate.air.integrations.wandb",),
    "ray.tune.session": ("skate.tune",),
    "ray.tune.sample": ("skate.tune.search.sample", "skate.compat.parts.tune_sample"),
    "ray.tune.search.sample": ("skate.tune.search.sample", "skate.compat.parts.tune_sample"),
}

_CLUSTER = "it is a part of Ray's cluster: run the program on Ray itself, or `import skate` with "
_CLUSTER += "the ray engine"
_DEBUGGER = "with engine='inline' (or local_mode=True) any debugger and breakpoint() work"
REASONS: dict[str, str] = {
    "ray.autoscaler": _CLUSTER,
    "ray.core": "it is the inside of Ray, and skate has none of it",
    "ray.cross_language": "skate runs Python only; use the ray engine for Java and C++",
    "ray.dag": "compiled graphs are not offered; call actors with the results of others",
    "ray.dashboard": _CLUSTER,
    "ray.job_submission": _CLUSTER,
    "ray.llm": "it is not offered; use the ray engine",
    "ray.rllib": "reinforcement learning is not offered; use the ray engine",
    "ray.util.client": _CLUSTER,
    "ray.util.debugpy": _DEBUGGER,
    "ray.util.pdb": _DEBUGGER,
    "ray.util.rpdb": _DEBUGGER,
    "ray.util.dask": "it is not offered; use dask's own scheduler, or the ray engine",
    "ray.util.spark": _CLUSTER,
}

_WAY_OUT = "if the program needs it, run it on Ray itself, or `import skate` with the ray engine"


def homes_of(name: str) -> tuple[str, ...] | None:
    """The modules that `ray.x.y` stands for, or None if skate has nothing for it."""
    return tuple(filter(_exists, _candidates(name))) or None


def has_home(name: str, expected: str | None = None) -> bool:
    """Whether there is an alias `name`; with `expected`, whether it stands for that module."""
    homes = homes_of(name)
    return homes is not None and (expected is None or expected in homes)


def _candidates(name: str) -> tuple[str, ...]:
    if name in HOMES:
        return HOMES[name]
    parent, _, child = name.rpartition(".")
    base = "skate" if parent == "ray" else _candidates(parent)[0]
    return (f"{base}.{child}",)


@cache
def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a parent is not there, or is no package
        return False


def missing_module(name: str) -> str:
    """The text of the error for a module that skate does not have."""
    return f"skate has no {name!r}, which the program imports: {_reason(name)}"


def missing_name(module: str, name: str) -> str:
    """The text of the error for a name that skate does not have."""
    return f"skate has no '{module}.{name}': {_reason(f'{module}.{name}')}"


def _reason(name: str) -> str:
    today = hint(name.removeprefix("ray."))
    while name and today is None:
        today = REASONS.get(name)
        name = name.rpartition(".")[0]
    return today or _WAY_OUT
