"""From arguments to a finished experiment."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass, field
from typing import Any

import skate
from skate._run.append_buffer import AppendBuffer
from skate._run.callbacks import Callback
from skate._run.loggers import default_loggers
from skate._run.loggers.base import LoggerCallback
from skate._run.uploads import Uploads
from skate.tune.analysis.experiment_analysis import ExperimentAnalysis
from skate.tune.error import TuneError
from skate.tune.execution.callback_states import restore_callbacks
from skate.tune.execution.controller import TuneController
from skate.tune.execution.pool import Pool
from skate.tune.execution.programs import is_class
from skate.tune.execution.resume import take_up
from skate.tune.execution.runner import Runner
from skate.tune.execution.snapshots import Snapshots
from skate.tune.execution.state import StateLog
from skate.tune.experiment.experiment import Experiment
from skate.tune.experiment.trial import Trial
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
from skate.tune.tune_config import ResumeConfig

logger = logging.getLogger(__name__)

WITHOUT_END = 2**31  # that many samples are never made
_FLUSH_EVERY = 0.5  # seconds between writes of results, where they come fast


@dataclass
class Settings:
    """How an experiment is run."""

    metric: str | None = None
    mode: str | None = None
    search_alg: Any = None
    scheduler: Any = None
    callbacks: list[Any] = field(default_factory=list)
    progress_reporter: Any = None
    verbose: int | None = None
    max_concurrent: int = 0
    fail_fast: bool | str = False
    reuse_actors: bool | None = None
    chdir: bool = False
    resume: ResumeConfig | None = None


def execute(experiment: Experiment, settings: Settings) -> ExperimentAnalysis:
    """Run an experiment; what it came to."""
    if not skate.is_initialized():
        skate.init()
    search_alg = make_search(settings)
    scheduler = make_scheduler(settings.scheduler)
    _hand_over_properties(search_alg, scheduler, settings, experiment)
    log = StateLog(experiment.storage)
    callbacks = _callbacks(settings)
    results = AppendBuffer(_FLUSH_EVERY) if _writes_files() else None
    controller = TuneController(
        search_alg=search_alg,
        scheduler=scheduler,
        stopper=experiment.stopper,
        callbacks=callbacks,
        log=log,
        total_resources=skate.cluster_resources(),
        max_concurrent=settings.max_concurrent,
        fail_fast=settings.fail_fast,
        saves_on_demand=is_class(experiment.trainable),
        metric=settings.metric,
        results=results,
    )
    search_alg.add_configurations(experiment)
    if settings.resume is not None:
        take_up(experiment, controller, search_alg, settings.resume, log)
        restore_callbacks(experiment.storage, callbacks)
    log.run(fresh=settings.resume is None, trainable=experiment.run_identifier, **_aim(settings))
    _setup(callbacks, experiment, search_alg)
    reporting = _Reporting(settings, controller, search_alg)
    snapshots = Snapshots(experiment.storage, search_alg, callbacks)
    uploads = Uploads(
        experiment.storage, lambda: (trial.storage for trial in controller.get_live_trials())
    )
    runner = Runner(
        controller,
        Pool(experiment.trainable, skate.cluster_resources(), settings.reuse_actors is not False),
        waits_always=not _nobody_decides(scheduler, experiment.stopper),
        reuse_instances=bool(settings.reuse_actors) and is_class(experiment.trainable),
        chdir=settings.chdir,
        on_tick=[
            *([results.flush_if_due] if results is not None else []),
            snapshots.save_if_due,
            log.flush_if_due,
            uploads.send_if_due,
            reporting.tick,
        ],
    )
    interrupted = False
    try:
        runner.run()
    except KeyboardInterrupt:
        interrupted = True
        logger.warning("interrupted; go on with Tuner.restore(%r, trainable=…)", experiment.path)
    finally:
        if results is not None:
            results.flush()
        snapshots.save()
        log.flush()
        controller.end_experiment()
        reporting.finish()
        experiment.storage.close()
    analysis = ExperimentAnalysis(
        experiment.storage,
        trials=controller.get_trials(),
        default_metric=settings.metric,
        default_mode=settings.mode,
    )
    analysis.interrupted = interrupted
    return analysis


def _aim(settings: Settings) -> dict[str, Any]:
    return {"metric": settings.metric, "mode": settings.mode}


def _nobody_decides(scheduler: TrialScheduler, stopper: Any) -> bool:
    """Whether results can be looked at after the trial has gone on."""
    stoppers = stopper._stoppers if isinstance(stopper, CombinedStopper) else [stopper]
    harmless = (DictStopper, TimeoutStopper, type(None))
    return type(scheduler) is FIFOScheduler and all(isinstance(s, harmless) for s in stoppers)


# -- parts ----------------------------------------------------------------------------------------


def make_search(settings: Settings) -> SearchAlgorithm:
    """The source of trials for what a user may write."""
    found: Any = settings.search_alg
    most = settings.max_concurrent
    if found is None:
        found = BasicVariantGenerator(max_concurrent=most)
    if isinstance(found, str):
        from skate.tune.search import create_searcher

        found = create_searcher(found, metric=settings.metric, mode=settings.mode)
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


def make_scheduler(given: Any) -> TrialScheduler:
    """The scheduler for what a user may write."""
    if given is None:
        return FIFOScheduler()
    if isinstance(given, str):
        from skate.tune.schedulers import create_scheduler

        return create_scheduler(given)
    if not isinstance(given, TrialScheduler):
        raise TypeError(f"scheduler takes a TrialScheduler or a name; got {given!r}")
    return given


def _hand_over_properties(
    search_alg: SearchAlgorithm,
    scheduler: TrialScheduler,
    settings: Settings,
    experiment: Experiment,
) -> None:
    metric, mode = settings.metric, settings.mode
    config, spec = experiment.spec["config"], experiment.public_spec
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


def _callbacks(settings: Settings) -> list[Any]:
    """The user's, and those loggers that every experiment has."""
    given = list(settings.callbacks or [])
    for callback in given:
        if not isinstance(callback, Callback):  # RunConfig has checked, but for training
            raise TypeError(f"a search takes instances of tune.Callback; got {callback!r}")
    kinds = [type(callback) for callback in given]
    usual = default_loggers(_FLUSH_EVERY) if _writes_files() else []
    missing = [one for one in usual if type(one) not in kinds]
    # loggers first, so that what they wrote is there for the others
    own = [callback for callback in given if isinstance(callback, LoggerCallback)]
    rest = [callback for callback in given if not isinstance(callback, LoggerCallback)]
    return [*missing, *own, *rest]


