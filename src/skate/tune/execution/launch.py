"""From arguments to a finished experiment."""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import skate
from skate._core.live_rows import announce
from skate._core.optional_imports import ray_is_skate
from skate._facade.api import works_elsewhere
from skate._run.append_buffer import AppendBuffer
from skate._run.callbacks import Callback
from skate._run.config import FailureConfig, RunConfig
from skate._run.config_checks import as_config
from skate._run.environment_callbacks import callbacks_for_tuning
from skate._run.loggers import default_loggers
from skate._run.uploads import Uploads
from skate.tune.analysis.experiment_analysis import ExperimentAnalysis
from skate.tune.error import TuneError
from skate.tune.execution.controller import TuneController
from skate.tune.execution.experiment_group import ExperimentGroup
from skate.tune.execution.notes import ExperimentNotes
from skate.tune.execution.performer import Performer
from skate.tune.execution.pool import WorkerPool
from skate.tune.execution.reporting import ProgressReporting
from skate.tune.execution.resume import take_up
from skate.tune.execution.runner import Runner
from skate.tune.execution.seeding import SeededDraws
from skate.tune.execution.snapshots import Snapshots, restore_callbacks
from skate.tune.execution.warm_start import warm_up
from skate.tune.experiment.experiment import Experiment
from skate.tune.experiment.space_file import save_spaces
from skate.tune.experiment.state_file import StateLogs
from skate.tune.experiment.trial import Trial
from skate.tune.result import DEFAULT_METRIC
from skate.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler
from skate.tune.search.basic_variant import BasicVariantGenerator
from skate.tune.search.concurrency_limiter import ConcurrencyLimiter
from skate.tune.search.search_algorithm import SearchAlgorithm
from skate.tune.search.search_generator import SearchGenerator
from skate.tune.search.searcher import Searcher
from skate.tune.search.variant_generator import has_unresolved_values
from skate.tune.stopper._criteria import DictStopper
from skate.tune.stopper.stopper import CombinedStopper
from skate.tune.stopper.timeout import TimeoutStopper
from skate.tune.tune_config import ResumeConfig, TuneConfig

logger: logging.Logger = logging.getLogger(__name__)

_FEWEST_PENDING = 16  # trials that are made ahead of the machine
_FLUSH_EVERY_SECONDS = 0.5  # between writes of results, where they come fast


def execute(
    experiments: Sequence[Experiment],
    tuning: TuneConfig,
    run: RunConfig,
    resume: ResumeConfig | None = None,
    warm_start: Sequence[str] = (),
) -> ExperimentAnalysis:
    """Run an experiment, or several side by side.

    Args:
        experiments: What is run, on which space, where, and with which limits.
        tuning: What is optimised, by whom, and how many trials run at a time.
        run: Who is told, and what a failure ends.
        resume: How to go on with trials of an earlier program; `None` begins a new experiment.
        warm_start: The folders of searches that the searcher learns from.

    Returns:
        What the trials came to.
    """
    group, experiment = ExperimentGroup(experiments), experiments[0]
    if not skate.is_initialized():
        skate.init()
    draws = SeededDraws(tuning.seed) if tuning.seed is not None else None
    with draws or contextlib.nullcontext():
        controller = new_controller(group, tuning, run, skate.cluster_resources())
    storages = [folder[0].storage for folder in group.folders]
    log = StateLogs(storages)
    callbacks = _callbacks(run.callbacks or ())
    if resume is None:
        _begin(group, controller.search_alg, warm_start)
    else:
        _go_on(group, controller, resume, warm_start, log, callbacks)
    aim = {"metric": tuning.metric, "mode": tuning.mode}
    for first, *_ in group.folders:
        log.at(first.storage).run(fresh=resume is None, trainable=first.run_identifier, **aim)
    _setup(callbacks, experiment, controller.search_alg)
    reporting = ProgressReporting(group.name, tuning, run, controller)
    notes = ExperimentNotes(group.name, tuning.metric, tuning.mode, run.verbose == 0)
    if resume is not None:
        notes.taken_up(controller.get_trials())
    snapshots = Snapshots(experiment.storage, controller.search_alg, callbacks)
    elsewhere = next((one for one in storages if not one.is_local), experiment.storage)
    uploads = Uploads(elsewhere, lambda: (trial.storage for trial in controller.get_live_trials()))
    results = AppendBuffer(_FLUSH_EVERY_SECONDS) if _writes_files() else None
    performer = Performer(controller, callbacks, log, results, notes, draws)
    for first, *_ in group.folders:
        _announce(first, controller)
    ticks = [snapshots.save_if_due, log.flush_if_due, uploads.send_if_due, reporting.tick]
    runner = _runner(group, tuning, controller, performer, [performer.flush_if_due, *ticks])
    try:
        completed = _run_trials(runner, group.path)
    finally:
        snapshots.save()
        performer.end_experiment()
        reporting.finish()
        notes.finish(controller.get_trials(), group.path)
        for storage in storages:
            storage.close()
    analysis = ExperimentAnalysis(
        experiment.storage,
        trials=controller.get_trials(),
        default_metric=tuning.metric,
        default_mode=tuning.mode,
    )
    analysis.interrupted = not completed
    return analysis


