"""Machines that are taken away: not this one."""

from __future__ import annotations

from skate._run.session import current


def get_preemption_info() -> None:
    """Return when a machine of the run is about to be taken away: on one's own machine, None.

    Loops written for clusters ask it, and save a checkpoint if so.
    """
    current("get_preemption_info()")
