"""`tune.run`: a search in one call."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from skate._run.config import CheckpointConfig, default_storage_path
from skate._run.storage import Storage
from skate.tune.analysis.experiment_analysis import ExperimentAnalysis
from skate.tune.error import TuneError
from skate.tune.execution.launch import Settings, execute, raise_if_failed
from skate.tune.experiment._states import STATE_FILE
from skate.tune.experiment.experiment import Experiment, as_experiments
from skate.tune.tune_config import ResumeConfig

_RESUME = {
    "LOCAL": ResumeConfig(),
    "REMOTE": ResumeConfig(),
    "PROMPT": ResumeConfig(),
    "AUTO": ResumeConfig(),
    "ERRORED_ONLY": ResumeConfig(unfinished="skip", errored="restart"),
    "RESUME_ERRORED": ResumeConfig(errored="resume"),
    "ERRORED": ResumeConfig(errored="resume"),
    "RESTART_ERRORED": ResumeConfig(errored="restart"),
    "RESTART_ERRORED_ONLY": ResumeConfig(unfinished="skip", errored="restart"),
}


def run(
    run_or_experiment: Any,
    *,
    name: str | None = None,
    metric: str | None = None,
    mode: str | None = None,
    stop: Any = None,
    time_budget_s: Any = None,
    config: dict[str, Any] | None = None,
    resources_per_trial: Any = None,
    num_samples: int = 1,
    storage_path: Any = None,
    storage_filesystem: Any = None,
    search_alg: Any = None,
    scheduler: Any = None,
    checkpoint_config: Any = None,
    verbose: int | None = None,
    progress_reporter: Any = None,
    log_to_file: Any = False,
    trial_name_creator: Callable[[Any], str] | None = None,
    trial_dirname_creator: Callable[[Any], str] | None = None,
    sync_config: Any = None,
    export_formats: Sequence[str] | None = None,
    max_failures: int = 0,
    fail_fast: bool | str = False,
    restore: str | None = None,
    resume: bool | str | None = None,
    resume_config: ResumeConfig | None = None,
    reuse_actors: bool | None = None,
    raise_on_failed_trial: bool = True,
    callbacks: Sequence[Any] | None = None,
    max_concurrent_trials: int | None = None,
    keep_checkpoints_num: int | None = None,
    checkpoint_score_attr: str | None = None,
    checkpoint_freq: int = 0,
    checkpoint_at_end: bool | None = None,
    chdir_to_trial_dir: bool = False,
    local_dir: Any = None,
    _remote: bool | None = None,
    _remote_string_queue: Any = None,
    _entrypoint: Any = None,
) -> ExperimentAnalysis:
    """Search: run `num_samples` trials of a function, a Trainable or a trainer on the space
    `config`; returns when all are over, with what they came to.

    `stop` ends trials: `{"training_iteration": 10}`, a function of (trial_id, result), or a
    Stopper. `resources_per_trial` as `{"cpu": 2, "gpu": 0.5}`; trials beyond the machine's
    resources wait. A trial that fails is tried again from its checkpoint `max_failures` times (-1:
    without end); `fail_fast` ends everything at the first failure, "raise" raises it.
    `resume=True` takes up an experiment of the same `name`, "AUTO" if there is one. Results are
    in `storage_path/name`, by default `~/skate_results`. `verbose=0` shows nothing. Names that
    begin with an underscore are for Ray's own use and change nothing.
    """
    _check(mode, fail_fast, max_failures, num_samples)
    checkpoints = _checkpoint_config(
        checkpoint_config,
        keep_checkpoints_num,
        checkpoint_score_attr,
        checkpoint_freq,
        checkpoint_at_end,
    )
    if isinstance(run_or_experiment, (list, tuple)):
        experiments = as_experiments(run_or_experiment)
    elif isinstance(run_or_experiment, Experiment):
        experiments = [run_or_experiment]
    else:
        place = storage_path or local_dir
        resuming = resume_config or _resume(resume)
        if resuming is not None and name is None:
            name = _latest(run_or_experiment, place, storage_filesystem)
        experiments = [
            Experiment(
                name,
                run_or_experiment,
                stop=stop,
                time_budget_s=time_budget_s,
                config=config,
                resources_per_trial=resources_per_trial,
                num_samples=num_samples if num_samples >= 0 else 2**31,
                storage_path=place,
                storage_filesystem=storage_filesystem,
                sync_config=sync_config,
                checkpoint_config=checkpoints,
                trial_name_creator=trial_name_creator,
                trial_dirname_creator=trial_dirname_creator,
                log_to_file=log_to_file,
                export_formats=list(export_formats) if export_formats else None,
                max_failures=max_failures,
                restore=restore,
            )
        ]
    settings = Settings(
        metric=metric,
        mode=mode,
        search_alg=search_alg,
        scheduler=scheduler,
        callbacks=list(callbacks or []),
        progress_reporter=progress_reporter,
        verbose=verbose,
        max_concurrent=max_concurrent_trials or 0,
        fail_fast=fail_fast,
        reuse_actors=reuse_actors,
        chdir=chdir_to_trial_dir,
    )
    wanted = resume_config or _resume(resume)
    analysis = _one_after_the_other(experiments, settings, wanted, resume)
    if raise_on_failed_trial:
        raise_if_failed(analysis)
    return analysis


def run_experiments(
    experiments: Any,
    scheduler: Any = None,
    verbose: int | None = None,
    progress_reporter: Any = None,
    resume: bool | str | None = None,
    resume_config: ResumeConfig | None = None,
    reuse_actors: bool | None = None,
    raise_on_failed_trial: bool = True,
    concurrent: bool = True,
    callbacks: Sequence[Any] | None = None,
    _remote: bool | None = None,
) -> list[Any]:
    """Run several experiments, given as Experiments or as `{name: {"run": …, "config": …}}`, one
    after the other; each uses all resources, so `concurrent` changes nothing. All trials."""
    trials: list[Any] = []
    for experiment in as_experiments(experiments):
        analysis = run(
            experiment,
            scheduler=scheduler,
            verbose=verbose,
            progress_reporter=progress_reporter,
            resume=resume,
            resume_config=resume_config,
            reuse_actors=reuse_actors,
            raise_on_failed_trial=raise_on_failed_trial,
            callbacks=callbacks,
        )
        trials += analysis.trials
    return trials


def _one_after_the_other(
    experiments: list[Experiment], settings: Settings, wanted: ResumeConfig | None, resume: Any
) -> ExperimentAnalysis:
    """Each experiment with a search and a schedule of its own; all trials together."""
    analyses = []
    for experiment in experiments:
        own = replace(settings, resume=_existing(experiment, wanted, resume))
        if len(experiments) > 1:
            own.search_alg, own.scheduler = copy.deepcopy(
                (settings.search_alg, settings.scheduler)
            )
        analyses.append(execute(experiment, own))
        if analyses[-1].interrupted:
            break
    if len(analyses) == 1:
        return analyses[0]
    joined = ExperimentAnalysis(
        experiments[0].storage,
        trials=[trial for analysis in analyses for trial in analysis.trials],
        default_metric=settings.metric,
        default_mode=settings.mode,
    )
    joined.interrupted = analyses[-1].interrupted
    return joined


def _check(mode: str | None, fail_fast: Any, max_failures: int, num_samples: int) -> None:
    if mode not in (None, "min", "max"):
        raise ValueError(f"mode takes 'min' or 'max'; got {mode!r}")
    if fail_fast and max_failures != 0:
        raise ValueError(
            f"fail_fast ends at the first failure, so max_failures must be 0; got {max_failures}"
        )
    if num_samples < -1:
        raise ValueError(f"num_samples takes a number, -1 is without end; got {num_samples}")


def _checkpoint_config(
    config: Any, keep: int | None, score: str | None, freq: int, at_end: bool | None
) -> Any:
    """One configuration of what was given in the newer or the older way."""
    if not (keep or score or freq or at_end is not None):
        return config
    if config is not None:
        raise ValueError(
            "give checkpoint_config, or keep_checkpoints_num, checkpoint_score_attr, "
            "checkpoint_freq and checkpoint_at_end, but not both"
        )
    order = "max"
    if score and score.startswith("min-"):
        order, score = "min", score[4:]
    return CheckpointConfig(
        num_to_keep=keep,
        checkpoint_score_attribute=score,
        checkpoint_score_order=order,
        checkpoint_frequency=freq,
        checkpoint_at_end=at_end,
    )


# -- taking up ------------------------------------------------------------------------------------


def _resume(resume: bool | str | None) -> ResumeConfig | None:
    if not resume:
        return None
    if resume is True:
        return ResumeConfig()
    parts = str(resume).upper().split("+")
    for part in parts:
        if part not in _RESUME:
            raise ValueError(f"resume takes a bool or one of {list(_RESUME)}; got {resume!r}")
    return _RESUME[parts[-1]]


def _existing(
    experiment: Experiment, wanted: ResumeConfig | None, resume: bool | str | None
) -> ResumeConfig | None:
    """How to take up the experiment; None if it is a new one."""
    if wanted is None or experiment.storage.exists(STATE_FILE):
        return wanted
    if isinstance(resume, str) and resume.upper().startswith("AUTO"):
        return None
    raise TuneError(
        f"there is no experiment to take up at {experiment.path!r}; resume='AUTO' begins a new "
        f"one in that case"
    )


def _latest(trainable: Any, place: Any, filesystem: Any) -> str | None:
    """The newest experiment of a trainable, by its default name."""
    prefix = Experiment.get_trainable_name(trainable)
    root = Storage(place or default_storage_path(), "", filesystem)
    names = [
        name
        for name in root.names()
        if name.startswith(f"{prefix}_") and root.exists(os.path.join(name, STATE_FILE))
    ]
    return max(names, default=None)
