"""The options of a deployment: one table, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from skate._core.argument_checks import (
    Check,
    instances,
    numbers,
    optional,
    unknown_names,
    whole_number,
    whole_numbers,
    wrong_value,
)
from skate._core.options import ACTOR, check_options
from skate.serve._gang_scheduling import check_gangs
from skate.serve._http.routes import check_prefix
from skate.serve._settings import (
    anything,
    check_setting,
    non_negative,
    positive,
    positive_integer,
)
from skate.serve.config import (
    AutoscalingConfig,
    BackpressureConfig,
    DeploymentActorConfig,
    GangSchedulingConfig,
    RequestRouterConfig,
)
from skate.util.placement_group import STRATEGIES

if TYPE_CHECKING:
    from skate.serve._routing.user_routing import RouterPlan

Options = dict[str, Any]  # by name
GivenOptions = Mapping[str, Any]

_OF_REPLICAS = (
    "num_cpus", "num_gpus", "memory", "resources", "accelerator_type", "runtime_env",
    "label_selector", "fallback_strategy",
)  # fmt: skip
_RESOURCES = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}  # by option


class _NotGiven:
    def __repr__(self) -> str:
        return "<not given>"


NOT_GIVEN: Any = _NotGiven()  # for options where None is a value


class DeploymentOptions(NamedTuple):
    """Validated options. What changes in place stands before `actor_options`, which restarts."""

    num_replicas: int = 1
    max_ongoing_requests: int = 5
    max_queued_requests: int = -1
    user_config: Any = None
    autoscaling: AutoscalingConfig | None = None
    backpressure: BackpressureConfig = BackpressureConfig()
    graceful_shutdown_wait_loop_s: float = 2.0
    graceful_shutdown_timeout_s: float = 20.0
    health_check_period_s: float = 10.0
    health_check_timeout_s: float = 30.0
    max_constructor_retry_count: int = 20
    rolling_update_percentage: float = 0.2
    max_surge_percent: int = 0
    logging: Mapping[str, Any] | None = None  # the fields of a LoggingConfig
    router: RouterPlan | None = None  # a router of the user's; None for the usual one
    routing_stats_period_s: float = 10.0
    routing_stats_timeout_s: float = 30.0
    actor_options: Mapping[str, Any] = {}
    bundles: tuple[Mapping[str, float], ...] = ()
    bundle_strategy: str = "PACK"
    gangs: GangSchedulingConfig | None = None

    @property
    def gang_size(self) -> int:
        """How many replicas start and end together."""
        return 1 if self.gangs is None else self.gangs.gang_size

    @property
    def bundles_of_replica(self) -> tuple[Mapping[str, float], ...]:
        """What one replica reserves; without bundles of its own, what its actor asks for."""
        if self.bundles:
            return self.bundles
        named = {key: self.actor_options.get(option) for option, key in _RESOURCES.items()}
        asked = {**named, **(self.actor_options.get("resources") or {})}
        bundle = {name: amount for name, amount in asked.items() if amount}
        return (bundle,) if bundle else ()

    @property
    def reserves(self) -> bool:
        """Whether a replica takes something that a second one may not find."""
        return bool(self.bundles_of_replica)


def _replicas(name: str, value: object) -> int | str | None:
    if value is None:
        return None
    if value == "auto":
        return "auto"
    checked: int = whole_numbers(1, 'a whole number of at least 1, or "auto"', whole_floats=True)(
        name, value
    )
    return checked


def _bundles(name: str, value: object) -> tuple[Mapping[str, float], ...]:
    if not isinstance(value, (list, tuple)) or not value or not all(map(_is_bundle, value)):
        allowed = "a list of dictionaries of resources, each of something"
        raise wrong_value(name, value, allowed)
    return tuple(dict(bundle) for bundle in value)


def _is_bundle(bundle: object) -> bool:
    if not isinstance(bundle, Mapping):
        return False
    amounts = list(bundle.values())
    numbers = all(isinstance(each, (int, float)) and each >= 0 for each in amounts)
    return numbers and any(amounts)


def _actor_options(name: str, value: object) -> Options:
    """Check what each replica takes now, and not when the first one starts."""
    given = dict(instances(Mapping, "a dictionary")(name, value))
    wrong = [key for key in given if key not in _OF_REPLICAS]
    if wrong:
        allowed = f"{', '.join(_OF_REPLICAS)}: the rest is decided on by the controller"
        raise wrong_value(name, {key: given[key] for key in wrong}, allowed)
    check_options(ACTOR, given)
    return given


def _per_node(name: str, value: object) -> int:
    """Check how many replicas a machine may have; there is one machine, so that all are there."""
    allowed = "a whole number from 1 to 100"
    number = whole_number(name, value, 1, allowed)
    if number > 100:
        raise wrong_value(name, value, allowed)
    return number


def _most_queued(name: str, value: object) -> int:
    allowed = "a whole number of at least 1, or -1 for no limit"
    number: int = whole_numbers(-1, allowed, whole_floats=True)(name, value)
    if number == 0:
        raise wrong_value(name, value, allowed)
    return number


def _label_selectors(name: str, value: object) -> list[Any]:
    """Check their form; they are for machines, and here there is one."""
    return list(instances((list, tuple), "a list of dictionaries, one per bundle")(name, value))


def _actors(name: str, value: object) -> tuple[DeploymentActorConfig, ...]:
    """Check the actors that replicas share."""
    given = instances((list, tuple), "a list of DeploymentActorConfig")(name, value)
    actors = tuple(DeploymentActorConfig.of(name, one) for one in given)
    names = [one.name for one in actors]
    if len(set(names)) < len(names):
        raise wrong_value(name, names, "actors with different names")
    return actors


def _logging(name: str, value: object) -> Any:
    from skate.serve.schema import LoggingConfig  # which needs pydantic

    allowed = "a LoggingConfig, or a dictionary of its fields"
    given = instances((LoggingConfig, Mapping), allowed)(name, value)
    return given if isinstance(given, LoggingConfig) else LoggingConfig(**given)


def _strategy(name: str, value: object) -> str:
    if value not in STRATEGIES:
        raise wrong_value(name, value, f"one of {', '.join(STRATEGIES)}")
    return str(value)


def _prefix(name: str, value: Any) -> str | None:
    check_prefix(value)
    prefix: str | None = value
    return prefix


_CHECKS: dict[str, Check] = {
    "num_replicas": _replicas,
    "max_ongoing_requests": positive_integer,
    "max_queued_requests": _most_queued,
    "user_config": anything,
    "autoscaling_config": optional(AutoscalingConfig.of),
    "backpressure_config": optional(BackpressureConfig.of),
    "graceful_shutdown_wait_loop_s": non_negative,
    "graceful_shutdown_timeout_s": non_negative,
    "health_check_period_s": positive,
    "health_check_timeout_s": positive,
    "max_constructor_retry_count": positive_integer,
    "rolling_update_percentage": numbers(0, "a number above 0, up to 1", above=True, highest=1),
    "max_surge_percent": whole_numbers(0, "a percentage of at least 0", whole_floats=True),
    "ray_actor_options": optional(_actor_options),
    "placement_group_bundles": optional(_bundles),
    "placement_group_strategy": optional(_strategy),
    "version": optional(instances(str, "a string")),
    "placement_group_bundle_label_selector": optional(_label_selectors),
    "max_replicas_per_node": optional(_per_node),
    "logging_config": optional(_logging),
    "request_router_config": optional(RequestRouterConfig.of),
    "gang_scheduling_config": optional(GangSchedulingConfig.of),
    "deployment_actors": optional(_actors),
    "route_prefix": _prefix,
}


def given_options(arguments: GivenOptions) -> Options:
    """Return the options among the arguments of a function, without those that were not given."""
    return {
        name: arguments[name]
        for name in _CHECKS
        if name in arguments and arguments[name] is not NOT_GIVEN
    }


def check(given: GivenOptions) -> Options:
    """Return the options that a user wrote, checked one by one."""
    for name in given:
        if name not in _CHECKS:
            raise unknown_names("a deployment", [name], ["name", *_CHECKS])
    return {name: check_setting(_CHECKS[name], name, value) for name, value in given.items()}


def resolve(checked: GivenOptions) -> DeploymentOptions:
    """Return what the options mean together."""
    own = {key: value for key, value in checked.items() if key in DeploymentOptions._fields}
    own["autoscaling"], replicas = _scaling(checked)
    own["num_replicas"] = replicas
    own["backpressure"] = checked.get("backpressure_config") or BackpressureConfig()
    logging = checked.get("logging_config")
    own["logging"] = None if logging is None else logging.model_dump()
    routing = checked.get("request_router_config") or RequestRouterConfig()
    own["routing_stats_period_s"] = routing.request_routing_stats_period_s
    own["routing_stats_timeout_s"] = routing.request_routing_stats_timeout_s
    own["actor_options"] = checked.get("ray_actor_options") or {}
    own["bundles"] = checked.get("placement_group_bundles") or ()
    own["bundle_strategy"] = checked.get("placement_group_strategy") or "PACK"
    own["gangs"] = checked.get("gang_scheduling_config")
    options = DeploymentOptions(**own)
    _check_bundles(options)
    check_gangs(checked, options.autoscaling)
    _check_together(checked)
    return options


def _check_together(checked: GivenOptions) -> None:
    bundles = checked.get("placement_group_bundles") or ()
    if checked.get("placement_group_strategy") is not None and not bundles:
        raise wrong_value(
            "placement_group_strategy",
            checked["placement_group_strategy"],
            "nothing where there are no placement_group_bundles, which must also be provided",
        )
    per_node = checked.get("max_replicas_per_node")
    if per_node is not None and bundles:
        raise ValueError(
            "Setting max_replicas_per_node is not allowed when placement_group_bundles is "
            f"provided, as the bundles say where replicas are; got {per_node}. Leave one out"
        )
    selectors = checked.get("placement_group_bundle_label_selector")
    if selectors and not bundles:
        raise ValueError(
            "Setting bundle_label_selector is not allowed when placement_group_bundles is not "
            f"provided, of which it says something; got {selectors}"
        )
    if selectors and len(selectors) not in (1, len(bundles)):
        raise ValueError(
            "placement_group_bundle_label_selector: the list must contain either a single "
            "selector (to apply to all bundles) or match the number of "
            f"`placement_group_bundles`, {len(bundles)}; got {len(selectors)}"
        )


def _check_bundles(options: DeploymentOptions) -> None:
    """Refuse a first bundle in which the replica itself does not fit."""
    if not options.bundles:
        return
    first, actor = options.bundles[0], options.actor_options
    asked = {"CPU": actor.get("num_cpus"), "GPU": actor.get("num_gpus")}
    asked.update(actor.get("resources") or {})
    for name, amount in asked.items():
        if (amount or 0) > first.get(name, 0):
            raise wrong_value(
                "placement_group_bundles",
                [dict(bundle) for bundle in options.bundles],
                "what the replica asks for as a subset of the first bundle; it asks for "
                f"{amount} {name}",
            )


def _scaling(checked: GivenOptions) -> tuple[AutoscalingConfig | None, int]:
    replicas = checked.get("num_replicas")
    autoscaling = checked.get("autoscaling_config")
    if replicas == "auto":
        autoscaling = _automatic(autoscaling)
        replicas = None
    if replicas is not None and autoscaling is not None:
        raise ValueError(
            "num_replicas is not allowed beside autoscaling_config, which decides on it; "
            f'got num_replicas={replicas}: leave one of the two out, or write num_replicas="auto"'
        )
    if autoscaling is None:
        return None, replicas or 1
    first = autoscaling.initial_replicas
    return autoscaling, autoscaling.min_replicas if first is None else first


def _automatic(given: AutoscalingConfig | None) -> AutoscalingConfig:
    """Return what `num_replicas="auto"` means, where nothing else is said."""
    default = AutoscalingConfig.default()
    if given is None:
        return default
    most = max(given.min_replicas, given.initial_replicas or 0, default.max_replicas)
    return given if given.max_replicas > 1 else given.copy(update={"max_replicas": most})
