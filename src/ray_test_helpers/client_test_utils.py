"""`ray.tests.client_test_utils`."""

from __future__ import annotations

from typing import Any

from ray_test_helpers.test_utils import SignalActor


def create_remote_signal_actor(ray: Any) -> Any:
    """Return the class of the actor that lets others wait."""
    return SignalActor
