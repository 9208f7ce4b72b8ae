"""Where each `ray.x.y` lives in skate, and what to say of what does not."""

from __future__ import annotations

import importlib.util
from functools import cache

from skate._core.former_names import hint
from skate.compat import _beside, _older
from skate.compat._names_left_out import MODULES_LEFT_OUT
from skate.compat._table_of_serving import (
    HOMES_OF_SERVING,
    INSIDE_OF_SERVING,
    REASONS_OF_SERVING,
)
from skate.compat._table_of_tests import FOLDERS_OF_TESTS, HOMES_OF_TESTS, REASONS_OF_TESTS
from skate.compat._table_of_training import HOMES_OF_TRAINING, INSIDE_OF_TRAINING

UNKNOWN = ("skate.compat.parts.inside",)
_INSIDE = ("skate.compat.parts.core", *UNKNOWN)
_STATE = ("skate.util.state", "skate.compat.parts.core.state_client")
_STATE_COMMON = (
    "skate.compat.parts.core.state_common",
    "skate.compat.parts.core.state_client",
    *UNKNOWN,
)
_DATA_INSIDE = ("skate.compat.parts.data.inside", "skate.compat.parts.inside")
_JOBS = ("skate.job_submission", *UNKNOWN)
_TENSORS = ("skate.data.extensions",)