def _begin(group: ExperimentGroup, search_alg: SearchAlgorithm, warm_start: Sequence[str]) -> None:
    """Prepare a search that nobody has begun before."""
    warm_up(search_alg, warm_start, group.first.spec["config"])
    save_spaces(group.experiments)


def _go_on(
    group: ExperimentGroup,
    controller: TuneController,
    resume: ResumeConfig,
    warm_start: Sequence[str],
    log: StateLogs,
    callbacks: list[object],
) -> None:
    """Prepare a search that an earlier program has left."""
    storage, search_alg = group.first.storage, controller.search_alg
    if not search_alg.has_checkpoint(storage.local_path):
        warm_up(search_alg, warm_start, group.first.spec["config"])
    take_up(group, controller, resume, log)
    restore_callbacks(storage, callbacks)


def _run_trials(runner: Runner, path: str) -> bool:
    """Run all trials, and return whether they are through: not if Ctrl-C ended it."""
    try:
        runner.run()
    except KeyboardInterrupt:
        logger.warning("interrupted; go on with Tuner.restore(%r, trainable=…)", path)
        return False
    return True


def _runner(
    group: ExperimentGroup,
    tuning: TuneConfig,
    controller: TuneController,
    performer: Performer,
    on_tick: Sequence[Callable[[], None]],
) -> Runner:
    reuse = tuning.reuse_actors
    in_step = tuning.seed is not None
    asks = group.has_classes and performer.may_ask_for_checkpoints
    return Runner(
        controller,
        performer,
        WorkerPool(group.trainable_of, skate.cluster_resources(), reuse is not False),
        waits_always=in_step or asks or any(map(_decides, group.stoppers())),
        reuse_instances=bool(reuse),
        chdir=_changes_directory(tuning),
        in_step=in_step,
        trial_timeout=tuning.trial_timeout,
        on_tick=on_tick,
    )


def _changes_directory(tuning: TuneConfig) -> bool:
    """Return whether trials run in their own folders. Programs for Ray write their files into the
    working directory, which is a folder per trial there; in one process all share it."""
    if tuning.chdir_to_trial_dir is not None:
        return tuning.chdir_to_trial_dir
    said = os.environ.get("RAY_CHDIR_TO_TRIAL_DIR")
    return said != "0" if said else ray_is_skate() and works_elsewhere()


def new_controller(
    group: ExperimentGroup, tuning: TuneConfig, run: RunConfig, total: Mapping[str, float]
) -> TuneController:
    """Put together all that decides in a search; nothing of it starts or writes anything.

    Args:
        group: What is run, on which spaces, and with which limits.
        tuning: What is optimised, by whom, and how many trials run at a time.
        run: What a failure ends.
        total: All resources that trials can have.

    Returns:
        The controller, which has its searcher and scheduler.
    """
    search_alg = make_search(tuning)
    scheduler = make_scheduler(tuning.scheduler)
    _hand_over_properties(search_alg, scheduler, tuning, group.first)
    search_alg.add_configurations(group.experiments)
    return TuneController(
        search_alg=search_alg,
        scheduler=scheduler,
        stopper=group.stopper,
        total_resources=total,
        most_pending=_most_pending(search_alg, total.get("CPU", 1)),
        max_concurrent=tuning.max_concurrent_trials or 0,
        fail_fast=as_config(FailureConfig, run.failure_config).fail_fast,
        saves_on_demand=group.has_steps,
        required_metrics=_required(tuning.metric, scheduler.metric, search_alg.metric),
    )


def _required(*metrics: str | list[str] | None) -> tuple[str, ...]:
    """Name the metrics that every result must have for those who decide by them."""
    if os.environ.get("TUNE_DISABLE_STRICT_METRIC_CHECKING") == "1":  # as with Ray
        return ()
    names = [name for one in metrics for name in (one if isinstance(one, list) else [one])]
    return tuple(dict.fromkeys(name for name in names if name and name != DEFAULT_METRIC))


def _most_pending(search_alg: SearchAlgorithm, cpus: float) -> int:
    """Return how many trials are made before they can start; Ray's variable for it counts too."""
    given = os.environ.get("TUNE_MAX_PENDING_TRIALS_PG", "")
    if given.isdigit():
        return max(1, int(given))
    late = isinstance(search_alg, SearchGenerator)  # it learns until the last moment
    return 1 if late else max(_FEWEST_PENDING, math.ceil(cpus * 1.1))


def _decides(stopper: object) -> bool:
    """Return whether trials wait for a stopper at each result, as for any but the harmless."""
    stoppers = stopper._stoppers if isinstance(stopper, CombinedStopper) else [stopper]
    return not all(isinstance(one, (DictStopper, TimeoutStopper, type(None))) for one in stoppers)


