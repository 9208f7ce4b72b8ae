"""MLflow: a run per trial."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate._run.loggers.base import LoggerCallback
from skate._run.session import current, in_session
from skate._run.types import Config, ResultRow
from skate._run.values import flatten, numbers_in

if TYPE_CHECKING:
    from skate._run.callbacks import TrialLike


class MLflowLoggerCallback(LoggerCallback):
    """Log parameters and metrics of each trial as a run of MLflow.

    Args:
        tracking_uri: The server or folder of MLflow; by default the one that MLflow itself uses.
        registry_uri: Where models are registered; by default `tracking_uri`.
        experiment_name: The experiment, which is made if there is none; by default what
            MLFLOW_EXPERIMENT_NAME says, or "Default".
        tags: Tags of every run.
        tracking_token: A token for the server; sets MLFLOW_TRACKING_TOKEN.
        save_artifact: Whether the folder of each trial goes to MLflow when the trial ends.
        log_params_on_trial_end: Whether the configuration is logged at the end of a trial, and not
            at its start.
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        *,
        registry_uri: str | None = None,
        experiment_name: str | None = None,
        tags: dict[str, Any] | None = None,
        tracking_token: str | None = None,
        save_artifact: bool = False,
        log_params_on_trial_end: bool = False,
    ) -> None:
        super().__init__()
        self.tracking_uri = tracking_uri
        self.registry_uri = registry_uri
        self.experiment_name = experiment_name
        self.tags: dict[str, Any] = tags or {}
        self.tracking_token = tracking_token
        self.save_artifact = save_artifact
        self.log_params_on_trial_end = log_params_on_trial_end
        self._client: Any = None
        self._experiment: str = ""
        self._runs: dict[str, str] = {}

    def setup(self, *args: Any, **info: object) -> None:
        mlflow = try_import("mlflow", "mlflow")
        _authorise(self.tracking_token)
        self._client = mlflow.MlflowClient(self.tracking_uri, self.registry_uri)
        number, name = _wanted_experiment(None, self.experiment_name)
        if number is None and name is None:
            name = "Default"
        self._experiment = _experiment_id(self._client, number, name, create=True)

    def log_trial_start(self, trial: TrialLike) -> None:
        if trial.trial_id in self._runs:
            return
        tags = {**self.tags, "trial_name": str(trial), "mlflow.runName": str(trial)}
        run = self._client.create_run(self._experiment, tags=tags)
        self._runs[trial.trial_id] = run.info.run_id
        if not self.log_params_on_trial_end:
            self._log_parameters(trial)

    def _log_parameters(self, trial: TrialLike) -> None:
        for name, value in flatten(trial.config):
            self._client.log_param(self._runs[trial.trial_id], name, value)

    def log_trial_result(self, iteration: int, trial: TrialLike, result: ResultRow) -> None:
        step = result.get("timesteps_total") or result.get("training_iteration") or iteration
        own = {name: value for name, value in result.items() if name != "config"}
        for name, value in numbers_in(own):
            self._client.log_metric(self._runs[trial.trial_id], name, value, step=step)

    def log_trial_end(self, trial: TrialLike, failed: bool = False) -> None:
        run = self._runs[trial.trial_id]
        if self.log_params_on_trial_end:
            self._log_parameters(trial)
        if self.save_artifact:
            self._client.log_artifacts(run, trial.local_path)
        self._client.set_terminated(run, "FAILED" if failed else "FINISHED")


def _authorise(token: str | None) -> None:
    if token is not None:
        os.environ["MLFLOW_TRACKING_TOKEN"] = token


def setup_mlflow(
    config: Config | None = None,
    tracking_uri: str | None = None,
    registry_uri: str | None = None,
    experiment_id: str | None = None,
    experiment_name: str | None = None,
    tracking_token: str | None = None,
    artifact_location: str | None = None,
    run_name: str | None = None,
    create_experiment_if_not_exists: bool = False,
    tags: dict[str, Any] | None = None,
    rank_zero_only: bool = True,
) -> Any:
    """Start an MLflow run in a training loop or a trial.

    Args:
        config: What is logged as the run's parameters.
        tracking_uri: The server or folder of MLflow; by default the one that MLflow itself uses.
        registry_uri: Where models are registered; by default `tracking_uri`.
        experiment_id: The experiment, by its id.
        experiment_name: The experiment, by its name, which counts if there is none of that id. By
            default that of the training or the search.
        tracking_token: A token for the server; sets MLFLOW_TRACKING_TOKEN.
        artifact_location: Where an experiment that is made keeps its artifacts.
        run_name: The name of the run; by default that of the trial.
        create_experiment_if_not_exists: Whether an experiment that is not there is made.
        tags: Tags of the run.
        rank_zero_only: Whether the worker of rank 0 alone logs.

    Returns:
        The module `mlflow`, ready to log; on workers that do not log, what takes any call and does
        nothing.

    Raises:
        ValueError: If there is no such experiment, and none may be made.
    """
    where = current("setup_mlflow()").info if in_session() else None
    if where is not None and rank_zero_only and where.world_rank:
        return Silent()
    mlflow = try_import("mlflow", "mlflow")
    _authorise(tracking_token)
    if tracking_uri is not None:
        mlflow.set_tracking_uri(tracking_uri)
    if registry_uri is not None:
        mlflow.set_registry_uri(registry_uri)
    name = experiment_name or (where.experiment_name if where else None)
    number, name = _wanted_experiment(experiment_id, name)
    if number is not None or name is not None:
        create = create_experiment_if_not_exists
        chosen = _experiment_id(mlflow, number, name, create, artifact_location)
        mlflow.set_experiment(experiment_id=chosen)
    mlflow.start_run(run_name=run_name or (where.trial_name if where else None), tags=tags)
    mlflow.log_params(dict(flatten(config or {})))
    return mlflow


def _wanted_experiment(number: str | None, name: str | None) -> tuple[str | None, str | None]:
    """Return the number and the name of an experiment, which are the environment's where neither
    was given."""
    if number is None and name is None:
        return os.environ.get("MLFLOW_EXPERIMENT_ID"), os.environ.get("MLFLOW_EXPERIMENT_NAME")
    return number, name


def _experiment_id(
    mlflow: Any, number: str | None, name: str | None, create: bool, artifacts: str | None = None
) -> str:
    """Return the id of the experiment of that number, or else of that name.

    Args:
        mlflow: The module, or a client.
        number: Its id.
        name: Its name, for where nothing has that id.
        create: Whether to make one of that name, if there is none.
        artifacts: Where to keep the artifacts of one that is made.
    """
    if number is not None and _exists(mlflow, number):
        return number
    found = mlflow.get_experiment_by_name(name) if name else None
    if found is not None:
        return str(found.experiment_id)
    if name and create:
        return str(mlflow.create_experiment(name, artifact_location=artifacts))
    raise ValueError(
        f"MLflow has no experiment with the id {number!r} or the name {name!r}; give the "
        "experiment_id or the experiment_name of one, or create_experiment_if_not_exists=True"
    )


def _exists(mlflow: Any, number: str) -> bool:
    from mlflow.exceptions import MlflowException

    try:
        return mlflow.get_experiment(number) is not None
    except MlflowException:
        return False


class Silent:
    """Takes any call and does nothing, on ranks that are not to log."""

    def __getattr__(self, name: str) -> Silent:
        return self

    def __call__(self, *args: object, **kwargs: object) -> Silent:
        return self

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *exception: object) -> None:
        pass
