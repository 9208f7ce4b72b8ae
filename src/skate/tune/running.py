"""`tune.run`: a search in one call."""

from __future__ import annotations

import copy
import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from skate._run.config import (
    CheckpointConfig,
    FailureConfig,
    RunConfig,
    default_storage_path,
)
from skate._run.ledger import claimed
from skate._run.storage import Storage
from skate.tune._older_arguments import in_todays_words
from skate.tune._setup import make_experiment
from skate.tune.analysis.experiment_analysis import ExperimentAnalysis
from skate.tune.error import NothingToTakeUpError
from skate.tune.execution.launch import execute, raise_if_failed
from skate.tune.experiment._states import STATE_FILE
from skate.tune.experiment.experiment import Experiment, as_experiments, is_default_name
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
    **former: Any,
) -> ExperimentAnalysis:
    """Search: run `num_samples` trials of a function, a Trainable or a trainer on the space
    `config`; returns when all are over, with what they came to.

    `stop` ends trials: `{"training_iteration": 10}`, a function of (trial_id, result), or a
    Stopper. `resources_per_trial` as `{"cpu": 2, "gpu": 0.5}`; trials beyond the machine's
    resources wait. A trial that fails is tried again from its checkpoint `max_failures` times (-1:
    without end); `fail_fast` ends everything at the first failure, "raise" raises it.
    `resume=True` takes up an experiment of the same `name`, "AUTO" if there is one. Results are
    in `storage_path/name`, by default `~/skate_results`. `verbose=0` shows nothing. Names that
    begin with an underscore are for Ray's own use and change nothing. `former` are arguments of
    earlier Rays: `loggers` (classes) and `upload_dir`, and those about services that there are
    none of. An Experiment, or a list of them, says itself what it runs, on which space, where and
    with which limits.
    """
    given = dict(locals())
    tuning, place = _configs(given)
    resuming = resume_config or _resume(resume)
    experiments = _experiments(given, tuning, place, resuming)
    analysis = _one_after_the_other(experiments, tuning, place, resuming, resume)
    if raise_on_failed_trial:
        raise_if_failed(analysis)
    return analysis


def _configs(given: Mapping[str, Any]) -> tuple[TuneConfig, RunConfig]:
    """Most arguments of `run` are called as those of a Tuner's configurations."""
    older = in_todays_words(given["former"], run.__kwdefaults__ or ())
    failures = {name: given[name] for name in ("max_failures", "fail_fast")}
    place = {
        **_named_as(RunConfig, given),
        "storage_path": given["storage_path"] or older.storage_path,
        "failure_config": FailureConfig(**failures),
        "checkpoint_config": _checkpoint_config(given),
        "callbacks": [*(given["callbacks"] or ()), *older.callbacks],
    }
    return TuneConfig(**_named_as(TuneConfig, given)), RunConfig(**place)


def _named_as(config: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    return {field.name: given[field.name] for field in fields(config) if field.name in given}


def _experiments(
    given: Mapping[str, Any], tuning: TuneConfig, place: RunConfig, resuming: ResumeConfig | None
) -> list[Experiment]:
    trainable = given["run_or_experiment"]
    if isinstance(trainable, (list, tuple, Experiment)):
        _warn_of_unused(given)
        return as_experiments(trainable)
    if resuming is not None and place.name is None:
        place.name = _latest(trainable, place.storage_path, place.storage_filesystem)
    experiment = make_experiment(
        trainable,
        given["config"],
        tuning,
        place,
        resources_per_trial=given["resources_per_trial"],
        export_formats=list(given["export_formats"] or []),
        restore=given["restore"],
    )
    return [experiment]


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
    experiments: list[Experiment],
    tuning: TuneConfig,
    run: RunConfig,
    wanted: ResumeConfig | None,
    resume: bool | str | None,
) -> ExperimentAnalysis:
    """Each experiment with a search and a schedule of its own; all trials together."""
    analyses = []
    for experiment in experiments:
        own, existing = tuning, _existing(experiment, wanted, resume)
        if len(experiments) > 1:
            search_alg, scheduler = copy.deepcopy((tuning.search_alg, tuning.scheduler))
            own = replace(tuning, search_alg=search_alg, scheduler=scheduler)
        with claimed(experiment.storage):
            analyses.append(execute(experiment, own, run, existing))
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


_SAVING = ("keep_checkpoints_num", "checkpoint_score_attr", "checkpoint_freq", "checkpoint_at_end")


def _warn_of_unused(given: Mapping[str, Any]) -> None:
    """No error: with Ray, programs that say such things a second time, to `run`, go well."""
    known = {*inspect.signature(Experiment).parameters, *_SAVING, "upload_dir"}
    usual = run.__kwdefaults__ or {}
    arguments = {**given, **given["former"]}
    unused = [name for name in arguments if name in known and arguments[name] != usual.get(name)]
    if unused:
        warnings.warn(
            f"{', '.join(f'{name}={arguments[name]!r}' for name in unused)} of tune.run() changes "
            f"nothing, because it was given an Experiment: give it to that",
            stacklevel=4,
        )


def _checkpoint_config(given: Mapping[str, Any]) -> Any:
    """One configuration of what was given in the newer or the older way."""
    config = given["checkpoint_config"]
    keep, score, freq, at_end = (given[name] for name in _SAVING)
    if not (keep is not None or score or freq or at_end is not None):
        return config
    if config is not None:
        raise ValueError(f"give checkpoint_config, or {', '.join(_SAVING)}, but not both")
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
    if parts == ["ERRORED_ONLY"]:
        parts = ["RESTART_ERRORED_ONLY"]  # what it meant in Ray 1, without AUTO in front
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
    raise NothingToTakeUpError(
        f"there is no experiment to take up at {experiment.path!r}; resume='AUTO' begins a new "
        f"one in that case"
    )


def _latest(trainable: Any, place: Any, filesystem: Any) -> str | None:
    """The newest experiment of a trainable, by its default name."""
    identifier = Experiment.get_trainable_name(trainable)
    root = Storage(place or default_storage_path(), "", filesystem)
    names = [
        name
        for name in root.names()
        if is_default_name(name, identifier) and root.exists(os.path.join(name, STATE_FILE))
    ]
    return max(names, default=None)
