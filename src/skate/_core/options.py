"""The options of tasks, actors and actor calls: one table, three frozen results.

Each row says for whom an option exists, what values it takes, and in which field of the engine's
options it ends up. All eras of Ray's spelling are understood.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from skate._core.accelerators import NUMBERED
from skate._core.argument_checks import (
    Check,
    instances,
    one_of,
    optional,
    whole_numbers,
    wrong_type,
    wrong_value,
)
from skate._core.errors import without_own_frames
from skate._core.labels import check_fallbacks, check_selector
from skate._core.nearest import nearest_names
from skate.engine.specs import ActorOptions, CallOptions, TaskOptions

TASK, ACTOR, CALL = "remote functions", "actor classes", "actor methods"
MOST_RETURNS = 65_535  # values of one task: their ids differ in 16 bits
_SMALLEST = 0.0001  # Ray's unit of a fractional resource
_LARGEST = 1 << 53  # up to here all whole numbers have a float
_MOST_GPUS = 65_536  # each of a machine has a number of its own

Given = dict[str, Any]


class Option(NamedTuple):
    """One row of the table. `field` is empty for what needs no action on one machine."""

    kinds: tuple[str, ...]
    check: Check
    field: str = ""


# -- checks: return the value in its final form, or raise ---------------------------------------


def _count(lowest: int, meaning: str) -> Check:
    return optional(whole_numbers(lowest, meaning))


def _bundle_index(name: str, value: Any) -> int | None:
    meaning = "the number of a bundle, or -1 for any"
    if isinstance(value, int) and value < -1:
        raise ValueError(f"{name} takes {meaning}; bundle index {value} is invalid")
    index: int | None = _count(-1, meaning)(name, value)
    return index


def _instance(kinds: type | tuple[type, ...], allowed: str) -> Check:
    return optional(instances(kinds, allowed))


def quantity(name: str, value: Any) -> float | None:
    """Return a checked amount of a resource; None for none."""
    allowed = f"a number that is 0, or at least {_SMALLEST} and at most 2**53"
    if value is None:
        return None
    if isinstance(value, (bool, str)):
        raise wrong_type(name, value, allowed)
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise wrong_type(name, value, allowed) from None
    except OverflowError:
        raise wrong_value(name, value, allowed) from None
    if number < 0:
        raise ValueError(
            f"the quantity of resource {name} cannot be negative: it takes {allowed}; "
            f"got {value!r}"
        )
    if not number <= _LARGEST or 0 < number < _SMALLEST:
        raise wrong_value(name, value, allowed)
    return number


def _gpus(name: str, value: object) -> float | None:
    number = quantity(name, value)
    if number is not None and number > 1 and not number.is_integer():
        raise wrong_value(name, value, "a fraction below 1 or a whole number")
    return number


def quantity_of_machine(name: str, value: object) -> float | None:
    """Return a checked amount of what there is, as `init` is told; `name` is for errors."""
    number = quantity(name, value)
    if number is not None and not number.is_integer():
        raise wrong_value(name, value, "a whole number (only tasks and actors take fractions)")
    return number


def gpus_of_machine(name: str, value: object) -> float | None:
    """Return a checked number of GPUs that there are, as `quantity_of_machine` does."""
    number = quantity_of_machine(name, value)
    if number is not None and number > _MOST_GPUS:
        raise wrong_value(name, value, f"a number from 0 to {_MOST_GPUS:,}")
    return number


def whole_bytes(name: str, value: object) -> int | None:
    """Return a checked number of bytes, rounded down; None for none."""
    number = quantity(name, value)
    return None if number is None else int(number)


# Resources that are no custom ones, and the options that they are given by.
RESERVED = {
    "CPU": "num_cpus",
    "GPU": "num_gpus",
    "memory": "memory",
    "object_store_memory": "object_store_memory",
}


class _ReservedNameError(ValueError, AssertionError):
    """A custom resource has the name of another one: `init` of Ray raises the second kind."""


def custom_resources(name: str, value: object) -> Mapping[str, float] | None:
    """Return checked amounts of resources that have no option of their own."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise wrong_type(name, value, "a dictionary of names and quantities")
    for reserved, option in RESERVED.items():
        if reserved in value:
            raise _ReservedNameError(
                f"`{reserved}` cannot be a custom resource because it is one of the default "
                f"resources; say {option}= instead of {name}={dict(value)!r}"
            )
    return {key: _amount(f"{name}[{key!r}]", key, value[key]) for key in value}


def resources_of_machine(name: str, value: object) -> Mapping[str, float] | None:
    """Return checked amounts of custom resources that there are, as `init` is told."""
    amounts = custom_resources(name, value)
    for key, amount in (amounts or {}).items():
        quantity_of_machine(f"{name}[{key!r}]", amount)
    return amounts


