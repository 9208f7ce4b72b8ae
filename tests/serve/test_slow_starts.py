"""What is said of replicas that take long to come up."""

from __future__ import annotations

import re
from typing import Any

import pytest

from skate.serve._application import options
from skate.serve._application.specs import ApplicationSpec, DeploymentSpec
from skate.serve._controller.applications import Applications
from skate.serve._controller.slow_starts import late_starts, reason_for_delay
from skate.serve._identity import DeploymentID


def resolved(**given: Any) -> options.DeploymentOptions:
    return options.resolve(options.check(given))


def test_who_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    apps = Applications()
    id = DeploymentID("model", "shop")
    spec = DeploymentSpec(id, b"", "1", resolved(num_replicas=2))
    apps.deploy(ApplicationSpec("shop", None, "model", (spec,)))
    state = apps.deployments[id]
    state.reconcile(100.0)
    assert not late_starts([state], 129.0)
    assert late_starts([state], 131.0) == {id: 2}
    monkeypatch.setenv("SERVE_SLOW_STARTUP_WARNING_S", "60")
    assert not late_starts([state], 131.0)
    assert apps.overview({id: "they wait"})["shop"].deployments["model"].message == "they wait"
    assert apps.overview()["shop"].deployments["model"].message == ""


@pytest.mark.parametrize(
    ("given", "available", "text"),
    [
        ({}, {}, "2 replicas have taken more than 30s to initialize."),
        ({"ray_actor_options": {"num_cpus": 1}}, {"CPU": 1.0}, "to initialize."),
        ({"ray_actor_options": {"num_cpus": 1}}, {"GPU": 1.0}, r"to be scheduled.*'CPU': 1"),
        ({"ray_actor_options": {"resources": {"disk": 2}}}, {"disk": 1}, r"to be scheduled.*disk"),
        ({"placement_group_bundles": [{"CPU": 1}] * 2}, {"CPU": 1}, r"'CPU': 2.* free: .*1"),
    ],
)
def test_what_they_lack(given: dict[str, Any], available: dict[str, float], text: str) -> None:
    assert re.search(text, reason_for_delay(2, resolved(**given), available))
