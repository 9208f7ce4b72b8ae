"""The state of an experiment on its way to the file; see experiment/_states.py for the lines."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skate._run.values import to_json
from skate.tune.experiment._states import STATE_FILE, checkpoint_record, packed

if TYPE_CHECKING:
    from skate._run.checkpoint_manager import RecordedCheckpoint
    from skate._run.storage import Storage
    from skate.tune.experiment.trial import Trial

_UPLOAD_EVERY = 1.0  # seconds, where a file cannot be added to


class StateLog:
    """Adds lines; on this machine at once, elsewhere the whole file once a second."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._all: bytearray | None = None
        self._uploaded = float("-inf")
        self._changed = False

    def run(self, **about: Any) -> None:
        """A program begins or takes up the experiment."""
        self._add("run", {"time": time.time(), **about})

    def trial(self, trial: Trial) -> None:
        """A trial was made."""
        self._add("trial", trial.record())

    def config(self, trial: Trial) -> None:
        """A trial has another configuration."""
        record = {
            "trial_id": trial.trial_id,
            "config": packed(trial.config),
            "tag": trial.experiment_tag,
        }
        self._add("config", record)

    def checkpoint(self, trial: Trial, recorded: RecordedCheckpoint) -> None:
        """A checkpoint is complete."""
        self._add("checkpoint", checkpoint_record(trial, recorded))

    def reset(self, trial: Trial) -> None:
        """A trial begins anew, without its checkpoints."""
        self._add("reset", {"trial_id": trial.trial_id})

    def progress(self, trial: Trial) -> None:
        """A trial has ended, or is where it was."""
        self._add("progress", trial.progress())

    def _add(self, kind: str, record: Mapping[str, Any]) -> None:
        line = {"kind": kind, **record}
        if self._storage.is_local:
            self._storage.append(STATE_FILE, line)
            return
        if self._all is None:
            exists = self._storage.exists(STATE_FILE)
            data = self._storage.read(STATE_FILE) if exists else b""
            self._all = bytearray(data[: data.rfind(b"\n") + 1])
        self._all += f"{to_json(line)}\n".encode()
        self._changed = True
        if kind == "checkpoint":
            self.flush()
        else:
            self.flush_if_due()

    def flush_if_due(self) -> None:
        """Upload what has not been, if it is time."""
        if time.monotonic() - self._uploaded > _UPLOAD_EVERY:
            self.flush()

    def flush(self) -> None:
        """Upload what has not been."""
        if self._changed and self._all is not None:
            self._storage.write(STATE_FILE, bytes(self._all))
            self._uploaded = time.monotonic()
            self._changed = False
