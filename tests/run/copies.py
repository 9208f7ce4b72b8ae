"""A training loop in a module of its own: workers import what is imported beside it."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from pathlib import Path
from typing import Any

import skate.train
from skate.train import Checkpoint


def report_a_copy(config: Any) -> None:
    """Report the model that came as it is, then one that was made here."""
    came = skate.train.get_checkpoint()
    assert came is not None
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(Path(came.path) / "model.pkl", folder)
        skate.train.report({"n": 0}, checkpoint=Checkpoint(folder))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.pkl").write_bytes(pickle.dumps({"an": "estimator"}))
        skate.train.report({"n": 1}, checkpoint=Checkpoint(folder))
