"""A controller for schedulers and trials without processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from skate._run.checkpoint import Checkpoint
from skate._run.checkpoint_manager import RecordedCheckpoint
from skate._run.storage import Storage
from skate.tune.experiment import Trial
from skate.tune.schedulers import TrialScheduler
from skate.tune.search import BasicVariantGenerator


class FakeController:
    """Runs traces through a scheduler: it keeps the states of the trials, as a real one does."""

    def __init__(self, scheduler: TrialScheduler, folder: Path, cpus: int = 4) -> None:
        self.scheduler = scheduler
        self.search_alg: Any = BasicVariantGenerator()
        self.trials: list[Trial] = []
        self.saved: list[str] = []
        self.history: dict[str, list[dict[str, Any]]] = {}
        self._storage = Storage(folder, "experiment")
        self._cpus = cpus

    def add(self, name: str, resources: object = None, **config: Any) -> Trial:
        trial = Trial("fake", trial_id=name, config=config, storage=self._storage)
        if resources is not None:
            trial.update_resources(resources)
        self.trials.append(trial)
        self.history[name] = []
        self.scheduler.on_trial_add(self, trial)
        return trial

    def add_known(self, name: str, status: str, **config: Any) -> Trial:
        """One of a search that is taken up: it has ended, or waits."""
        if status not in (Trial.TERMINATED, Trial.ERROR):
            return self.add(name, **config)
        trial = Trial("fake", trial_id=name, config=config, storage=self._storage)
        trial.set_status(status)
        self.trials.append(trial)
        return trial

    def report(self, trial: Trial, **result: Any) -> str:
        """One result of a running trial; the decision, carried out."""
        trial.set_status(Trial.RUNNING)
        trial.update_last_result(result)
        self.history[trial.trial_id].append(result)
        decision = self.scheduler.on_trial_result(self, trial, result)
        if decision == TrialScheduler.STOP:
            trial.set_status(Trial.TERMINATED)
            self.scheduler.on_trial_complete(self, trial, result)
        elif decision == TrialScheduler.PAUSE:
            trial.set_status(Trial.PAUSED)
        return decision

    # -- what schedulers call -----------------------------------------------------------------

    def get_trials(self) -> list[Trial]:
        return self.trials

    def get_live_trials(self) -> list[Trial]:
        return [trial for trial in self.trials if not trial.is_finished()]

    def stop_trial(self, trial: Trial) -> None:
        trial.set_status(Trial.TERMINATED)
        self.scheduler.on_trial_remove(self, trial)

    def save_trial(self, trial: Trial) -> Checkpoint:
        self.saved.append(trial.trial_id)
        made = Checkpoint(f"checkpoint of {trial.trial_id}")
        trial.on_checkpoint(RecordedCheckpoint(made, dict(trial.last_result)))
        return made

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:
        trial.set_status(Trial.PAUSED)

    def adopt_checkpoint(self, trial: Trial, checkpoint: Any, metrics: Any) -> None:
        trial.adopted = os.path.basename(checkpoint.path)

    def total_resources(self) -> dict[str, float]:
        return {"CPU": self._cpus}
