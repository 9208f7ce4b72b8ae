"""The errors of hyperparameter search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from skate._run.errors import NothingToRestoreError
from skate.exceptions import SkateError
from skate.tune.result import DEFAULT_METRIC


class TuneError(SkateError):
    """A search could not be set up, or some of its trials failed."""


def as_tune_error(error: Exception) -> TuneError:
    """Return an error of what users write for a search, such as a callback; its text has the type.

    Args:
        error: What was raised, of whose type the result is as well, where that can be.
    """
    own = type(error)
    text = f"{own.__name__}: {error}"

    def init(combined: Exception) -> None:
        Exception.__init__(combined, *error.args)
        combined.__dict__.update(error.__dict__)

    names = {"__init__": init, "__str__": lambda _: text}
    try:
        both: Any = type(f"TuneError({own.__name__})", (TuneError, own), names)
        combined: TuneError = both()
        return combined
    except TypeError:  # such a class cannot be combined with another
        return TuneError(text)


class TuneTrialError(RuntimeError):
    """A trial failed and could not be read back as the error it was: the text of it."""


class NothingToTakeUpError(TuneError, NothingToRestoreError):
    """There is no search to take up at this place."""


class ExperimentLeftOutError(TuneError, ValueError):
    """A folder has trials of an experiment that was not given again."""


class TrialTimeoutError(TuneError, TimeoutError):
    """A trial has said nothing for longer than `TuneConfig.trial_timeout` allows.

    Args:
        trial: The trial's name.
        seconds: How long it may.
    """

    def __init__(self, trial: str, seconds: float) -> None:
        super().__init__(trial, seconds)
        self.trial = trial
        self.seconds = seconds

    def __str__(self) -> str:
        return (
            f"trial {self.trial} has neither reported nor ended for {self.seconds:g} seconds, the "
            "trial_timeout of TuneConfig: its process was ended. Report more often, or give it "
            "more time; with FailureConfig(max_failures=…) it is tried again"
        )


class LostDataError(TuneError, ValueError):
    """A search cannot go on with what its folder holds.

    That refers to objects, such as datasets made from values in memory, of a session that is over.
    """

    def __init__(self, path: str, argument: str) -> None:
        super().__init__(
            f"the search at {path!r} used objects of a session that is over (references, or "
            "datasets made from values in memory), which are not in its folder: give them again, "
            f"with Tuner.restore(path, {argument}=…). A dataset that is read from files, as by "
            "skate.data.read_parquet, is kept as its plan"
        )


class MissingMetricError(TuneError, ValueError):
    """A trial has reported results without the metric that is optimised."""

    def __init__(self, metric: str, trial: object, result: Iterable[str]) -> None:
        from skate._run.reporting import AUTOMATIC

        names = [name for name in sorted(result) if name.split("/")[0] not in AUTOMATIC]
        super().__init__(metric, str(trial), names)
        self.metric = metric

    def __str__(self) -> str:
        metric, trial, names = self.args
        if names == [DEFAULT_METRIC]:
            hint = f"it returned a plain value, which has no name: return {{{metric!r}: value}}"
        else:
            hint = f"it has {names}. Report it, or change the `metric` of TuneConfig"
        return (
            f"Trial {trial} returned a result which did not include the metric {metric!r} that is "
            f"optimised; {hint}"
        )
