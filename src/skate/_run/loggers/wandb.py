"""Weights & Biases: a run per trial."""

from __future__ import annotations

import os
import warnings
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate._run.loggers.base import LoggerCallback
from skate._run.loggers.mlflow import Silent
from skate._run.session import current, in_session
from skate._run.types import Config, ResultRow
from skate._run.values import flatten, plain

if TYPE_CHECKING:
    from skate._run.callbacks import TrialLike


WANDB_ENV_VAR = "WANDB_API_KEY"
WANDB_PROJECT_ENV_VAR = "WANDB_PROJECT_NAME"
WANDB_GROUP_ENV_VAR = "WANDB_GROUP_NAME"
WANDB_MODE_ENV_VAR = "WANDB_MODE"  # W&B reads it itself

# Variables that name a function, as `package.module.function`: one that returns the API key where
# there is none, one that sets the variables of project and group where no project is given, and
# one that gets each run that was started.
WANDB_SETUP_API_KEY_HOOK = "WANDB_SETUP_API_KEY_HOOK"
WANDB_POPULATE_RUN_LOCATION_HOOK = "WANDB_POPULATE_RUN_LOCATION_HOOK"
WANDB_PROCESS_RUN_INFO_HOOK = "WANDB_PROCESS_RUN_INFO_HOOK"

_LEFT_OUT = {"config", "pid", "hostname", "node_ip", "date", "done", "trial_id", "timestamp"}


