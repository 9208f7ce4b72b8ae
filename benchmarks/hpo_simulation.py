"""Searches on a simulated clock: real searchers and schedulers, trainings out of a table.

    heap of (time, trial) ──► the trial that reports next ──► report: may it go on?
                                                          └─► a place is free: start the next

Who searches is a `Search`: skate's controller with its own searchers and schedulers, a study of
Optuna, or a scheduler of Syne Tune. All have as many places, and are told the same.
"""

from __future__ import annotations

import heapq
import itertools
import random
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from benchmarks.hpo_tables import STEPS, Table

PLACES = 4

Curve = list[tuple[float, float]]
"""(time, regret of the best model so far), at each change; the last is the end of the search."""


@dataclass
class Run:
    """A training that is under way, and how far it is."""

    trial: Any
    config: dict[str, Any]
    step: int = 0


@dataclass
class Books:
    """The best model that a search has seen."""

    table: Table
    loss: float = float("inf")
    curve: Curve = field(default_factory=list)

    def note(self, now: float, run: Run, loss: float) -> None:
        if loss < self.loss:
            self.loss = loss
            self.curve.append((now, self.table.regret(run.config, run.step)))


class Search(ABC):
    """What chooses configurations, and who goes on."""

    @abstractmethod
    def start(self) -> Run | None:
        """Return the training that is to begin, or to go on; `None` if none is now."""

    @abstractmethod
    def report(self, run: Run, loss: float) -> bool:
        """Take a result; return whether the training goes on."""


def simulate(search: Search, table: Table, seed: int) -> Curve:
    """Run a search to its end, and return what it had found at which time."""
    books, order, now = Books(table), itertools.count(), 0.0
    coming: list[tuple[float, int, Run]] = []

    def await_report(run: Run) -> None:
        later = now + table.seconds_per_step(run.config)
        heapq.heappush(coming, (later, next(order), run))

    while True:
        while len(coming) < PLACES and (run := search.start()) is not None:
            await_report(run)
        if not coming:
            books.curve.append((now, books.curve[-1][1]))
            return books.curve
        now, _, run = heapq.heappop(coming)
        run.step += 1
        loss = table.reported(run.config, run.step, seed)
        books.note(now, run, loss)
        if search.report(run, loss):
            await_report(run)


def seed_global_draws(seed: int) -> None:
    """Seed the generators that searchers and schedulers draw from beside their own."""
    random.seed(seed)
    np.random.seed(seed)


# -- skate ----------------------------------------------------------------------------------------


class SkateSearch(Search):
    """skate's controller, told by the clock what a runner would tell it of processes.

    Args:
        table: What is searched.
        trials: How many configurations it may begin.
        seed: Of all draws.
        search_alg: The searcher; `None` draws at random.
        scheduler: The scheduler; `None` runs all trials to their end.
        most_live: How many trials there are at a time, waiting ones too; `None` is no limit.
    """

    def __init__(
        self,
        table: Table,
        trials: int,
        seed: int,
        search_alg: Any,
        scheduler: Any,
        most_live: int | None = None,
    ) -> None:
        from skate import tune
        from skate.train import RunConfig
        from skate.tune.execution.experiment_group import ExperimentGroup
        from skate.tune.execution.launch import new_controller
        from skate.tune.experiment import Experiment

        space = {
            **{name: tune.randint(0, count) for name, count in table.numbers.items()},
            **{name: tune.choice(values) for name, values in table.words.items()},
        }
        place = tempfile.gettempdir()  # named, and never written to
        experiment = Experiment(
            "simulated", lambda config: None, config=space, num_samples=trials, storage_path=place
        )
        tuning = tune.TuneConfig(
            metric="loss",
            mode="min",
            search_alg=search_alg,
            scheduler=scheduler,
            seed=seed,
            max_concurrent_trials=most_live,
        )
        self._controller = new_controller(
            ExperimentGroup([experiment]), tuning, RunConfig(), {"CPU": PLACES}
        )

    def _perform(self, steps: Any) -> Any:
        """Pass over the effects, which are files and callbacks; return what has come of them."""
        try:
            while True:
                next(steps)
        except StopIteration as end:
            return end.value

    def start(self) -> Run | None:
        from skate.tune.execution.events import Began

        trial = self._perform(self._controller.next_trial_to_start())
        if trial is None:
            return None
        self._controller.start(trial)
        self._perform(self._controller.on_event(trial, Began(pid=0)))
        saved = trial.latest_checkpoint_result
        step = saved.metrics["training_iteration"] if saved is not None else 0
        return Run(trial, dict(trial.config), step)

    def report(self, run: Run, loss: float) -> bool:
        from skate.tune.execution.events import Reported, Saved, TrialVerdict

        trial = run.trial
        result = {"loss": loss, "training_iteration": run.step, "config": dict(run.config)}
        name = f"checkpoint_{trial.next_checkpoint:06d}"
        verdict = self._perform(self._controller.on_event(trial, Reported(result, name)))
        while verdict is TrialVerdict.SAVE:
            verdict = self._perform(self._controller.on_event(trial, Saved(None)))
        if verdict is TrialVerdict.GO_ON and run.step < STEPS:
            return True
        self._perform(self._controller.on_released(trial))
        return False


