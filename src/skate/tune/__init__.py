"""Search for the best configuration of a function: many trials, in parallel, stopped early.

from skate import tune

def objective(config):
    for step in range(10):
        tune.report({"loss": (config["x"] - 3) ** 2 + 1 / (step + 1)})

tuner = tune.Tuner(
    objective,
    param_space={"x": tune.uniform(0, 10)},
    tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=20, scheduler="asha"),
)
print(tuner.fit().get_best_result().config)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate._run.callbacks import Callback
    from skate._run.checkpoint import Checkpoint
    from skate._run.config import CheckpointConfig, FailureConfig, RunConfig, SyncConfig
    from skate._run.context import TrainContext as TuneContext
    from skate._run.result import Result
    from skate._run.session import get_checkpoint, get_context, report
    from skate.tune.analysis.experiment_analysis import Analysis, ExperimentAnalysis
    from skate.tune.error import TuneError
    from skate.tune.execution.placement_groups import PlacementGroupFactory
    from skate.tune.execution.session import (
        checkpoint_dir,
        get_trial_dir,
        get_trial_id,
        get_trial_name,
        get_trial_resources,
        is_session_enabled,
        make_checkpoint_dir,
        save_checkpoint,
    )
    from skate.tune.experiment.experiment import Experiment
    from skate.tune.progress_reporter import (
        CLIReporter,
        JupyterNotebookReporter,
        ProgressReporter,
    )
    from skate.tune.registry import register_env, register_trainable
    from skate.tune.result_grid import ResultGrid
    from skate.tune.running import run, run_experiments
    from skate.tune.schedulers import create_scheduler
    from skate.tune.search import create_searcher, grid_search
    from skate.tune.search.sample import (
        choice,
        lograndint,
        loguniform,
        qlograndint,
        qloguniform,
        qrandint,
        qrandn,
        quniform,
        randint,
        randn,
        sample_from,
        uniform,
    )
    from skate.tune.stopper.stopper import Stopper
    from skate.tune.trainable.trainable import Trainable
    from skate.tune.trainable.util import with_parameters, with_resources
    from skate.tune.tune_config import ResumeConfig, TuneConfig
    from skate.tune.tuner import Tuner
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Analysis",
    "CLIReporter",
    "Callback",
    "Checkpoint",
    "CheckpointConfig",
    "Experiment",
    "ExperimentAnalysis",
    "FailureConfig",
    "JupyterNotebookReporter",
    "PlacementGroupFactory",
    "ProgressReporter",
    "Result",
    "ResultGrid",
    "ResumeConfig",
    "RunConfig",
    "Stopper",
    "SyncConfig",
    "Trainable",
    "TuneConfig",
    "TuneContext",
    "TuneError",
    "Tuner",
    "checkpoint_dir",
    "choice",
    "create_scheduler",
    "create_searcher",
    "get_checkpoint",
    "get_context",
    "get_trial_dir",
    "get_trial_id",
    "get_trial_name",
    "get_trial_resources",
    "grid_search",
    "is_session_enabled",
    "lograndint",
    "loguniform",
    "make_checkpoint_dir",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "register_env",
    "register_trainable",
    "report",
    "run",
    "run_experiments",
    "sample_from",
    "save_checkpoint",
    "uniform",
    "with_parameters",
    "with_resources",
]