def _amount(name: str, resource: str, value: object) -> float:
    check = _gpus if resource in NUMBERED else quantity
    return check(name, value) or 0.0


def _num_returns(name: str, value: Any) -> int | str | None:
    allowed = f'a number from 0 to {MOST_RETURNS:,}, "streaming" or "dynamic"'
    if value is None:
        return None
    if value in ("streaming", "dynamic"):
        return str(value)
    if isinstance(value, str):
        raise wrong_value(name, value, allowed)
    number: int = _count(0, allowed)(name, value)
    if number > MOST_RETURNS:
        raise wrong_value(name, value, f"{allowed}, which is for any number of values")
    return number


def _retry_exceptions(name: str, value: object) -> bool | tuple[type[BaseException], ...]:
    allowed = "True, False or a list of exception classes"
    if value is None or isinstance(value, bool):
        return bool(value)
    if not isinstance(value, (list, tuple)):
        raise wrong_type(name, value, allowed)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in value):
        raise wrong_value(name, value, allowed)
    return tuple(value)


def _only_on_a_cluster(*harmless: object) -> Check:
    def check(name: str, value: object) -> None:
        if value not in harmless:
            raise ValueError(
                f"{name}={value!r} chooses among the machines and transports of a cluster; "
                f"on one machine leave it out"
            )

    return check


def _lifetime(name: str, value: object) -> bool:
    return bool(one_of(None, "detached", "non_detached")(name, value) == "detached")


def _concurrency_groups(name: str, value: object) -> Mapping[str, int]:
    allowed = 'a dictionary such as {"io": 2}'
    if value is None:
        return {}
    if isinstance(value, list):
        try:
            value = {group["name"]: group["max_concurrency"] for group in value}
        except (TypeError, KeyError):
            each = 'or a list of {"name": "io", "max_concurrency": 2}'
            raise wrong_type(name, value, f"{allowed}, {each}") from None
    if not isinstance(value, Mapping):
        raise wrong_type(name, value, allowed)
    positive = _count(1, "a number of at least 1")
    return {group: positive(f"{name}[{group!r}]", size) for group, size in value.items()}


def _backpressure(name: str, value: object) -> int | None:
    number: int | None = _count(-1, "a number of at least 1, or -1 for no limit")(name, value)
    if number == 0:
        raise wrong_value(name, value, "a number of at least 1, or -1 for no limit")
    return None if number == -1 else number


def runtime_env(name: str, value: object) -> Mapping[str, Any] | None:
    """Return a runtime environment whose fields are checked."""
    if value is None:
        return None
    from skate.runtime_env import RuntimeEnv

    if not isinstance(value, Mapping):
        raise wrong_type(name, value, "a dictionary or a RuntimeEnv")
    return value if isinstance(value, RuntimeEnv) else RuntimeEnv(**value)


def _strategy(name: str, value: object) -> Any:
    known = ("placement_group", "node_id", "hard")
    if value is None or value in ("DEFAULT", "SPREAD"):
        return value
    if isinstance(value, str) or not any(hasattr(value, attribute) for attribute in known):
        wrong = ValueError if isinstance(value, str) else TypeError
        raise wrong(
            f'Invalid {name} value {value!r}: it takes "DEFAULT", "SPREAD" or an object of '
            "util.scheduling_strategies"
        )
    return value


def _group(name: str, value: object) -> Any:
    """Return the group; None for the one around it, as "default" says, and False for none."""
    if value is None:
        return False
    if value == "default" or hasattr(value, "_ref") or hasattr(value, "bundle_specs"):
        return None if isinstance(value, str) else value
    raise wrong_type(name, value, 'a PlacementGroup, None or "default"')


_text = _instance(str, "a string")


def namespace(name: str, value: Any) -> str | None:
    """Return a namespace that was checked: a string that is not empty, or None."""
    checked: str | None = _text(name, value)
    if checked == "":
        raise wrong_value(name, value, "a string that is not empty")
    return checked


# How Ray may carry tensors from actor to actor. On one machine all of them go through shared
# memory, which is what these are to be faster than.
# Programs may add to it: `skate.experimental.register_tensor_transport`.
TENSOR_TRANSPORTS = ["object_store", "gloo", "nccl", "nixl", "cuda_ipc"]


def tensor_transport(name: str, value: Any) -> str | None:
    """Return a transport that was checked, in lower case; None and "" are the one by default."""
    if not _text(name, value):
        return None
    if value.lower() not in TENSOR_TRANSPORTS:
        raise wrong_value(name, value, f"one of {', '.join(TENSOR_TRANSPORTS)}")
    return str(value.lower())


# -- the table ----------------------------------------------------------------------------------

