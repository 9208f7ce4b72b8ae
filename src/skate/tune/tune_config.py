"""How a tuner searches, and how it takes up a search again."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from skate._run.config import check_whole


@dataclass
class TuneConfig:
    """What is optimised, by whom, and how often.

    Trials run in the program's working directory; with `chdir_to_trial_dir`, in their own folder.
    `reuse_actors` lets instances of a class Trainable go on with the next trial, through
    `reset_config`; processes are used again unless it is False.
    """

    mode: str | None = None
    metric: str | None = None
    search_alg: Any = None
    scheduler: Any = None
    num_samples: Any = 1
    max_concurrent_trials: int | None = None
    time_budget_s: float | datetime.timedelta | None = None
    reuse_actors: bool | None = None
    trial_name_creator: Callable[[Any], str] | None = None
    trial_dirname_creator: Callable[[Any], str] | None = None
    chdir_to_trial_dir: bool = False

    def __post_init__(self) -> None:
        if self.mode not in (None, "min", "max"):
            raise ValueError(f"mode takes 'min' or 'max'; got {self.mode!r}")
        check_whole("num_samples", self.num_samples, -1, ", -1 is without end")
        if self.max_concurrent_trials is not None:
            check_whole("max_concurrent_trials", self.max_concurrent_trials, 0, ", 0 is no limit")


@dataclass
class ResumeConfig:
    """What becomes of the trials of a search that is taken up again, by how they had ended."""

    class ResumeType(Enum):
        """RESUME goes on from the last checkpoint, RESTART begins anew, SKIP leaves it."""

        RESUME = "resume"
        RESTART = "restart"
        SKIP = "skip"

    finished: Any = ResumeType.SKIP
    unfinished: Any = ResumeType.RESUME
    errored: Any = ResumeType.SKIP

    def __post_init__(self) -> None:
        for name in ("finished", "unfinished", "errored"):
            setattr(self, name, self.ResumeType(getattr(self, name)))
