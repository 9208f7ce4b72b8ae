"""Where each `ray.x.y` lives in skate, and what to say of what does not."""

from __future__ import annotations

import importlib.util
from functools import cache

from skate._former import hint

_INSIDE = ("skate.compat.parts", "skate.compat.parts.inside")
_STATE = ("skate.util.state", "skate.compat.parts.state_api")

# Modules whose home has another name, or several. What is below a module here is below its first
# home, unless it has a row of its own. All else: `ray.x.y` is `skate.x.y`.
HOMES: dict[str, tuple[str, ...]] = {
    "ray": ("skate.compat.parts.top", "skate"),
    "ray._common": _INSIDE,
    "ray._private": _INSIDE,
    "ray._raylet": ("skate", "skate.compat.parts.inside"),
    "ray.autoscaler": ("skate.compat.parts.inside",),
    "ray.client_builder": ("skate",),
    "ray.cloudpickle": ("cloudpickle",),
    "ray.core": _INSIDE,
    "ray.cluster_utils": ("skate.compat.parts.cluster_utils",),
    "ray.exceptions": ("skate.exceptions", "skate.compat.parts.exceptions"),
    "ray.experimental.queue": ("skate.util.queue",),
    "ray.data.datasource.datasink": ("skate.data.datasource",),
    "ray.data.datasource.datasource": ("skate.data.datasource",),
    "ray.data.datasource.file_based_datasource": ("skate.data.datasource",),
    "ray.data.datasource.file_datasink": ("skate.data.datasource",),
    "ray.data.datasource.filename_provider": ("skate.data.datasource",),
    "ray.data.datasource.partitioning": ("skate.data.datasource",),
    "ray.data.util": ("skate.air.util",),
    "ray.experimental.internal_kv": ("skate.compat.parts.internal_kv",),
    "ray.experimental.tqdm_ray": ("skate.compat.parts.tqdm_ray",),
    "ray.includes": ("skate", "skate.compat.parts.inside"),
    "ray.internal": ("skate.compat.parts.internal",),
    "ray.services": ("skate.compat.parts.services",),
    "ray.state": ("skate.compat.parts.state",),
    "ray.test_utils": ("skate.compat.parts.test_utils",),
    "ray.tests": ("skate.compat.parts.tests",),
    "ray.types": ("skate",),
    "ray.util.accelerators": ("skate.compat.parts.accelerators",),
    "ray.util.client": ("skate.compat.parts.client",),
    "ray.util.annotations": ("skate.compat.parts.annotations",),
    "ray.util.state": _STATE,
    "ray.util.state.api": _STATE,
    "ray.experimental.state": _STATE,
    "ray.experimental.state.api": _STATE,
    "ray.train._internal": ("skate.train",),
    "ray.train.sklearn": ("skate.train.sklearn", "skate.predict.sklearn"),
    "ray.train.torch": ("skate.train.torch", "skate.predict.torch"),
    "ray.train._checkpoint": ("skate.train",),
    "ray.train.checkpoint": ("skate.train",),
    "ray.train.tests": ("skate.compat.parts.train_tests",),
    "ray.train.tests.util": ("skate.compat.parts.train_tests",),
    "ray.train.v2": ("skate.train",),
    "ray.train.v2.api": ("skate.train",),
    "ray.train.v2.api.callback": ("skate.train",),
    "ray.train.v2.api.config": ("skate.train",),
    "ray.train.v2.api.context": ("skate.train",),
    "ray.train.v2.api.exceptions": ("skate.train",),
    "ray.train.v2.api.report_config": ("skate.train",),
    "ray.train.v2.api.reported_checkpoint": ("skate.train",),
    "ray.train.v2.api.result": ("skate.train",),
    "ray.train.v2.api.train_fn_utils": ("skate.train",),
    "ray.worker": ("skate.compat.parts.worker", "skate"),
    "ray.tune.integration.mlflow": ("skate.air.integrations.mlflow",),
    "ray.tune.integration.wandb": ("skate.air.integrations.wandb",),
    "ray.tune.execution.trial_runner": ("skate.compat.parts.tune_runner",),
    "ray.tune.execution.tune_controller": ("skate.tune.execution.controller",),
    "ray.tune.experiment.trial": (
        "skate.tune.experiment.trial",
        "skate.tune.experiment.export_format",
    ),
    "ray.tune.function_runner": ("skate.tune.trainable.function_trainable",),
    "ray.tune.logger.aim": ("skate._run.loggers.aim",),
    "ray.tune.logger.comet": ("skate._run.loggers.comet",),
    "ray.tune.logger.csv": ("skate.tune.logger",),
    "ray.tune.logger.json": ("skate.tune.logger",),
    "ray.tune.logger.logger": ("skate.tune.logger",),
    "ray.tune.logger.mlflow": ("skate._run.loggers.mlflow",),
    "ray.tune.logger.tensorboardx": ("skate.tune.logger",),
    "ray.tune.logger.wandb": ("skate._run.loggers.wandb",),
    "ray.tune.result": ("skate.tune.result", "skate.compat.parts.tune_result"),
    "ray.tune.session": ("skate.tune",),
    "ray.tune.sample": ("skate.tune.search.sample", "skate.compat.parts.tune_sample"),
    "ray.tune.schedulers.pbt": ("skate.tune.schedulers.pbt", "skate.tune.schedulers.pbt_replay"),
    "ray.tune.search.sample": ("skate.tune.search.sample", "skate.compat.parts.tune_sample"),
    "ray.tune.search.searcher": (
        "skate.tune.search.searcher",
        "skate.tune.search.concurrency_limiter",
    ),
    "ray.tune.suggest.repeater": ("skate.tune.search.repeater",),
    "ray.tune.suggest.search": ("skate.tune.search.search_algorithm",),
    "ray.tune.suggest.search_generator": ("skate.tune.search.search_generator",),
    "ray.tune.suggest.suggestion": (
        "skate.tune.search.searcher",
        "skate.tune.search.concurrency_limiter",
    ),
    "ray.tune.suggest.variant_generator": ("skate.tune.search.variant_generator",),
    "ray.tune.syncer": ("skate._run.config",),
    "ray.tune.trainable.trainable_fn_utils": ("skate.tune",),
    "ray.tune.trial": ("skate.tune.experiment.trial", "skate.tune.experiment.export_format"),
    "ray.tune.trial_runner": ("skate.compat.parts.tune_runner",),
    "ray.tune.utils.mock": ("skate.compat.parts.tune_mock",),
    "ray.tune.utils.mock_trainable": ("skate.compat.parts.tune_mock",),
    "ray.tune.utils.placement_groups": ("skate.tune.execution.placement_groups",),
    "ray.tune.utils.util": ("skate.tune.utils.util", "skate.tune.utils"),
}

# Whatever is below these can be imported, see `parts.inside`.
_UNKNOWN = ("ray._common.", "ray._private.", "ray.autoscaler._private", "ray.core.")

_CLUSTER = "it is a part of Ray's cluster: run the program on Ray itself, or `import skate` with "
_CLUSTER += "the ray engine"
_DEBUGGER = "with engine='inline' (or local_mode=True) any debugger and breakpoint() work"
REASONS: dict[str, str] = {
    "ray.autoscaler": _CLUSTER,
    "ray.cross_language": "skate runs Python only; use the ray engine for Java and C++",
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
    found = tuple(filter(_exists, _candidates(name)))
    if name.startswith(_UNKNOWN) and _INSIDE[1] not in found:
        found += _INSIDE[1:]
    return found or None


def has_home(name: str, expected: str | None = None) -> bool:
    """Whether there is an alias `name`; with `expected`, whether it stands for that module."""
    homes = tuple(filter(_exists, _candidates(name)))
    return bool(homes) and (expected is None or expected in homes)


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
