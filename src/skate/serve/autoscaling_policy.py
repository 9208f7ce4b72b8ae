"""What policies of your own begin with: what the load asks for, and what Prometheus says."""

from __future__ import annotations

import math
from typing import Any

from skate._core.public_names import name_publicly
from skate.serve._prometheus_queries import (
    PrometheusQueryMixin,
    PrometheusSample,
    PrometheusScalar,
    PrometheusVector,
)
from skate.serve.config import AutoscalingContext

__all__ = [
    "PrometheusQueryMixin",
    "PrometheusSample",
    "PrometheusScalar",
    "PrometheusVector",
    "default_autoscaling_policy",
    "replica_queue_length_autoscaling_policy",
]


def replica_queue_length_autoscaling_policy(
    ctx: AutoscalingContext,
) -> tuple[float, dict[str, Any]]:
    """Return how many replicas would have `target_ongoing_requests` each.

    Args:
        ctx: What a policy is given.

    Returns:
        The number, which may be a fraction, and the state of the policy.
    """
    config = ctx.config
    if ctx.current_num_replicas > 0:
        return ctx.total_num_requests / config.get_target_ongoing_requests(), {}
    if ctx.total_num_requests > 0:
        first = math.ceil(config.get_upscaling_factor())
        return max(first, ctx.target_num_replicas), ctx.policy_state
    return ctx.target_num_replicas, {}


default_autoscaling_policy = replica_queue_length_autoscaling_policy

name_publicly(__name__)