# Modules whose home has another name, or several. What is below a module here is below its first
# home, unless it has a row of its own. All else: `ray.x.y` is `skate.x.y`.
HOMES: dict[str, tuple[str, ...]] = {
    **_older.HOMES,
    "ray": ("skate.compat.parts.top", "skate", "skate.compat.parts.core.older_api"),
    "ray._common": _INSIDE,
    "ray._private": _INSIDE,
    "ray._raylet": ("skate", "skate.compat.parts.core.raylet", "skate.compat.parts.inside"),
    "ray.autoscaler": ("skate.compat.parts.inside",),
    "ray.autoscaler.sdk": ("skate.compat.parts.core.autoscaler", *UNKNOWN),
    "ray.client_builder": ("skate.client_builder", "skate"),
    "ray.cloudpickle": ("cloudpickle", "skate.compat.parts.core.pickling"),
    "ray.core": _INSIDE,
    "ray.dashboard": UNKNOWN,
    "ray.dashboard.modules": UNKNOWN,
    "ray.dashboard.modules.job": UNKNOWN,
    "ray.dashboard.modules.job.common": _JOBS,
    "ray.dashboard.modules.job.pydantic_models": _JOBS,
    "ray.dashboard.modules.job.sdk": _JOBS,
    "ray.exceptions": ("skate.exceptions", "skate.compat.parts.core.exceptions"),
    "ray.dag.py_obj_scanner": ("skate.compat.parts.core.py_obj_scanner",),
    "ray.experimental.queue": ("skate.util.queue",),
    "ray.air.util.tensor_extensions": _TENSORS,
    "ray.air.util.tensor_extensions.arrow": _TENSORS,
    "ray.air.util.tensor_extensions.pandas": _TENSORS,
    "ray.air.util.tensor_extensions.utils": _TENSORS,
    "ray.air.util.object_extensions": _TENSORS,
    "ray.air.util.object_extensions.arrow": _TENSORS,
    "ray.air.util.object_extensions.pandas": _TENSORS,
    "ray._private.arrow_utils": _DATA_INSIDE,
    **dict.fromkeys(
        ("ray._common.pydantic_compat", "ray._private.pydantic_compat"), ("pydantic", *UNKNOWN)
    ),
    **dict.fromkeys(
        (
            "ray._common.filters",
            "ray._common.formatters",
            "ray._private.ray_logging.filters",
            "ray._private.ray_logging.formatters",
        ),
        ("skate.compat.parts.core.log_lines", *UNKNOWN),
    ),
    "ray._private.profiling": ("skate.util.profiling", *UNKNOWN),
    "ray._private.worker": ("skate.compat.parts.core.worker", "skate", *UNKNOWN),
    "ray.data._internal.arrow_block": _DATA_INSIDE,
    "ray.data._internal.arrow_ops.transform_pyarrow": _DATA_INSIDE,
    "ray.data._internal.compute": ("skate.data._execution.compute",),
    "ray.data._internal.datasource.range_datasource": ("skate.compat.parts.data.sources",),
    "ray.data._internal.logical.operators": _DATA_INSIDE,
    "ray.data._internal.logical.operators.join_operator": _DATA_INSIDE,
    "ray.data._internal.planner.plan_expression.expression_evaluator": _DATA_INSIDE,
    "ray.data._internal.util": _DATA_INSIDE,
    "ray.data._internal.utils.util": _DATA_INSIDE,
    "ray.data._internal.utils.arrow_utils": _DATA_INSIDE,
    "ray.data._internal.delegating_block_builder": _DATA_INSIDE,
    "ray.data._internal.execution.interfaces": (
        "skate.data.context",
        "skate.data._api.exporting",
        *_DATA_INSIDE,
    ),
    "ray.data._internal.execution.interfaces.ref_bundle": (
        "skate.data._api.exporting",
        *_DATA_INSIDE,
    ),
    "ray.data._internal.execution.interfaces.execution_options": ("skate.data.context",),
    "ray.data._internal.savemode": ("skate.data", *_DATA_INSIDE),
    "ray.data._internal.object_extensions": _TENSORS,
    "ray.data._internal.object_extensions.arrow": _TENSORS,
    "ray.data._internal.object_extensions.pandas": _TENSORS,
    "ray.data._internal.blocks.tensor_extensions.arrow": _TENSORS,
    "ray.data._internal.blocks.tensor_extensions.pandas": _TENSORS,
    "ray.data._internal.tensor_extensions": _TENSORS,
    "ray.data._internal.tensor_extensions.arrow": (*_TENSORS, *_DATA_INSIDE),
    "ray.data._internal.tensor_extensions.pandas": _TENSORS,
    "ray.data._internal.tensor_extensions.utils": _TENSORS,
    "ray.data.checkpoint.interfaces": ("skate.data.checkpoint",),
    "ray.data.constants": ("skate.air.constants",),
    "ray.data.context": ("skate.data.context", "skate.compat.parts.data.context"),
    "ray.data.datasource.datasink": ("skate.data.datasource",),
    "ray.data.datasource.datasource": ("skate.data.datasource",),
    "ray.data.datasource.file_based_datasource": ("skate.data.datasource", *_DATA_INSIDE),
    "ray.data.datasource.file_datasink": ("skate.data.datasource",),
    "ray.data.datasource.filename_provider": ("skate.data.datasource",),
    "ray.data.datasource.partitioning": ("skate.data.datasource",),
    "ray.data.datasource.path_util": _DATA_INSIDE,
    "ray.data.exceptions": ("skate.data.exceptions", "skate.compat.parts.data.exceptions"),
    "ray.data.expressions": ("skate.data.expressions", "skate.compat.parts.data.expressions"),
    "ray.data.extensions.object_extension": _TENSORS,
    "ray.data.extensions.tensor_extension": _TENSORS,
    "ray.data.read_api": ("skate.data",),
    "ray.data.util": ("skate.air.util",),
    "ray.data.util.torch_utils": ("skate.compat.parts.data.torch_utils", *UNKNOWN),
    "ray.experimental.internal_kv": ("skate.compat.parts.core.internal_kv",),
    "ray.util.collective.collective_group.base_collective_group": (
        "skate.util.collective.backend_registry",
    ),
    "ray.includes": ("skate", "skate.compat.parts.inside"),
    "ray.internal": ("skate.compat.parts.core.internal",),
    "ray.job_config": ("skate.job_config", "skate.logging_config"),
    "ray.ray_constants": ("skate.compat.parts.core.ray_constants",),
    **dict.fromkeys(("ray.services", "ray._private.services"), ("skate.util._surroundings",)),
    **dict.fromkeys(
        ("ray.scripts.scripts", "ray.util.state.state_cli", "ray.experimental.state.state_cli"),
        ("skate.compat.parts.core.commands", *UNKNOWN),
    ),
    "ray.scripts": UNKNOWN,
    "ray.state": ("skate.compat.parts.core.state",),
    "ray.types": ("skate",),
    "ray.util.accelerators": ("skate.compat.parts.core.accelerators",),
    "ray.util.client": ("skate.compat.parts.core.client",),
    "ray.util.annotations": ("skate.compat.parts.core.annotations",),
    "ray.util.state": _STATE,
    "ray.util.state.api": _STATE,
    "ray.util.state.common": _STATE_COMMON,
    "ray.util.multiprocessing": (
        "skate.compat.parts.core.multiprocessing",
        "skate.util.multiprocessing",
    ),
    "ray.util.multiprocessing.pool": (
        "skate.compat.parts.core.multiprocessing",
        "skate.util.multiprocessing.pool",
    ),
    "ray.util.state.exception": ("skate.compat.parts.core.state_exception",),
    "ray.util.helpers": ("skate.util._completion",),
    "ray.util.accelerators.accelerators": ("skate.compat.parts.core.accelerators",),
    "ray.experimental.state": _STATE,
    "ray.experimental.state.api": _STATE,
    "ray.experimental.state.common": _STATE_COMMON,
    "ray.experimental.state.exception": ("skate.compat.parts.core.state_exception",),
    "ray.runtime_env.runtime_env": ("skate.runtime_env",),
    "ray.worker": ("skate.compat.parts.core.worker", "skate"),
    **HOMES_OF_SERVING,
    **FOLDERS_OF_TESTS,
    **HOMES_OF_TESTS,
    **HOMES_OF_TRAINING,
}

