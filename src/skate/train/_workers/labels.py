"""`ScalingConfig(label_selector={"zone": "in(a, b)"})`: the machine has these labels, or not."""

from __future__ import annotations

from typing import Any

import skate
from skate._core.labels import fits
from skate.exceptions import TaskUnschedulableError


def check_labels(selector: dict[str, str] | list[dict[str, str]] | None) -> None:
    """Raise unless workers may be on any machine that there is: on one machine, if its labels do
    not fit; on several, if they do not fit on all of them."""
    wanted = [selector] if isinstance(selector, dict) else selector or []
    there: list[dict[str, Any]] = [
        node.get("Labels") or {} for node in skate.nodes() if node.get("Alive")
    ]
    for one in wanted:
        fitting = [labels for labels in there if fits(one, labels)]
        if not fitting:
            raise TaskUnschedulableError(
                f"no machine has what label_selector={one!r} asks for; there are the labels "
                f"{there}. Give this machine labels with skate.init(labels={{…}})"
            )
        if len(fitting) < len(there):
            raise ValueError(
                f"label_selector={one!r} fits {len(fitting)} of {len(there)} machines, and "
                "workers cannot be kept to those: give these machines a resource, and ask for it "
                "with resources_per_worker"
            )
