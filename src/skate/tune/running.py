"""`tune.run`: a search in one call."""

from __future__ import annotations

import contextlib
import copy
import datetime
import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from skate._core.plain_errors import failing_plainly
from skate._core.signature import showing_keywords
from skate._run.callbacks import Callback
from skate._run.config import CheckpointConfig, FailureConfig, RunConfig, SyncConfig
from skate._run.config_checks import default_storage_path
from skate._run.ledger import claimed
from skate._run.storage import Storage
from skate._run.types import Config
from skate.tune._experiments import make_experiment
from skate.tune._older_spellings import changed, in_todays_words
from skate.tune.analysis.experiment_analysis import ExperimentAnalysis
from skate.tune.error import NothingToTakeUpError
from skate.tune.execution.experiment_group import takes_groups
from skate.tune.execution.launch import execute, raise_if_failed
from skate.tune.experiment.experiment import Experiment, as_experiments, is_default_name
from skate.tune.experiment.state_file import STATE_FILE
from skate.tune.experiment.trial import Trial
from skate.tune.progress_reporter import ProgressReporter
from skate.tune.schedulers.trial_scheduler import TrialScheduler
from skate.tune.search.search_algorithm import SearchAlgorithm
from skate.tune.search.searcher import Searcher
from skate.tune.tune_config import ResumeConfig, TuneConfig

_RESUME = {
    "LOCAL": ResumeConfig(),
    "REMOTE": ResumeConfig(),
    "PROMPT": ResumeConfig(),
    "AUTO": ResumeConfig(),
    "RESUME_ERRORED": ResumeConfig(errored="resume"),
    "ERRORED": ResumeConfig(errored="resume"),
    "RESTART_ERRORED": ResumeConfig(errored="restart"),
    "ERRORED_ONLY": ResumeConfig(unfinished="skip", errored="resume"),
    "RESTART_ERRORED_ONLY": ResumeConfig(unfinished="skip", errored="restart"),
}


