"""From the configurations of a search to an experiment and the way it is run, for `tune.run` and
`Tuner` alike."""

from __future__ import annotations

from typing import Any

from skate._run.config import FailureConfig, RunConfig, as_config
from skate.tune.execution.launch import WITHOUT_END, Settings
from skate.tune.experiment.experiment import Experiment
from skate.tune.tune_config import ResumeConfig, TuneConfig


def make_experiment(
    trainable: Any, space: dict[str, Any] | None, tuning: TuneConfig, run: RunConfig, **more: Any
) -> Experiment:
    """What is run, on which space, where, and with which limits."""
    samples = tuning.num_samples
    return Experiment(
        run.name,
        trainable,
        stop=run.stop,
        time_budget_s=tuning.time_budget_s,
        config=space,
        num_samples=samples if samples >= 0 else WITHOUT_END,
        storage_path=run.storage_path,
        storage_filesystem=run.storage_filesystem,
        durability=run.durability,
        sync_config=run.sync_config,
        checkpoint_config=run.checkpoint_config,
        trial_name_creator=tuning.trial_name_creator,
        trial_dirname_creator=tuning.trial_dirname_creator,
        log_to_file=run.log_to_file,
        max_failures=as_config(FailureConfig, run.failure_config).max_failures,
        **more,
    )


def make_settings(
    tuning: TuneConfig, run: RunConfig, resume: ResumeConfig | None = None
) -> Settings:
    """How it is run."""
    return Settings(
        metric=tuning.metric,
        mode=tuning.mode,
        search_alg=tuning.search_alg,
        scheduler=tuning.scheduler,
        callbacks=list(run.callbacks or []),
        progress_reporter=run.progress_reporter,
        verbose=run.verbose,
        max_concurrent=tuning.max_concurrent_trials or 0,
        fail_fast=as_config(FailureConfig, run.failure_config).fail_fast,
        reuse_actors=tuning.reuse_actors,
        chdir=tuning.chdir_to_trial_dir,
        resume=resume,
    )