# -- Optuna ---------------------------------------------------------------------------------------


class OptunaStudy(Search):
    """A study that is asked, told and pruned as `study.optimize` does it."""

    def __init__(self, table: Table, trials: int, sampler: Any, pruner: Any) -> None:
        import optuna
        from optuna import distributions

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._left = trials
        self._study = optuna.create_study(sampler=sampler, pruner=pruner)
        self._space: dict[str, Any] = {
            **{
                name: distributions.IntDistribution(0, count - 1)
                for name, count in table.numbers.items()
            },
            **{
                name: distributions.CategoricalDistribution(values)
                for name, values in table.words.items()
            },
        }

    def start(self) -> Run | None:
        if not self._left:
            return None
        self._left -= 1
        trial = self._study.ask(self._space)
        return Run(trial, dict(trial.params))

    def report(self, run: Run, loss: float) -> bool:
        import optuna

        run.trial.report(loss, run.step)
        if run.step == STEPS:
            self._study.tell(run.trial, loss)
            return False
        if run.trial.should_prune():
            self._study.tell(run.trial, state=optuna.trial.TrialState.PRUNED)
            return False
        return True


# -- Syne Tune ------------------------------------------------------------------------------------


class SyneTuneSearch(Search):
    """A scheduler of Syne Tune, called as its tuner calls it.

    Args:
        trials: How many configurations it may begin.
        make: Makes the scheduler of a space.
    """

    def __init__(self, table: Table, trials: int, make: Callable[[dict[str, Any]], Any]) -> None:
        from syne_tune.config_space import choice, randint

        space = {
            **{name: randint(0, count - 1) for name, count in table.numbers.items()},
            **{name: choice(values) for name, values in table.words.items()},
        }
        self._scheduler = make(space)
        self._left = trials
        self._number = itertools.count()
        self._steps: dict[int, int] = {}  # how far a trial is whose model may be taken over

    def start(self) -> Run | None:
        from syne_tune.backend.trial_status import Trial

        if not self._left:
            return None
        suggestion = self._scheduler.suggest()
        if suggestion is None:
            return None
        copied = suggestion.checkpoint_trial_id
        if copied is None:  # one that goes on from the model of another is not a new one
            self._left -= 1
        trial = Trial(next(self._number), suggestion.config, datetime.now())
        self._scheduler.on_trial_add(trial)
        return Run(trial, dict(suggestion.config), 0 if copied is None else self._steps[copied])

    def report(self, run: Run, loss: float) -> bool:
        from syne_tune.optimizer.scheduler import SchedulerDecision

        self._steps[run.trial.trial_id] = run.step
        result = {"loss": loss, "epoch": run.step}
        decision = self._scheduler.on_trial_result(run.trial, result)
        if decision != SchedulerDecision.CONTINUE:
            self._scheduler.on_trial_remove(run.trial)
            return False
        if run.step == STEPS:
            self._scheduler.on_trial_complete(run.trial, result)
            return False
        return True