@failing_plainly
@showing_keywords(())  # older names are not for new programs
def run(
    run_or_experiment: object,
    *,
    name: str | None = None,
    metric: str | None = None,
    mode: str | None = None,
    stop: object = None,
    time_budget_s: float | datetime.timedelta | None = None,
    config: Config | None = None,
    resources_per_trial: object = None,
    num_samples: int = 1,
    storage_path: str | os.PathLike[str] | None = None,
    storage_filesystem: object = None,
    search_alg: Searcher | SearchAlgorithm | str | None = None,
    scheduler: TrialScheduler | str | None = None,
    checkpoint_config: CheckpointConfig | dict[str, Any] | None = None,
    verbose: int | None = None,
    progress_reporter: ProgressReporter | None = None,
    log_to_file: bool | str | tuple[str, str] = False,
    trial_name_creator: Callable[[Trial], str] | None = None,
    trial_dirname_creator: Callable[[Trial], str] | None = None,
    sync_config: SyncConfig | None = None,
    export_formats: Sequence[str] | None = None,
    max_failures: int = 0,
    fail_fast: bool | str = False,
    restore: str | None = None,
    resume: bool | str | None = None,
    resume_config: ResumeConfig | None = None,
    reuse_actors: bool | None = None,
    raise_on_failed_trial: bool = True,
    callbacks: Sequence[Callback] | None = None,
    max_concurrent_trials: int | None = None,
    **older: object,
) -> ExperimentAnalysis:
    """Search: run trials of a function, a Trainable or a trainer on a space of configurations.

    Args:
        run_or_experiment: A function of a configuration, a `Trainable`, a trainer, the name of a
            registered one; or an `Experiment`, or a list of them, which say themselves what they
            run, on which space, where and with which limits. The trials of several run side by
            side; with a searcher, which knows one, one experiment runs after the other.
        name: The name of the experiment's folder; by default the trainable's name and the date.
        metric: The reported metric to optimise.
        mode: Whether a larger value is better, "max", or a smaller one, "min".
        stop: Ends trials: limits as `{"training_iteration": 10}`, a function of (trial_id,
            result), or a `Stopper`.
        time_budget_s: Seconds after which everything ends.
        config: The search space: values, and domains as `tune.uniform(0, 1)`.
        resources_per_trial: As `{"cpu": 2, "gpu": 0.5}`; trials beyond the machine's resources
            wait.
        num_samples: How many times to sample the space; -1 is without end.
        storage_path: Where the experiment's folder is; by default `~/skate_results`.
        storage_filesystem: The Arrow file system of `storage_path`, if not this machine's.
        search_alg: Who proposes configurations; by default grids and random draws.
        scheduler: Who stops or pauses trials early; by default nobody does.
        checkpoint_config: Which checkpoints stay, and when a `Trainable` saves.
        verbose: 0 shows nothing, 1 a live view on a terminal, 2 also lines elsewhere.
        progress_reporter: Shows trials instead.
        log_to_file: Whether trials write their output to files too; or the names of these.
        trial_name_creator: Makes the name of a trial.
        trial_dirname_creator: Makes the name of a trial's folder.
        sync_config: Older settings of uploads, of which `upload_dir` has a meaning.
        export_formats: In which a `Trainable` exports its model at the end of a trial.
        max_failures: How often a trial that fails is tried again from its checkpoint; -1 is
            without end.
        fail_fast: Whether the first failure ends everything; "raise" raises it.
        restore: The place of a checkpoint that all trials begin with.
        resume: Whether to take up the experiment of this name; "AUTO" if there is one. Objects
            of `config` (datasets, references) take the place of those that its trials had.
        resume_config: What becomes of its trials, by how they had ended.
        reuse_actors: Whether instances of a `Trainable` go on with the next trial; `False` gives
            each trial a process of its own.
        raise_on_failed_trial: Whether to raise when all is over and a trial has failed.
        callbacks: Who is told of what happens.
        max_concurrent_trials: How many trials may run at a time; `None` or 0 is no limit.
        older: Arguments of earlier Rays: `keep_checkpoints_num`, `checkpoint_score_attr`,
            `checkpoint_freq` and `checkpoint_at_end` (today in `checkpoint_config`),
            `chdir_to_trial_dir`, `local_dir` and `upload_dir` (today `storage_path`), `loggers`
            (classes; today `callbacks`); those about services that there are none of, and those
            that begin with an underscore, change nothing.

    Returns:
        What the trials came to, when all are over.

    Raises:
        TuneError: If a trial has failed, unless `raise_on_failed_trial` is `False`.
        TypeError: For an argument that no Ray ever had.
    """
    today = {name: value for name, value in locals().items() if name != "older"}
    given = in_todays_words(today, older)
    tuning, place = _configs(given)
    resuming = resume_config or _resume(resume)
    if isinstance(run_or_experiment, (list, tuple, Experiment)):
        _warn_of_unused({**today, **changed(older)})
        experiments = as_experiments(run_or_experiment)
    else:
        experiments = [_experiment(given, tuning, place, resuming)]
    analysis = _run_all(experiments, tuning, place, resuming, resume)
    if raise_on_failed_trial:
        raise_if_failed(analysis)
    return analysis


def _configs(given: Mapping[str, Any]) -> tuple[TuneConfig, RunConfig]:
    """Make a Tuner's configurations of the arguments of `run`, most of which are called alike."""
    failures = {name: given[name] for name in ("max_failures", "fail_fast")}
    place = {**_named_as(RunConfig, given), "failure_config": FailureConfig(**failures)}
    return TuneConfig(**_named_as(TuneConfig, given)), RunConfig(**place)


def _named_as(config: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: given[field.name] for field in fields(config) if field.name in given}


def _experiment(
    given: Mapping[str, Any], tuning: TuneConfig, place: RunConfig, resuming: ResumeConfig | None
) -> Experiment:
    trainable = given["run_or_experiment"]
    if resuming is not None and place.name is None:
        place.name = _latest(trainable, place.storage_path, place.storage_filesystem)
    return make_experiment(
        trainable,
        given["config"],
        tuning,
        place,
        resources_per_trial=given["resources_per_trial"],
        export_formats=list(given["export_formats"] or []),
        restore=given["restore"],
    )