class WandbLoggerCallback(LoggerCallback):
    """Log each trial as a run of W&B.

    W&B uploads on its own time, and the end of a trial waits for that.

    Args:
        project: The project; by default what WANDB_PROJECT_NAME says, or "skate".
        group: The group of the runs; by default what WANDB_GROUP_NAME says, or the name of the
            experiment.
        api_key_file: A file whose first line is the API key.
        api_key: The API key; by default what WANDB_API_KEY says, or the login of this machine.
        excludes: Metrics and parameters that are not logged.
        log_config: Whether the `config` in each result is logged as metrics, too.
        upload_checkpoints: Whether checkpoints are uploaded as artifacts.
        save_checkpoints: The older name of `upload_checkpoints`.
        upload_timeout: Has no effect: the end of a trial waits for its upload.
        kwargs: What else goes to `wandb.init`.
    """

    def __init__(
        self,
        project: str | None = None,
        group: str | None = None,
        api_key_file: str | None = None,
        api_key: str | None = None,
        excludes: list[str] | None = None,
        log_config: bool = False,
        upload_checkpoints: bool = False,
        save_checkpoints: bool = False,
        upload_timeout: int = 1800,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self.project = project
        self.group = group
        self.api_key_file = api_key_file
        self.api_key = api_key
        self.excludes: set[str] = set(excludes or ()) | (
            _LEFT_OUT - ({"config"} if log_config else set())
        )
        self.upload_checkpoints: bool = upload_checkpoints or save_checkpoints
        self.upload_timeout = upload_timeout
        self.kwargs = kwargs
        self._runs: dict[str, Any] = {}

    def setup(self, *args: Any, **info: object) -> None:
        try_import("wandb", "wandb")
        _authorise(self.api_key, self.api_key_file)
        self.project = _project(self.project)
        self.group = self.group or os.environ.get(WANDB_GROUP_ENV_VAR)

    def log_trial_start(self, trial: TrialLike) -> None:
        wandb = try_import("wandb", "wandb")
        options: dict[str, Any] = {
            "id": trial.trial_id,
            "name": str(trial),
            "resume": "allow",
            "reinit": "create_new",
            "project": self.project,
            "group": self.group or getattr(trial, "experiment_dir_name", None),
            "config": {k: v for k, v in flatten(trial.config) if k not in self.excludes},
            "dir": trial.local_path,
            **self.kwargs,
        }
        self._runs[trial.trial_id] = _started(wandb, options)

    def log_trial_result(self, iteration: int, trial: TrialLike, result: ResultRow) -> None:
        kept = {name: value for name, value in result.items() if name not in self.excludes}
        values = {name: plain(value) for name, value in flatten(kept)}
        shown = {n: v for n, v in values.items() if isinstance(v, (int, float, str))}
        self._runs[trial.trial_id].log(shown)

    def log_trial_save(self, trial: Any) -> None:
        if not self.upload_checkpoints or trial.checkpoint is None:
            return
        wandb = try_import("wandb", "wandb")
        artifact = wandb.Artifact(f"checkpoint_{trial.trial_id}", type="model")
        with trial.checkpoint.as_directory() as folder:
            artifact.add_dir(folder)
        self._runs[trial.trial_id].log_artifact(artifact)

    def log_trial_end(self, trial: TrialLike, failed: bool = False) -> None:
        run = self._runs.pop(trial.trial_id, None)
        if run is not None:
            run.finish(exit_code=1 if failed else 0)


def _authorise(key: str | None, file: str | None) -> None:
    if file is not None:
        if key is not None:
            raise ValueError("give api_key or api_key_file, not both")
        with open(os.path.expanduser(file)) as stream:
            key = stream.readline().strip()
    if key is None and not os.environ.get(WANDB_ENV_VAR):
        key = _hooked(WANDB_SETUP_API_KEY_HOOK)
    if key is not None:
        os.environ[WANDB_ENV_VAR] = key


def _project(given: str | None) -> str:
    """Return the project that was given, or is the environment's; the latter may also be set by
    the function that WANDB_POPULATE_RUN_LOCATION_HOOK names."""
    if not given and not os.environ.get(WANDB_PROJECT_ENV_VAR):
        _hooked(WANDB_POPULATE_RUN_LOCATION_HOOK)
    return given or os.environ.get(WANDB_PROJECT_ENV_VAR) or "skate"


def _started(wandb: Any, options: dict[str, Any]) -> Any:
    """Start a run, and hand it to the function that WANDB_PROCESS_RUN_INFO_HOOK names."""
    run = wandb.init(**options)
    _hooked(WANDB_PROCESS_RUN_INFO_HOOK, run)
    return run


def _hooked(variable: str, *arguments: object) -> Any:
    """Call the function that a variable names, if it does; the run goes on where that fails."""
    path = os.environ.get(variable)
    if not path:
        return None
    try:
        return resolve_name(path)(*arguments)
    except Exception as error:
        warnings.warn(
            f"{path}, which {variable} names, has failed: {type(error).__name__}: {error}",
            stacklevel=2,
        )
        return None


def setup_wandb(
    config: Config | None = None,
    api_key: str | None = None,
    api_key_file: str | None = None,
    rank_zero_only: bool = True,
    **kwargs: object,
) -> Any:
    """Start a W&B run in a training loop or a trial.

    Args:
        config: What is logged as the run's configuration.
        api_key: The API key; by default what WANDB_API_KEY says, or the login of this machine.
        api_key_file: A file whose first line is the API key.
        rank_zero_only: Whether the worker of rank 0 alone logs.
        kwargs: What else goes to `wandb.init`, as `project`.

    Returns:
        The run; on workers that do not log, what takes any call and does nothing.

    Raises:
        ValueError: If both an API key and a file with one are given.
    """
    where = current("setup_wandb()").info if in_session() else None
    if where is not None and rank_zero_only and where.world_rank:
        return Silent()
    wandb = try_import("wandb", "wandb")
    _authorise(api_key, api_key_file)
    options: dict[str, Any] = {"config": config, "resume": "allow", **kwargs}
    options["project"] = _project(options.get("project"))
    if group := os.environ.get(WANDB_GROUP_ENV_VAR):
        options.setdefault("group", group)
    if where is not None:
        options.setdefault("id", where.trial_id)
        options.setdefault("name", where.trial_name)
        options.setdefault("group", where.experiment_name)
    return _started(wandb, options)
