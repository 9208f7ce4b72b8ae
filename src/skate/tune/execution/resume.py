"""Take up an experiment where another program left it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate.tune.error import LostDataError
from skate.tune.execution.performer import roll_back
from skate.tune.experiment.state_file import trainable_of, trials_of
from skate.tune.experiment.trial import Trial
from skate.tune.search._files import write_atomically
from skate.tune.search.basic_variant import BasicVariantGenerator
from skate.tune.search.renewal import renewed
from skate.tune.search.search_generator import SearchGenerator
from skate.tune.tune_config import ResumeConfig

if TYPE_CHECKING:
    from skate._run.storage import Storage
    from skate.tune.execution.controller import TuneController
    from skate.tune.experiment.experiment import Experiment
    from skate.tune.experiment.state_file import StateLog
    from skate.tune.search.search_algorithm import SearchAlgorithm

logger: logging.Logger = logging.getLogger(__name__)

_Type = ResumeConfig.ResumeType


def take_up(
    experiment: Experiment,
    controller: TuneController,
    search_alg: SearchAlgorithm,
    resume: ResumeConfig,
    log: StateLog,
) -> None:
    """Add the trials that were made before; those that are to run again wait for it."""
    check_trainable(experiment.run_identifier, trainable_of(experiment.storage))
    experiment.storage.delete_drafts()
    trials = trials_of(experiment.storage, checkpoint_config=experiment.checkpoint_config)
    for trial in trials:
        if experiment.previous_space is not None:
            space = experiment.spec["config"]
            trial.set_config(renewed(trial.config, experiment.previous_space, space))
            log.config(trial)
        elif trial.lost_references:
            raise LostDataError(experiment.path, "param_space")
        _equip(trial, experiment)
        _prepare(trial, resume, log)
    _restore_search(search_alg, experiment, trials)  # it is told of all that will not run
    for trial in trials:
        controller.add_trial(trial)
        controller.remind(trial, _results_of(trial))


def _results_of(trial: Trial) -> Iterator[dict[str, object]]:
    """From its file, which is read only if somebody wants to know."""
    yield from trial.ledger.results()


def check_trainable(name: str, former: str | None) -> None:
    """Changed code is one thing, another function another."""
    if former is not None and name != former:
        raise ValueError(
            f"the experiment is one of {former!r}, and cannot go on with {name!r}: take it up "
            f"with the trainable of that name, or begin another experiment, under another name"
        )


def _equip(trial: Trial, experiment: Experiment) -> None:
    options = experiment.trial_options(trial.config)
    trial.placement_group_factory = options["placement_group_factory"]
    trial.stopping_criterion = options["stopping_criterion"]
    trial.max_failures = options["max_failures"]
    trial.log_to_file = options["log_to_file"]
    trial.export_formats = options["export_formats"] or []
    trial.storage.delete_drafts()
    experiment.note_dirname(trial)


def _prepare(trial: Trial, resume: ResumeConfig, log: StateLog) -> None:
    wanted = {
        Trial.TERMINATED: resume.finished,
        Trial.ERROR: resume.errored,
    }.get(trial.status, resume.unfinished)
    if wanted is _Type.SKIP:
        if not trial.is_finished():
            trial.take_history(trial.ledger.results())
            trial.status = Trial.TERMINATED
            log.progress(trial)
        return
    if wanted is _Type.RESTART:
        trial.begin_anew()
        log.reset(trial)
    roll_back(trial)
    trial.status = Trial.PENDING
    trial.error = None
    trial.num_failures_after_restore = 0
    log.progress(trial)


def _restore_search(
    search_alg: SearchAlgorithm, experiment: Experiment, trials: list[Trial]
) -> None:
    if isinstance(search_alg, BasicVariantGenerator):
        if trials:
            prefix = trials[0].trial_id.rpartition("_")[0]
            search_alg.set_state({"made": len(trials), "uuid_prefix": f"{prefix}_"})
        return
    folder = _with_states(experiment.storage)
    if search_alg.has_checkpoint(folder):
        search_alg.restore_from_dir(folder)
    if isinstance(search_alg, SearchGenerator):
        known = search_alg._counter
        _teach(search_alg, trials[:known], trials[known:])
        search_alg._counter = len(trials)
        search_alg._finished = False


def _with_states(storage: Storage) -> str:
    """A folder of this machine with what searchers have saved."""
    folder = storage.local_path
    if not storage.is_local:
        for name in storage.names():
            if name.endswith(".pkl"):
                write_atomically(os.path.join(folder, name), storage.read(name))
    return folder


def _teach(search_alg: SearchGenerator, known: list[Trial], unknown: list[Trial]) -> None:
    """What came of the trials after the searcher's state was saved."""
    for trial in known:
        if trial.is_finished():
            search_alg.on_trial_complete(
                trial.trial_id, result=trial.last_result or None, error=trial.status == Trial.ERROR
            )
    metric: Any = search_alg.metric
    for trial in unknown:
        value = trial.last_result.get(metric) if isinstance(metric, str) else None
        if trial.status == Trial.TERMINATED and value is not None:
            try:
                search_alg.searcher.add_evaluated_point(dict(trial.config), value)
            except (NotImplementedError, KeyError, TypeError, ValueError) as error:
                logger.debug("the searcher cannot learn from %s: %r", trial, error)