def run_experiments(
    experiments: object,
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
    """Run several experiments, whose trials share the machine and the scheduler.

    Args:
        experiments: Experiments, or `{name: {"run": …, "config": …}}`.
        scheduler: Who stops or pauses trials early.
        verbose: 0 shows nothing, 1 a live view on a terminal, 2 also lines elsewhere.
        progress_reporter: Shows trials instead.
        resume: Whether to take them up; "AUTO" if they are there.
        resume_config: What becomes of their trials, by how they had ended.
        reuse_actors: Whether instances of a `Trainable` go on with the next trial.
        raise_on_failed_trial: Whether to raise when a trial of an experiment has failed.
        concurrent: Whether their trials run side by side; `False` begins an experiment when the
            one before is over.
        callbacks: Who is told of what happens.

    Returns:
        All trials.
    """
    found = as_experiments(experiments)
    trials: list[Any] = []
    for part in [found] if concurrent else [[experiment] for experiment in found]:
        analysis = run(
            part,
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


def _run_all(
    experiments: list[Experiment],
    tuning: TuneConfig,
    run: RunConfig,
    wanted: ResumeConfig | None,
    resume: bool | str | None,
) -> ExperimentAnalysis:
    """Run the trials of all side by side, or one experiment after the other.

    The latter is for searchers, which know one experiment; each gets a copy of its own.
    """
    existing = _existing(experiments, wanted, resume)
    together = len(experiments) == 1 or takes_groups(tuning.search_alg)
    parts = [experiments] if together else [[experiment] for experiment in experiments]
    analyses = []
    for part in parts:
        own = tuning
        if len(parts) > 1:
            search_alg, scheduler = copy.deepcopy((tuning.search_alg, tuning.scheduler))
            own = replace(tuning, search_alg=search_alg, scheduler=scheduler)
        with contextlib.ExitStack() as claims:
            for storage in {experiment.path: experiment.storage for experiment in part}.values():
                claims.enter_context(claimed(storage))
            for experiment in part:
                experiment.keeps_space = True
            analyses.append(execute(part, own, run, existing))
        if analyses[-1].interrupted:
            break
    if len(analyses) == 1:
        return analyses[0]
    joined = ExperimentAnalysis(
        experiments[0].storage,
        trials=[trial for analysis in analyses for trial in analysis.trials],
        default_metric=tuning.metric,
        default_mode=tuning.mode,
    )
    joined.interrupted = analyses[-1].interrupted
    return joined


def _warn_of_unused(given: Mapping[str, object]) -> None:
    """Warn of arguments that an Experiment overrules; with Ray, such programs go well."""
    usual = {name: each.default for name, each in inspect.signature(run).parameters.items()}
    own = {*inspect.signature(Experiment).parameters, *(given.keys() - usual.keys())}
    own.discard("run_or_experiment")
    unused = [name for name in given if name in own and given[name] != usual.get(name)]
    if unused:
        warnings.warn(
            f"{', '.join(f'{name}={given[name]!r}' for name in unused)} of tune.run() changes "
            f"nothing, because it was given an Experiment: give it to that",
            stacklevel=4,
        )


# -- taking up ------------------------------------------------------------------------------------


def _resume(resume: bool | str | None) -> ResumeConfig | None:
    if not resume:
        return None
    if resume is True:
        return ResumeConfig()
    parts = str(resume).upper().split("+")
    if parts == ["ERRORED_ONLY"]:
        parts = ["RESTART_ERRORED_ONLY"]  # what it meant in Ray 1, without AUTO in front
    for part in parts:
        if part not in _RESUME:
            raise ValueError(f"resume takes a bool or one of {list(_RESUME)}; got {resume!r}")
    return _RESUME[parts[-1]]


def _existing(
    experiments: list[Experiment], wanted: ResumeConfig | None, resume: bool | str | None
) -> ResumeConfig | None:
    """Return how to take up the experiments; None if all of them are new."""
    if wanted is None or any(one.storage.exists(STATE_FILE) for one in experiments):
        return wanted
    if isinstance(resume, str) and resume.upper().startswith("AUTO"):
        return None
    raise NothingToTakeUpError(
        f"there is no experiment to take up at {experiments[0].path!r}; resume='AUTO' begins a "
        f"new one in that case"
    )


def _latest(trainable: object, place: object, filesystem: object) -> str | None:
    """Return the name of a trainable's newest experiment that has a default name."""
    identifier = Experiment.get_trainable_name(trainable)
    root = Storage(place or default_storage_path(), "", filesystem)
    names = [
        name
        for name in root.names()
        if is_default_name(name, identifier) and root.exists(os.path.join(name, STATE_FILE))
    ]
    return max(names, default=None)