# Whatever is below these can be imported, see `parts.inside`.
_BELOW_UNKNOWN = (
    "ray._common.",
    "ray._private.",
    *INSIDE_OF_SERVING,
    *INSIDE_OF_TRAINING,
    "ray.autoscaler._private",
    "ray.core.",
    "ray.data._internal",
    "ray.data.datasource.",
    "ray.data.tests.",
    "ray.data.util.",
    "ray.ml.utils.",
    "ray.tune.callback",
    "ray.tune.cli",
    "ray.tune.execution.",
    "ray.tune.registry",
    "ray.tune.search.util",
    "ray.tune.syncer",
    "ray.tune.trainable.util",
    "ray.tune.utils.",
    "ray.tune.web_server",
    "ray.util.collective.collective_group",
    "ray.util.collective.const",
    *MODULES_LEFT_OUT,
)

_CLUSTER = "it is a part of Ray's cluster: run the program on Ray itself, or `import skate` with "
_CLUSTER += "the ray engine"
_DEBUGGER = "with engine='inline' (or local_mode=True) any debugger and breakpoint() work"
REASONS: dict[str, str] = {
    "ray.autoscaler": _CLUSTER,
    "ray.cross_language": "skate runs Python only; use the ray engine for Java and C++",
    "ray.dashboard": _CLUSTER,
    "ray.llm": "it is not offered; use the ray engine",
    **REASONS_OF_SERVING,
    **REASONS_OF_TESTS,
    "ray.rllib": "reinforcement learning is not offered; use the ray engine",
    "ray.util.client": _CLUSTER,
    "ray.util.debugpy": _DEBUGGER,
    "ray.util.pdb": _DEBUGGER,
    "ray.util.rpdb": _DEBUGGER,
    "ray.util.spark": _CLUSTER,
}

_WAY_OUT = "if the program needs it, run it on Ray itself, or `import skate` with the ray engine"


def homes_of(name: str) -> tuple[str, ...] | None:
    """Return the modules that `ray.x.y` stands for, or None if skate has nothing for it."""
    found = tuple(filter(_exists, _candidates(name)))
    if name in HOMES_OF_TESTS and HOMES_OF_TESTS[name][0] not in found:
        return None  # the helpers are not there: better an error than names without a meaning
    if name.startswith(_BELOW_UNKNOWN) and UNKNOWN[0] not in found:
        found += UNKNOWN
    if not found and _beside.is_folder(name):
        return ("skate.compat.parts.tests",)
    return found or None


def has_home(name: str, expected: str | None = None) -> bool:
    """Return whether there is an alias `name`; with `expected`, whether it stands for that module,
    or has a row of its own."""
    homes = tuple(filter(_exists, _candidates(name)))
    return bool(homes) and (expected is None or expected in homes or name in HOMES)


def _candidates(name: str) -> tuple[str, ...]:
    if name in HOMES:
        return HOMES[name]
    parent, _, child = name.rpartition(".")
    base = "skate" if parent == "ray" else _package_of(_candidates(parent))
    return (f"{base}.{child}",)


def _package_of(homes: tuple[str, ...]) -> str:
    """Return where modules below these homes are: parts of `compat` only add names to a
    library."""
    return next((home for home in homes if not home.startswith("skate.compat.")), homes[0])


@cache
def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # a parent is not there, or is no package
        return False


def missing_module(name: str) -> str:
    """Return the text of the error for a module that skate does not have."""
    return f"skate has no {name!r}, which the program imports: {_reason(name)}"


def missing_name(module: str, name: str) -> str:
    """Return the text of the error for a name that skate does not have."""
    return f"skate has no '{module}.{name}': {_reason(f'{module}.{name}')}"


def reason_of(name: str) -> str:
    """Return what is told of a name instead of that it is the inside of Ray; "" if nothing is."""
    known = _known_reason(name)
    # What is no helper of tests here is not there with the repository either.
    if known is None or known in REASONS_OF_TESTS.values():
        return ""
    return f"skate has no {name!r}: {known}"


def _reason(name: str) -> str:
    return _known_reason(name) or _WAY_OUT


def _known_reason(name: str) -> str | None:
    today = hint(name.removeprefix("ray."))
    while name and today is None:
        today = REASONS.get(name)
        name = name.rpartition(".")[0]
    return today
