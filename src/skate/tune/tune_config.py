"""How a tuner searches, and how it takes up a search again."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from numbers import Real
from typing import Any

from skate._core.argument_checks import wrong_type
from skate._core.nearest import SpelledOut
from skate._run.config_checks import check_whole


@dataclass
class TuneConfig(SpelledOut):
    """Say what is optimised, by whom, and with how many trials.

    Args:
        mode: Whether a larger value of the metric is better, "max", or a smaller one, "min".
        metric: The reported metric to optimise, "a/b" for nested ones.
        search_alg: Who proposes configurations: a `Searcher`, a `SearchAlgorithm`, or a name as
            "optuna"; by default grids and random draws.
        scheduler: Who stops or pauses trials early: a `TrialScheduler`, or a name as "asha"; by
            default nobody does.
        num_samples: How many times to sample the space; -1 is without end.
        max_concurrent_trials: How many trials may run at a time; `None` or 0 is no limit but the
            machine's.
        time_budget_s: Seconds, or a timedelta, after which everything ends.
        reuse_actors: Whether instances of a `Trainable` go on with the next trial, through
            `reset_config`; `False` gives each trial a process of its own.
        trial_name_creator: Makes the name of a trial.
        trial_dirname_creator: Makes the name of a trial's folder.
        chdir_to_trial_dir: Whether trials run in their own folder, and not in the program's
            working directory. `None` is what `RAY_CHDIR_TO_TRIAL_DIR` says, 0 or 1; without it,
            they do in programs that `import ray`.
        trial_timeout: Seconds that a trial may run without a report, a checkpoint or its end. One
            that is silent for longer has failed, with a `TrialTimeoutError`; `None` is no limit.
        seed: With a number, a search on the same number of workers is the same each time: the
            searcher and the scheduler draw the same, and results are handled in the order of
            their trials, whoever was faster, for which trials that run wait for each other.

    Raises:
        ValueError: If a value is not one of those.

    Example:
        >>> from skate.tune import TuneConfig
        >>> TuneConfig(metric="loss", mode="min", num_samples=20).num_samples
        20
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
    chdir_to_trial_dir: bool | None = None
    trial_timeout: float | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.mode not in (None, "min", "max"):
            raise ValueError(f"mode takes 'min' or 'max'; got {self.mode!r}")
        if self.metric is not None and not isinstance(self.metric, str):
            allowed = "the name of one metric; a searcher, as OptunaSearch, may be given several"
            raise wrong_type("metric", self.metric, allowed)
        check_whole("num_samples", self.num_samples, -1, ", -1 is without end")
        if self.max_concurrent_trials is not None:
            check_whole("max_concurrent_trials", self.max_concurrent_trials, 0, ", 0 is no limit")
        if self.seed is not None:
            check_whole("seed", self.seed, 0)
        if not isinstance(self.time_budget_s, (Real, datetime.timedelta, type(None))):
            raise wrong_type(
                "time_budget_s", self.time_budget_s, "a number of seconds, or a timedelta"
            )
        timeout = self.trial_timeout
        if timeout is not None and (not isinstance(timeout, Real) or not timeout > 0):
            raise ValueError(f"trial_timeout takes a number of seconds above 0; got {timeout!r}")


@dataclass
class ResumeConfig(SpelledOut):
    """Say what becomes of the trials of a search that is taken up again, by how they had ended.

    Args:
        finished: Those that came to their end; skipped by default.
        unfinished: Those that were running or waiting; they go on by default.
        errored: Those that failed; skipped by default.

    Raises:
        ValueError: If one is neither "resume", "restart" nor "skip", or a `ResumeType`.
    """

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
