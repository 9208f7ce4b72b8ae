"""The options of `remote`, `options` and `method`, as type checkers and editors see them.

Never imported at run time, where `skate._core.options` is the table; a test compares the two.
`num_returns` is missing, as it is a parameter of its own wherever it says what a call returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from skate.util.placement_group import PlacementGroup
    from skate.util.scheduling_strategies import (
        NodeAffinitySchedulingStrategy,
        NodeLabelSchedulingStrategy,
        PlacementGroupSchedulingStrategy,
    )


class SharedKeywords(TypedDict, total=False):
    """Options of tasks, actors and calls of actors."""

    name: str | None
    enable_task_events: bool
    _metadata: Mapping[str, Any] | None


class MadeKeywords(SharedKeywords, total=False):
    """Options of tasks and actors: what they need, and where they run."""

    num_cpus: float | None
    num_gpus: float | None
    memory: float | None
    resources: Mapping[str, float] | None
    accelerator_type: str | None
    runtime_env: Mapping[str, Any] | None
    scheduling_strategy: (
        Literal["DEFAULT", "SPREAD"]
        | PlacementGroupSchedulingStrategy
        | NodeAffinitySchedulingStrategy
        | NodeLabelSchedulingStrategy
        | None
    )
    placement_group: PlacementGroup | Literal["default"] | None
    placement_group_bundle_index: int | None
    placement_group_capture_child_tasks: bool | None
    label_selector: Mapping[str, str] | None
    fallback_strategy: Sequence[Mapping[str, Mapping[str, str]]] | None
    _labels: Mapping[str, str] | None


class RunKeywords(TypedDict, total=False):
    """Options of tasks and calls of actors: what happens while they run."""

    retry_exceptions: bool | Sequence[type[BaseException]] | None
    _generator_backpressure_num_objects: int | None
    _num_objects_per_yield: int | None


class TaskKeywords(MadeKeywords, RunKeywords, total=False):
    """Options of a task."""

    max_retries: int | None


class FunctionKeywords(TaskKeywords, total=False):
    """Options of a remote function, which its tasks cannot change one by one."""

    max_calls: int | None


class ActorKeywords(MadeKeywords, total=False):
    """Options of an actor."""

    max_restarts: int | None
    max_task_retries: int | None
    max_pending_calls: int | None
    max_concurrency: int | None
    concurrency_groups: Mapping[str, int] | Sequence[Mapping[str, Any]] | None
    namespace: str | None
    get_if_exists: bool | None
    lifetime: Literal["detached", "non_detached"] | None
    object_store_memory: int | None
    allow_out_of_order_execution: bool | None
    enable_tensor_transport: bool | None
    _actor_generator_backpressure_num_objects: int | None


class CallKeywords(SharedKeywords, RunKeywords, total=False):
    """Options of one call of an actor."""

    max_task_retries: int | None
    concurrency_group: str | None
    tensor_transport: str | None