_ALL, _MADE, _RUN = (TASK, ACTOR, CALL), (TASK, ACTOR), (TASK, CALL)
_truth = instances(bool, "True or False")
_flag = optional(_truth)
_mapping = _instance(Mapping, "a dictionary")
_or_forever = _count(-1, "a number of at least 0, or -1 for ever")

OPTIONS: dict[str, Option] = {
    "num_returns": Option(_RUN, _num_returns, "num_returns"),
    "num_cpus": Option(_MADE, quantity, "num_cpus"),
    "num_gpus": Option(_MADE, _gpus, "num_gpus"),
    "memory": Option(_MADE, whole_bytes, "memory"),
    "resources": Option(_MADE, custom_resources, "resources"),
    "accelerator_type": Option(
        _MADE, _instance(str, "the name of an accelerator"), "accelerator_type"
    ),
    "name": Option(_ALL, _text, "name"),
    "runtime_env": Option(_MADE, runtime_env, "runtime_env"),
    "scheduling_strategy": Option(_MADE, _strategy, "scheduling_strategy"),
    "placement_group": Option(_MADE, _group, "placement_group"),
    "placement_group_bundle_index": Option(_MADE, _bundle_index, "bundle_index"),
    "placement_group_capture_child_tasks": Option(_MADE, _flag, "capture_child_tasks"),
    "max_retries": Option((TASK,), _or_forever, "max_retries"),
    "retry_exceptions": Option(_RUN, _retry_exceptions, "retry_exceptions"),
    "max_calls": Option((TASK,), _count(0, "a number of at least 0"), "max_calls"),
    "_generator_backpressure_num_objects": Option(_RUN, _backpressure, "backpressure"),
    "max_restarts": Option((ACTOR,), _or_forever, "max_restarts"),
    "max_task_retries": Option((ACTOR, CALL), _or_forever, "max_task_retries"),
    "max_pending_calls": Option(
        (ACTOR,), _count(-1, "a number of calls, or -1 for no limit"), "max_pending_calls"
    ),
    "max_concurrency": Option((ACTOR,), _count(1, "a number of at least 1"), "max_concurrency"),
    "concurrency_groups": Option((ACTOR,), _concurrency_groups, "concurrency_groups"),
    "concurrency_group": Option((CALL,), _text, "concurrency_group"),
    "namespace": Option((ACTOR,), namespace, "namespace"),
    "get_if_exists": Option((ACTOR,), _flag, "get_if_exists"),
    "lifetime": Option((ACTOR,), _lifetime, "detached"),
    "object_store_memory": Option((ACTOR,), _count(0, "a number of bytes")),
    "enable_task_events": Option(_ALL, _truth, "listed"),
    "allow_out_of_order_execution": Option((ACTOR,), _flag),
    "_metadata": Option(_ALL, _mapping),
    "_labels": Option(_MADE, _mapping),
    "label_selector": Option(_MADE, check_selector, "label_selectors"),
    "fallback_strategy": Option(_MADE, check_fallbacks, "fallbacks"),
    "enable_tensor_transport": Option((ACTOR,), _flag),
    "tensor_transport": Option((CALL,), tensor_transport),
    "_num_objects_per_yield": Option(_RUN, _only_on_a_cluster(None, 1)),
    "_actor_generator_backpressure_num_objects": Option((ACTOR,), _only_on_a_cluster(None, -1)),
}

OLD_SPELLINGS = {
    "num_return_vals": "num_returns",
    "max_reconstructions": "max_restarts",
}


# -- from keywords to options -------------------------------------------------------------------


def check_options(kind: str, given: Mapping[str, object]) -> Given:
    """Return the options under today's names, every value checked."""
    checked: Given = {}
    for spelled, value in given.items():
        name = OLD_SPELLINGS.get(spelled, spelled)
        option = OPTIONS.get(name)
        if option is None or kind not in option.kinds:
            raise _unknown(kind, spelled)
        if name in checked:
            raise ValueError(f"{spelled} is another spelling of {name}; give one of them")
        try:
            checked[name] = option.check(spelled, value)
        except Exception as error:  # perhaps from far below
            raise without_own_frames(error)  # noqa: B904  the same one
    return checked


# What `options()` cannot change: the first belongs to a function, the second to a class.
FIXED = ("max_calls", "concurrency_groups")


def names_of(*kinds: str, fixed: bool = True) -> list[str]:
    """Return the options of these kinds that users give, in the order of the table.

    Args:
        *kinds: Of what.
        fixed: Whether those are among them that `options()` cannot change.
    """
    return [
        name
        for name, option in OPTIONS.items()
        if not (name.startswith("_") or set(kinds).isdisjoint(option.kinds))
        and (fixed or name not in FIXED)
    ]