# -- parts ----------------------------------------------------------------------------------------


def make_search(tuning: TuneConfig) -> SearchAlgorithm:
    """Make the source of trials from what a user may write."""
    found: Any = tuning.search_alg
    most = tuning.max_concurrent_trials or 0
    if found is None:
        found = BasicVariantGenerator(max_concurrent=most)
    if isinstance(found, str):
        from skate.tune.search import create_searcher

        found = create_searcher(found, metric=tuning.metric, mode=tuning.mode)
    if isinstance(found, Searcher):
        found = SearchGenerator(_limited(found, most))
    if not isinstance(found, SearchAlgorithm):
        raise TypeError(f"search_alg takes a Searcher, a SearchAlgorithm or a name; got {found!r}")
    if isinstance(found, BasicVariantGenerator) and most:
        if found.max_concurrent not in (0, most):
            raise ValueError(
                f"max_concurrent_trials is {most}, but the search_alg has "
                f"max_concurrent={found.max_concurrent}: give one of them"
            )
        found.max_concurrent = most
    algorithm: SearchAlgorithm = found
    return algorithm


def _limited(searcher: Searcher, most: int) -> Searcher:
    if not most:
        return searcher
    if isinstance(searcher, ConcurrencyLimiter):
        raise ValueError(
            f"max_concurrent_trials is {most}, but the search_alg is a ConcurrencyLimiter "
            f"already: give one of them"
        )
    return ConcurrencyLimiter(searcher, max_concurrent=most)


def make_scheduler(given: object) -> TrialScheduler:
    """Make the scheduler from what a user may write."""
    if given is None or given is False:  # as some programs say that they want none
        return FIFOScheduler()
    if isinstance(given, str):
        from skate.tune.schedulers import create_scheduler

        return create_scheduler(given)
    if not isinstance(given, TrialScheduler):
        raise TypeError(
            f"scheduler takes a TrialScheduler, as ASHAScheduler(), or a name, as 'asha'; got "
            f"{given!r}"
        )
    return given


def _announce(experiment: Experiment, controller: TuneController) -> None:
    """Tell those who look in from outside where the experiment is written."""
    path = experiment.storage.path if experiment.storage.is_local else None
    row = {"name": experiment.name, "kind": "search", "path": path}

    def describe(controller: TuneController) -> list[dict[str, object]]:
        return [{**row, "state": "TERMINATED" if controller.is_finished else "RUNNING"}]

    announce("runs", controller, describe, remains={**row, "state": "ENDED"})


def _hand_over_properties(
    search_alg: SearchAlgorithm,
    scheduler: TrialScheduler,
    tuning: TuneConfig,
    experiment: Experiment,
) -> None:
    metric, mode = tuning.metric, tuning.mode
    config, spec = experiment.spec["config"], experiment.public_spec
    if tuning.seed is not None:
        search_alg.set_seed(tuning.seed)
    taken = search_alg.set_search_properties(metric, mode, config, **spec)
    if not taken and has_unresolved_values(config):
        raise ValueError(
            f"the search space has domains ({config}), but the search_alg was made with a space "
            f"of its own: give one of them"
        )
    if not scheduler.set_search_properties(metric, mode, **spec):
        raise ValueError(
            f"metric={metric!r} and mode={mode!r} are given, but the scheduler was made with a "
            f"metric or mode of its own: give them in one place"
        )


def _callbacks(given: Sequence[object]) -> list[object]:
    """Collect the user's callbacks, those that the environment names, and the usual loggers."""
    given = [*given, *callbacks_for_tuning()]
    for callback in given:
        if not isinstance(callback, Callback):  # RunConfig has checked, but for training
            raise TypeError(f"a search takes instances of tune.Callback; got {callback!r}")
    kinds = [type(callback) for callback in given]
    usual = default_loggers(_FLUSH_EVERY_SECONDS) if _writes_files() else []
    missing = [one for one in usual if type(one) not in kinds]
    return [*missing, *given]  # so that what the usual loggers wrote is there for the others


def _writes_files() -> bool:
    """Return whether trials have the usual files; not with a variable that Ray has too."""
    return os.environ.get("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS") != "1"


def _setup(callbacks: list[Any], experiment: Experiment, search_alg: SearchAlgorithm) -> None:
    for callback in callbacks:
        callback.setup(
            stop=experiment.spec["stop"],
            num_samples=experiment.spec["num_samples"],
            total_num_samples=search_alg.total_samples,
            config=experiment.spec["config"],
            experiment_name=experiment.name,
        )


def raise_if_failed(analysis: ExperimentAnalysis) -> None:
    """Raise an error that names the trials that failed, if any did."""
    if analysis.interrupted:
        return
    failed = [trial for trial in analysis.trials if trial.status == Trial.ERROR]
    if failed:
        reason = failed[0].get_error()
        raise TuneError(
            f"Trials did not complete: {failed}. The first failed with: {reason}"
        ) from reason
