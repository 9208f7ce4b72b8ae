"""How many replicas a deployment has: between which numbers, by which load or decision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, NamedTuple

from skate._core.argument_checks import Check, optional, wrong_value
from skate.serve._identity import DeploymentID, ReplicaID
from skate.serve._settings import (
    CheckedSettings,
    non_negative,
    non_negative_integer,
    positive,
    positive_integer,
    setting_error,
)


class AggregationFunction(str, Enum):
    """How the numbers of requests in the look-back window become one."""

    MEAN = "mean"
    MAX = "max"
    MIN = "min"


class TimeStampedValue(NamedTuple):
    """A number that was measured, and when, in seconds of a clock that only goes forward."""

    timestamp: float
    value: float


@dataclass
class AutoscalingContext:
    """What a policy knows when it decides how many replicas there should be.

    Args:
        deployment_id: The deployment, with its application.
        deployment_name: The name of the deployment.
        app_name: The name of the application.
        current_num_replicas: How many replicas answer.
        target_num_replicas: How many are aimed at until now.
        running_replicas: The ids of those that answer.
        total_num_requests: Requests that are answered or wait, of late.
        total_queued_requests: Those of them that wait.
        total_running_requests: Those of them that are answered.
        capacity_adjusted_min_replicas: `min_replicas`.
        capacity_adjusted_max_replicas: `max_replicas`.
        policy_state: What the policy returned as its state the last time; `{}` at first.
        last_scale_up_time: When replicas were last added, by `current_time`'s clock.
        last_scale_down_time: When replicas were last taken away.
        current_time: Seconds of a clock that only goes forward.
        config: The deployment's `AutoscalingConfig`.
        aggregated_metrics: What the deployment's `record_autoscaling_stats` returned: by name and
            replica, taken together over the look-back window.
        raw_metrics: The same, each as a list of `TimeStampedValue`.
    """

    deployment_id: DeploymentID
    deployment_name: str
    app_name: str
    current_num_replicas: int
    target_num_replicas: int
    running_replicas: list[ReplicaID]
    total_num_requests: float
    total_queued_requests: float | None
    total_running_requests: float | None
    capacity_adjusted_min_replicas: int
    capacity_adjusted_max_replicas: int
    policy_state: dict[str, Any]
    last_scale_up_time: float | None
    last_scale_down_time: float | None
    current_time: float
    config: AutoscalingConfig
    aggregated_metrics: dict[str, dict[ReplicaID, float]] = field(default_factory=dict)
    raw_metrics: dict[str, dict[ReplicaID, list[TimeStampedValue]]] = field(default_factory=dict)


_USUAL_POLICY = (
    "skate.serve.autoscaling_policy:default_autoscaling_policy",
    "ray.serve.autoscaling_policy:default_autoscaling_policy",
)


@dataclass
class AutoscalingPolicy(CheckedSettings):
    """A function or class of your own that decides on the number of replicas.

    Args:
        policy_function: Takes an `AutoscalingContext` and returns the number, or the number and
            a dictionary to be given again; itself or as "module:name". Of a class, one instance
            is made, and called. None: the load decides.
        policy_kwargs: More arguments of the function, or those of the class, by name.
    """

    policy_function: str | Callable[..., Any] | None = None
    policy_kwargs: dict[str, Any] = field(default_factory=dict)

    _older_names: ClassVar[dict[str, str]] = {"name": "policy_function"}  # in earlier Rays

    def is_default_policy_function(self) -> bool:
        """Return whether the load alone decides."""
        from skate.serve.autoscaling_policy import default_autoscaling_policy

        return self.policy_function in (None, default_autoscaling_policy, *_USUAL_POLICY)

    def get_policy(self) -> Callable[..., Any]:
        """Return the function, imported if it was given as "module:name"."""
        if self.is_default_policy_function():
            from skate.serve.autoscaling_policy import default_autoscaling_policy

            return default_autoscaling_policy
        if callable(self.policy_function):
            return self.policy_function
        from skate.serve._application.import_paths import import_attribute

        policy: Callable[..., Any] = import_attribute(str(self.policy_function))
        return policy


def _policy(name: str, value: object) -> AutoscalingPolicy:
    if callable(value) or isinstance(value, str):
        return AutoscalingPolicy(value)
    return AutoscalingPolicy.of(name, value)


def _aggregation(name: str, value: object) -> AggregationFunction:
    try:
        return AggregationFunction(getattr(value, "value", str(value).lower()))
    except ValueError:
        names = ", ".join(repr(function.value) for function in AggregationFunction)
        raise wrong_value(name, value, f"one of {names}") from None


@dataclass
class AutoscalingConfig(CheckedSettings):
    """Between how many replicas a deployment scales, by which load, and how fast.

    Args:
        min_replicas: The fewest; 0 lets a deployment without requests have none.
        initial_replicas: How many it starts with; None: `min_replicas`.
        max_replicas: The most.
        target_ongoing_requests: How many requests a replica is meant to have at a time.
        metrics_interval_s: Seconds between reports of the load.
        look_back_period_s: Over how many seconds the load is looked at.
        smoothing_factor: How fast the number changes, both ways; below 1 more slowly.
        upscale_smoothing_factor: An older name of `upscaling_factor`.
        downscale_smoothing_factor: An older name of `downscaling_factor`.
        upscaling_factor: How fast replicas are added; None: `smoothing_factor`.
        downscaling_factor: How fast they are taken away; None: `smoothing_factor`.
        downscale_delay_s: For how many seconds fewer must be enough.
        downscale_to_zero_delay_s: The same for the last one; None: `downscale_delay_s`.
        upscale_delay_s: For how many seconds more must be needed.
        aggregation_function: How the loads of the period become one: "mean", "max" or "min".
        policy: A function of your own, itself, as "module:name" or an `AutoscalingPolicy`.
        target_num_ongoing_requests_per_replica: The name of `target_ongoing_requests` until Ray
            2.32.

    Raises:
        TypeError: If a value has the wrong type.
        ValueError: If a value is not allowed, or does not go with another.
    """

    min_replicas: int = 1
    initial_replicas: int | None = None
    max_replicas: int = 1
    target_ongoing_requests: float = 2
    metrics_interval_s: float = 10.0
    look_back_period_s: float = 30.0
    smoothing_factor: float = 1.0
    upscale_smoothing_factor: float | None = None
    downscale_smoothing_factor: float | None = None
    upscaling_factor: float | None = None
    downscaling_factor: float | None = None
    downscale_delay_s: float = 600.0
    downscale_to_zero_delay_s: float | None = None
    upscale_delay_s: float = 30.0
    aggregation_function: AggregationFunction | str = AggregationFunction.MEAN
    policy: AutoscalingPolicy = field(default_factory=AutoscalingPolicy)
    target_num_ongoing_requests_per_replica: float | None = None  # its name until Ray 2.32

    _checks: ClassVar[dict[str, Check]] = {
        "min_replicas": non_negative_integer,
        "initial_replicas": optional(non_negative_integer),
        "max_replicas": positive_integer,
        "target_ongoing_requests": positive,
        "metrics_interval_s": positive,
        "look_back_period_s": positive,
        "smoothing_factor": positive,
        "upscale_smoothing_factor": optional(positive),
        "downscale_smoothing_factor": optional(positive),
        "upscaling_factor": optional(positive),
        "downscaling_factor": optional(positive),
        "downscale_delay_s": non_negative,
        "downscale_to_zero_delay_s": optional(non_negative),
        "upscale_delay_s": non_negative,
        "aggregation_function": _aggregation,
        "policy": _policy,
        "target_num_ongoing_requests_per_replica": optional(positive),
    }
    _older_names: ClassVar[dict[str, str]] = {"_policy": "policy"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target_num_ongoing_requests_per_replica is not None:
            self.target_ongoing_requests = self.target_num_ongoing_requests_per_replica
            self.target_num_ongoing_requests_per_replica = None
        low, high = self.min_replicas, self.max_replicas
        if high < low:
            error = wrong_value("max_replicas", high, f"at least min_replicas ({low})")
            raise setting_error(error, "max_replicas", high)
        first = self.initial_replicas
        if first is not None and not low <= first <= high:
            error = wrong_value("initial_replicas", first, f"what is between {low} and {high}")
            raise setting_error(error, "initial_replicas", first)

    @classmethod
    def default(cls) -> AutoscalingConfig:
        """Return what `num_replicas="auto"` means."""
        return cls(target_ongoing_requests=2, min_replicas=1, max_replicas=100)

    def get_upscaling_factor(self) -> float:
        """Return how fast replicas are added."""
        return self.upscaling_factor or self.upscale_smoothing_factor or self.smoothing_factor

    def get_downscaling_factor(self) -> float:
        """Return how fast replicas are taken away."""
        return self.downscaling_factor or self.downscale_smoothing_factor or self.smoothing_factor

    def get_target_ongoing_requests(self) -> float:
        """Return how many requests a replica is meant to have."""
        return self.target_ongoing_requests
