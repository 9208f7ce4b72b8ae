"""MLflow in trials. Until Ray 2.6, a decorator or a base class began the run of a trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from skate._core.public_names import name_publicly
from skate._run.loggers.mlflow import MLflowLoggerCallback, setup_mlflow
from skate.tune.integration._mixins import Mixin, around, settings_of

__all__ = ["MLflowLoggerCallback", "MLflowTrainableMixin", "mlflow_mixin", "setup_mlflow"]


@contextmanager
def _run(config: Mapping[str, object]) -> Iterator[None]:
    settings = settings_of(config, "mlflow", "tracking_uri")
    token = settings.pop("token", None)
    mlflow = setup_mlflow(tracking_token=token, **settings)
    try:
        yield
    finally:
        mlflow.end_run()


def mlflow_mixin(func: Callable[..., object]) -> Callable[..., Any]:
    """Let a function for trials log with MLflow's own calls.

    Its configuration has an entry "mlflow", with the `tracking_uri` and the `experiment_name` or
    `experiment_id`.
    """
    return around(func, _run)


class MLflowTrainableMixin(Mixin):
    """The same for a class: `class Mine(MLflowTrainableMixin, tune.Trainable)`."""

    _around = staticmethod(_run)


name_publicly(__name__)
