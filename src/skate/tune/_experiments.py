"""From the configurations of a search to an experiment, for `tune.run` and `Tuner` alike."""

from __future__ import annotations

import inspect
from typing import Any

from skate._core import notices
from skate._run.config import FailureConfig, RunConfig
from skate._run.config_checks import as_config
from skate._run.types import Config
from skate.tune.experiment.experiment import Experiment
from skate.tune.search.search_algorithm import WITHOUT_END
from skate.tune.trainable._calls import free_parameters
from skate.tune.tune_config import TuneConfig


def make_experiment(
    trainable: object, space: Config | None, tuning: TuneConfig, run: RunConfig, **more: Any
) -> Experiment:
    """Make the experiment: what is run, on which space, where, and with which limits."""
    _check_space_is_seen(trainable, space)
    samples = tuning.num_samples
    failure = as_config(FailureConfig, run.failure_config)
    if failure.restart != "group":
        raise ValueError(
            f"restart={failure.restart!r} is about the workers of a trainer: give it to the "
            "trainer's own run_config; a trial that fails begins again by itself"
        )
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
        max_failures=failure.max_failures,
        **more,
    )


def _check_space_is_seen(trainable: object, space: Config | None) -> None:
    """Warn where all trials would be the same, because the function does not take its values."""
    if space and inspect.isfunction(trainable) and not free_parameters(trainable):
        name = trainable.__name__
        notices.once(
            f"space of {trainable!r}",
            f"{name}() takes no argument, and so its trials do not see what was chosen for them "
            f"({', '.join(map(str, space))}): write def {name}(config)",
        )
