"""Machines that are taken away: not this one."""

from __future__ import annotations

from dataclasses import dataclass

from skate._run.session import current
from skate.train._errors import TrainingFailedError


@dataclass
class PreemptionInfo:
    """Tells which machines are about to be taken away, and when.

    Attributes:
        deadline_ms: When the first of them goes, in milliseconds since 1970; None if unknown.
        preempted_node_to_ranks: The ranks of the workers on each, by its id.
    """

    deadline_ms: int | None
    preempted_node_to_ranks: dict[str, list[int]]

    @property
    def preempted_node_ids(self) -> list[str]:
        """The machines, in order."""
        return sorted(self.preempted_node_to_ranks)

    @property
    def preempted_ranks(self) -> list[int]:
        """The workers on them, in order."""
        return sorted({rank for ranks in self.preempted_node_to_ranks.values() for rank in ranks})


class PreemptionError(TrainingFailedError):
    """A machine was taken away: for `except` of programs that run on clusters too.

    Args:
        preemption_info: Which one.
        drain_timed_out: Whether workers were still on it at its end.
    """

    def __init__(self, preemption_info: PreemptionInfo, drain_timed_out: bool = False) -> None:
        super().__init__(preemption_info, drain_timed_out)
        self.preemption_info = preemption_info
        self.drain_timed_out = drain_timed_out

    def __str__(self) -> str:
        return f"machines of ranks {self.preemption_info.preempted_ranks} were taken away"


def get_preemption_info() -> PreemptionInfo | None:
    """Return when a machine of the run is about to be taken away: on one's own machine, None.

    Loops written for clusters ask it, and save a checkpoint if so.
    """
    current("get_preemption_info()")
    return None