def _writes_files() -> bool:
    """Whether trials have the usual files; not with a variable that Ray has too."""
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


class _Reporting:
    """Calls the reporter when it is time."""

    def __init__(
        self, settings: Settings, controller: TuneController, search_alg: SearchAlgorithm
    ) -> None:
        self._controller = controller
        self._reporter = _reporter(settings)
        if self._reporter is not None:
            self._reporter.setup(
                start_time=time.time(),
                total_samples=total if (total := search_alg.total_samples) < WITHOUT_END else None,
                metric=settings.metric,
                mode=settings.mode,
            )

    def tick(self) -> None:
        self._report(done=False)

    def finish(self) -> None:
        self._report(done=True)

    def _report(self, done: bool) -> None:
        reporter = self._reporter
        if reporter is not None and reporter.should_report(self._controller._in_order, done=done):
            about = self._controller.scheduler.debug_string()
            reporter.report(self._controller.get_trials(), done, about)


def _reporter(settings: Settings) -> Any:
    """The user's one; else a live view, if somebody can see it."""
    if settings.verbose == 0:
        return None
    if settings.progress_reporter is not None:
        return settings.progress_reporter
    from skate.tune._live import LiveReporter

    if LiveReporter.usable():
        return LiveReporter()
    if settings.verbose is not None and settings.verbose >= 2:
        from skate.tune.progress_reporter import CLIReporter

        return CLIReporter()
    return None


def raise_if_failed(analysis: ExperimentAnalysis) -> None:
    """An error that names the trials that failed."""
    if analysis.interrupted:
        return
    failed = [trial for trial in analysis.trials if trial.status == Trial.ERROR]
    if failed:
        reason = failed[0].get_error()
        raise TuneError(
            f"Trials did not complete: {failed}. The first failed with: {reason}"
        ) from reason
