"""params.json and params.pkl in the folder of each trial, and result.json where it is missing."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

import cloudpickle

from skate._run.folders import LocalFolder
from skate._run.ledger import RESULT_FILE
from skate._run.loggers.files import FileLoggerCallback, folder_of
from skate._run.storage import drop_cut_line
from skate._run.types import ResultRow
from skate._run.values import indented, is_plain, to_json

if TYPE_CHECKING:
    from skate._run.callbacks import TrialLike


class JsonLoggerCallback(FileLoggerCallback):
    """Writes a trial's configuration, and one line of JSON per result.

    In a run of skate these lines are those of its ledger, which are there anyway. Elsewhere, as
    with a trial that a program has made itself, they are written here: what a crash cut off is
    dropped, earlier lines are kept.
    """

    def __init__(self, flush_every_s: float = 0.0) -> None:
        super().__init__(flush_every_s)
        self._places: dict[str, str] = {}

    def log_trial_start(self, trial: TrialLike) -> None:
        self.update_config(trial, trial.config)
        if not _has_ledger(trial):
            place = os.path.join(folder_of(trial), RESULT_FILE)
            drop_cut_line(place)
            self._places[trial.trial_id] = place

    def update_config(self, trial: object, config: Any) -> None:
        """Write down a trial's configuration.

        Args:
            trial: The trial.
            config: The configuration.
        """
        folder = LocalFolder.known(folder_of(trial))
        folder.create("params.json", indented(config).encode())
        folder.create("params.pkl", _pickled(config))

    def log_trial_result(self, iteration: int, trial: TrialLike, result: ResultRow) -> None:
        if not _has_ledger(trial):
            self.add(self._places[trial.trial_id], f"{to_json(result)}\n".encode())

    def place_of(self, trial: TrialLike) -> str | None:
        return self._places.get(trial.trial_id)

    def log_trial_end(self, trial: TrialLike, failed: bool = False) -> None:
        super().log_trial_end(trial, failed)
        self._places.pop(trial.trial_id, None)


def _has_ledger(trial: object) -> bool:
    ledger = getattr(trial, "ledger", None)
    return ledger is not None and ledger.is_open


def _pickled(config: Any) -> bytes:
    if is_plain(config):  # which is the same, and takes a tenth of the time
        return pickle.dumps(config)
    try:
        data: bytes = cloudpickle.dumps(dict(config))
    except Exception:  # something that only lives in this process
        data = cloudpickle.dumps({key: repr(value) for key, value in config.items()})
    return data
