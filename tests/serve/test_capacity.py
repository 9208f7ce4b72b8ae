"""`target_capacity`: a part of the replicas that a config says."""

from __future__ import annotations

from typing import Any

import pytest

from skate import serve
from skate.serve._application.capacity import at_capacity
from skate.serve._application.options import DeploymentOptions
from skate.serve._application.specs import build


def options_of(percent: float | None, **options: Any) -> DeploymentOptions:
    @serve.deployment(**options)
    class Model: ...

    spec = at_capacity(build(Model.bind(), "app", None), percent)
    return spec.deployments[0].options


@pytest.mark.parametrize(
    ("percent", "replicas"),
    [(None, 6), (100, 6), (50, 3), (25, 2), (41.6, 2), (1, 1), (0, 0)],
)
def test_a_part_of_the_replicas(percent: float | None, replicas: int) -> None:
    assert options_of(percent, num_replicas=6).num_replicas == replicas


def test_a_part_of_what_is_scaled() -> None:
    limits = {"min_replicas": 0, "initial_replicas": 3, "max_replicas": 10}
    half = options_of(50, autoscaling_config=limits)
    assert half.autoscaling is not None
    scaled = (half.autoscaling.min_replicas, half.autoscaling.max_replicas)
    assert (*scaled, half.autoscaling.initial_replicas, half.num_replicas) == (0, 5, 2, 2)
    nothing = options_of(0, autoscaling_config=limits)
    assert (nothing.autoscaling, nothing.num_replicas) == (None, 0)
