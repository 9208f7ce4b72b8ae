"""Take up an experiment where another program left it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate.tune.error import ExperimentLeftOutError, LostDataError
from skate.tune.execution.performer import roll_back
from skate.tune.experiment.space_file import find_previous_space, save_spaces
from skate.tune.experiment.state_file import STATE_FILE, trainable_of, trials_of
from skate.tune.experiment.trial import Trial
from skate.tune.search._files import write_atomically
from skate.tune.search.basic_variant import BasicVariantGenerator
from skate.tune.search.renewal import renewed
from skate.tune.search.search_generator import SearchGenerator
from skate.tune.tune_config import ResumeConfig

if TYPE_CHECKING:
    from skate._run.storage import Storage
    from skate.tune.execution.controller import TuneController
    from skate.tune.execution.experiment_group import ExperimentGroup
    from skate.tune.experiment.experiment import Experiment
    from skate.tune.experiment.state_file import StateLog, StateLogs
    from skate.tune.search.search_algorithm import SearchAlgorithm

logger: logging.Logger = logging.getLogger(__name__)

_Type = ResumeConfig.ResumeType


def take_up(
    group: ExperimentGroup, controller: TuneController, resume: ResumeConfig, logs: StateLogs
) -> None:
    """Add the trials that were made before; those that are to run again wait for it.

    Nothing is written before all of them are found to fit: what is refused can be taken up later.
    """
    folders = [one for one in group.folders if one[0].storage.exists(STATE_FILE)]
    trials = [trial for folder in folders for trial in _trials_in(folder)]
    for trial in trials:
        log = logs.at(trial.experiment_storage)
        if group.of(trial).previous_space is not None:
            log.config(trial)
        _prepare(trial, resume, log)
    logs.flush()
    save_spaces(group.experiments)  # by which the configurations are renewed the next time
    # it is told of all that will not run
    _restore_search(controller.search_alg, group, trials)
    for trial in trials:
        controller.add_trial(trial)
        controller.remind(trial, _results_of(trial))


def _trials_in(folder: list[Experiment]) -> list[Trial]:
    """Read the trials of the experiments that share a folder."""
    first = folder[0]
    names = [experiment.run_identifier for experiment in folder]
    former = trainable_of(first.storage)
    check_trainable(former if former in names else first.run_identifier, former)
    first.storage.tidy_after_crash()
    for experiment in folder:
        find_previous_space(experiment)
    trials = trials_of(
        first.storage, keeping=lambda *which: _experiment_of(folder, *which).checkpoint_config
    )
    for trial in trials:
        experiment = _experiment_of(folder, trial.trainable_name, trial.experiment_number)
        _renew(trial, experiment)
        _equip(trial, experiment)
    return trials


def _experiment_of(folder: list[Experiment], trainable: str, number: int) -> Experiment:
    """Return the experiment of a trial, by its trainable and its place among those that run it."""
    alike = [experiment for experiment in folder if experiment.run_identifier == trainable]
    if number < len(alike):
        return alike[number]
    raise ExperimentLeftOutError(
        f"{folder[0].path!r} has trials of {number + 1} experiments of {trainable!r}, of which "
        f"{len(alike)} {'was' if len(alike) == 1 else 'were'} given: give all of them again, in "
        f"the same order"
    )


def _renew(trial: Trial, experiment: Experiment) -> None:
    """Give a trial the objects of a space that was given again."""
    if experiment.previous_space is not None:
        space = experiment.spec["config"]
        trial.set_config(renewed(trial.config, experiment.previous_space, space))
        if "config" in trial.last_result:
            trial.last_result["config"] = trial.config
    elif trial.lost_references:
        raise LostDataError(experiment.path, "param_space")


def _results_of(trial: Trial) -> Iterator[dict[str, object]]:
    """Yield a trial's results from its file, which is read only if somebody wants to know."""
    yield from trial.ledger.results()


def check_trainable(name: str, former: str | None) -> None:
    """Refuse to go on with a trainable of another name; changed code under the same is fine."""
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
    trial.storage.tidy_after_crash()
    experiment.note_trial(trial)


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
    search_alg: SearchAlgorithm, group: ExperimentGroup, trials: list[Trial]
) -> None:
    if isinstance(search_alg, BasicVariantGenerator):
        made = {"made": group.counts(trials), **_next_id(trials)}
        search_alg.set_state({**search_alg.get_state(), **made})
        return
    folder = _with_states(group.first.storage)
    if search_alg.has_checkpoint(folder):
        search_alg.restore_from_dir(folder)
    if isinstance(search_alg, SearchGenerator):
        known = search_alg._counter
        _teach(search_alg, trials[:known], trials[known:])
        search_alg._counter = len(trials)
        search_alg._finished = False


def _next_id(trials: list[Trial]) -> dict[str, object]:
    """Return what ids begin with, and the number of the next trial.

    Numbers may be left out: several experiments count together, and not all need be taken up.
    """
    parts = [trial.trial_id.rpartition("_") for trial in trials]
    counted = [(prefix, int(end)) for prefix, _, end in parts if prefix and end.isdecimal()]
    if not counted:
        return {}  # a searcher had made them
    first = counted[0][0]
    number = max(number for prefix, number in counted if prefix == first) + 1
    return {"number": number, "uuid_prefix": f"{first}_"}


def _with_states(storage: Storage) -> str:
    """Return a folder of this machine with what searchers have saved."""
    folder = storage.local_path
    if not storage.is_local:
        for name in storage.names():
            if name.endswith(".pkl"):
                write_atomically(os.path.join(folder, name), storage.read(name))
    return folder


def _teach(search_alg: SearchGenerator, known: list[Trial], unknown: list[Trial]) -> None:
    """Tell the searcher what came of the trials after its state was saved."""
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
