"""skate's options under Ray's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skate.engine.ray.surroundings import for_ray
from skate.engine.specs import ActorOptions, CallOptions, TaskOptions

Given = dict[str, Any]

_MAX_RETRIES = TaskOptions().max_retries
_MOST = 2**31 - 1  # Ray's counts have 32 bits; nobody sees so many to the end


def task_options(options: TaskOptions) -> Given:
    """Return keywords of Ray's `RemoteFunction.options`; what Ray does anyway is left out."""
    given = _demands(options)
    optional = {
        "name": options.name,
        "num_returns": _num_returns(options),
        "max_retries": None
        if options.max_retries == _MAX_RETRIES
        else _count(options.max_retries),
        "retry_exceptions": _retry_exceptions(options) or None,
        "_generator_backpressure_num_objects": options.backpressure,
        "enable_task_events": None if options.listed else False,
    }
    return given | {name: value for name, value in optional.items() if value is not None}


def actor_options(options: ActorOptions) -> Given:
    """Return keywords of Ray's `ActorClass.options`."""
    given = _demands(options)
    given["max_restarts"] = _count(options.max_restarts)
    given["max_task_retries"] = _count(options.max_task_retries)
    given["max_pending_calls"] = _count(options.max_pending_calls)
    optional = {
        "max_concurrency": _optional_count(options.max_concurrency),
        "name": options.name,
        "namespace": options.namespace,
        "get_if_exists": options.get_if_exists or None,
        "lifetime": "detached" if options.detached else None,
        "enable_task_events": None if options.listed else False,
    }
    return given | {name: value for name, value in optional.items() if value is not None}


def call_options(options: CallOptions, name: str) -> Given:
    """Return keywords of Ray's `ActorMethod.options`."""
    given: Given = {"name": options.name or name}
    optional = {
        "num_returns": _num_returns(options),
        "max_task_retries": _optional_count(options.max_task_retries),
        "retry_exceptions": _retry_exceptions(options) or None,
        "concurrency_group": options.concurrency_group,
        "_generator_backpressure_num_objects": options.backpressure,
        "enable_task_events": options.listed,
    }
    return given | {name: value for name, value in optional.items() if value is not None}


def _count(value: int) -> int:
    return min(value, _MOST)


def _optional_count(value: int | None) -> int | None:
    return None if value is None else _count(value)


def _demands(options: TaskOptions | ActorOptions) -> Given:
    """Return keywords that say where it runs, and with what."""
    given = {
        "num_cpus": options.num_cpus,
        "num_gpus": options.num_gpus,
        "memory": options.memory,
        "resources": dict(options.resources) if options.resources else None,
        "runtime_env": for_ray(options.runtime_env),
        "scheduling_strategy": _strategy(options),
        **_selectors(options.label_selectors),
    }
    return {name: value for name, value in given.items() if value is not None}


def _selectors(selectors: Sequence[Mapping[str, str]]) -> Given:
    if not selectors:
        return {}
    fallbacks = [{"label_selector": dict(selector)} for selector in selectors[1:]]
    return {"label_selector": dict(selectors[0]), "fallback_strategy": fallbacks or None}


def _num_returns(options: TaskOptions | CallOptions) -> int | str | None:
    return None if options.num_returns in (1, "dynamic") else options.num_returns


def _retry_exceptions(options: TaskOptions | CallOptions) -> bool | list[type[BaseException]]:
    wanted = options.retry_exceptions
    return wanted if isinstance(wanted, bool) else list(wanted)


# -- placement -----------------------------------------------------------------------------------


def _strategy(options: TaskOptions | ActorOptions) -> object:
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group = options.placement_group
    if not group and options.strategy is not None:
        return _spread(options.strategy)
    if group is None:
        captures = options.capture_child_tasks
        return PlacementGroupSchedulingStrategy("default", -1, True) if captures else None
    if group is False or group.is_empty:
        return PlacementGroupSchedulingStrategy(placement_group=None)
    return PlacementGroupSchedulingStrategy(
        placement_group=group._ref._entry.group,
        placement_group_bundle_index=options.bundle_index,
        placement_group_capture_child_tasks=options.capture_child_tasks,
    )


def _spread(strategy: Any) -> object:
    from ray.util import scheduling_strategies as theirs

    if strategy is None or isinstance(strategy, str):
        return strategy
    if hasattr(strategy, "node_id"):
        return theirs.NodeAffinitySchedulingStrategy(
            strategy.node_id,
            strategy.soft,
            _spill_on_unavailable=strategy._spill_on_unavailable,
            _fail_on_unavailable=strategy._fail_on_unavailable,
        )
    return theirs.NodeLabelSchedulingStrategy(
        hard=_labels(strategy.hard), soft=_labels(strategy.soft)
    )


def _labels(expressions: Any) -> Mapping[str, object]:
    from ray.util import scheduling_strategies as theirs

    found = {}
    for expression in expressions:
        operator = expression.operator
        kind = getattr(theirs, type(operator).__name__)
        found[expression.key] = kind(*getattr(operator, "values", ()))
    return found