def check_names(given: Mapping[str, object]) -> None:
    """Raise for what is an option of nothing at all."""
    for spelled in given:
        if spelled not in OPTIONS and spelled not in OLD_SPELLINGS:
            raise _unknown("tasks and actors", spelled)


def _unknown(kind: str, name: str) -> ValueError:
    of_kind = [known for known, option in OPTIONS.items() if kind in option.kinds]
    allowed = sorted(of_kind or OPTIONS)
    nearest = nearest_names(name, allowed, 3)
    hint = f"Did you mean {' or '.join(nearest)}? " if nearest else ""
    others = OPTIONS[name].kinds if name in OPTIONS else ()
    where = f"It is an option of {' and '.join(others)}. " if others else ""
    public = (option for option in allowed if not option.startswith("_"))
    listed = "" if nearest else f"Allowed are: {', '.join(public)}"
    text = f"Invalid option keyword {name!r}: it is not an option of {kind}. "
    return ValueError(f"{text}{hint}{where}{listed}".strip())


def task_options(given: Given, *, generator: bool) -> TaskOptions:
    """Return what an engine needs to know; `given` comes from `check_options`."""
    fields = _fields(given)
    _set_num_returns(fields, generator)
    if fields.get("max_calls") == 0:
        fields["max_calls"] = None
    return TaskOptions(**fields)


def actor_options(given: Given) -> ActorOptions:
    """Return what an engine needs to know; `given` comes from `check_options`."""
    fields = _fields(given)
    if fields.get("get_if_exists") and not fields.get("name"):
        raise ValueError(
            "The actor name must be specified with get_if_exists=True: options(name=...)"
        )
    if fields.get("name") == "":
        raise ValueError(
            "Actor name cannot be an empty string: leave it out for an actor without a name"
        )
    return ActorOptions(**fields)


def call_options(given: Given, *, generator: bool) -> CallOptions:
    """Return what an engine needs to know; `given` comes from `check_options`."""
    fields = _fields(given)
    _set_num_returns(fields, generator)
    return CallOptions(**fields)


def _set_num_returns(fields: dict[str, Any], generator: bool) -> None:
    wanted = fields.setdefault("num_returns", "streaming" if generator else 1)
    if isinstance(wanted, str) and not generator:
        raise ValueError(
            f"num_returns={wanted!r} can only be used with generators: use `yield` in the function"
        )


def _fields(given: Given) -> dict[str, Any]:
    """Return field of the engine's options -> value, for what was given."""
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if OPTIONS[name].field and value is not None:
            fields[OPTIONS[name].field] = value
    _place(fields)
    _accelerate(fields)
    _select(fields)
    return fields


def _place(fields: dict[str, Any]) -> None:
    strategy = fields.pop("scheduling_strategy", None)
    if strategy is not None and fields.get("placement_group"):
        raise ValueError("give the placement group once: in scheduling_strategy, not beside it")
    if not hasattr(strategy, "placement_group"):
        if strategy is not None:
            fields["strategy"] = strategy
        if strategy is not None or fields.get("capture_child_tasks") is False:
            fields.setdefault("placement_group", False)  # also out of the group around it
        if fields.get("bundle_index", -1) >= 0 and not fields.get("placement_group"):
            raise ValueError(
                f"placement_group_bundle_index={fields['bundle_index']}: the bundle index must be "
                "-1, or be given with the placement_group that has that bundle"
            )
        return
    group = _group("placement_group", strategy.placement_group)
    captured = getattr(strategy, "placement_group_capture_child_tasks", None)
    if group is None and captured is False:
        group = False
    fields["placement_group"], fields["capture_child_tasks"] = group, bool(captured)
    if group:
        index = getattr(strategy, "placement_group_bundle_index", -1)
        check = OPTIONS["placement_group_bundle_index"].check
        checked = check("placement_group_bundle_index", index)
        fields["bundle_index"] = -1 if checked is None else checked


def _accelerate(fields: dict[str, Any]) -> None:
    kind = fields.pop("accelerator_type", None)
    if kind is not None:
        wanted = {f"accelerator_type:{kind}": 0.001}
        fields["resources"] = {**fields.get("resources", {}), **wanted}


def _select(fields: dict[str, Any]) -> None:
    """Make one list of selectors; without the first one, any machine will do."""
    first, others = fields.pop("label_selectors", None), fields.pop("fallbacks", ())
    if first:
        fields["label_selectors"] = (first, *others)


def given_from(options: CallOptions) -> Given:
    """Return the keywords that lead to these options."""
    field_names = {row.field: name for name, row in OPTIONS.items() if CALL in row.kinds}
    return {field_names[field]: value for field, value in options._asdict().items()}
