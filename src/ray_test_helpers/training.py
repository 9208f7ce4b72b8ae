"""What programs take from Ray's tests of training: checkpoints and folders to try things with."""

from __future__ import annotations

import contextlib
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle

from skate._run.checkpoint import Checkpoint
from skate.compat.parts.training.storage import StorageContext

_FILE = "data.pkl"  # programs read and write it themselves, too


@contextlib.contextmanager
def create_dict_checkpoint(
    checkpoint_dict: dict[str, Any], checkpoint_cls: type[Checkpoint] | None = None
) -> Iterator[Checkpoint]:
    """A checkpoint in a temporary folder, as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="checkpoint_") as folder:
        Path(folder, _FILE).write_bytes(cloudpickle.dumps(checkpoint_dict))
        yield (checkpoint_cls or Checkpoint).from_directory(folder)


def load_dict_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """The dict again."""
    with checkpoint.as_directory() as folder:
        place = Path(folder, _FILE)
        return pickle.loads(place.read_bytes()) if place.exists() else checkpoint.to_dict()


def mock_storage_context(
    exp_name: str = "exp_name",
    delete_syncer: bool = True,
    storage_context_cls: type[StorageContext] = StorageContext,
    storage_path: Any = None,
) -> StorageContext:
    """The folder of a trial, in a temporary one unless `storage_path` says where. Nothing is
    copied behind the program's back, so that there is no syncer to delete."""
    place = storage_path or tempfile.mkdtemp(prefix="storage_")
    return storage_context_cls(place, exp_name, trial_dir_name="trial_name")
