"""The errors of hyperparameter search."""

from __future__ import annotations

from skate.exceptions import SkateError


class TuneError(SkateError):
    """A search could not be set up, or some of its trials failed."""


class TuneTrialError(RuntimeError):
    """A trial failed and could not be read back as the error it was: the text of it."""


class MissingMetricError(TuneError, ValueError):
    """A trial has reported results without the metric that is optimised."""

    def __init__(self, metric: str, trial: object, result: object) -> None:
        super().__init__(metric, str(trial), sorted(result))  # type: ignore[call-overload]
        self.metric = metric

    def __str__(self) -> str:
        metric, trial, names = self.args
        return (
            f"Trial {trial} returned a result which did not include the metric {metric!r} that is "
            f"optimised; it has {names}. Report it, or change the `metric` of TuneConfig"
        )
