"""What programs take from Ray's tests of training: checkpoints and folders to try things with."""

from __future__ import annotations

import contextlib
import pickle
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle

from skate._run.checkpoint import Checkpoint
from skate.compat.parts.training.storage import StorageContext
from skate.data.preprocessor import Preprocessor

_FILE = "data.pkl"  # programs read and write it themselves, too


class DummyPreprocessor(Preprocessor):
    """Changes single batches by `transform`, if there is one, and datasets not at all."""

    _is_fittable = False

    def __init__(self, transform: Callable[[Any], Any] | None = None) -> None:
        self.id = uuid.uuid4()
        self.has_preprocessed = False
        self._change = transform or (lambda batch: batch)

    def transform_batch(self, data: Any) -> Any:
        self.has_preprocessed = True
        return self._change(data)

    def _transform_pandas(self, df: Any) -> Any:
        return df

    def __eq__(self, other: object) -> bool:
        """Return whether it is equal, as copies of one are."""
        return isinstance(other, DummyPreprocessor) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)


@contextlib.contextmanager
def create_dict_checkpoint(
    checkpoint_dict: dict[str, Any], checkpoint_cls: type[Checkpoint] | None = None
) -> Iterator[Checkpoint]:
    """Make a checkpoint in a temporary folder, as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="checkpoint_") as folder:
        Path(folder, _FILE).write_bytes(cloudpickle.dumps(checkpoint_dict))
        yield (checkpoint_cls or Checkpoint).from_directory(folder)


def load_dict_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return the dict again."""
    with checkpoint.as_directory() as folder:
        place = Path(folder, _FILE)
        return pickle.loads(place.read_bytes()) if place.exists() else checkpoint.to_dict()


def mock_storage_context(
    exp_name: str = "exp_name",
    delete_syncer: bool = True,
    storage_context_cls: type[StorageContext] = StorageContext,
    storage_path: Any = None,
) -> StorageContext:
    """Return the folder of a trial, in a temporary one unless `storage_path` says where. Nothing
    is copied behind the program's back, so that there is no syncer to delete."""
    place = storage_path or tempfile.mkdtemp(prefix="storage_")
    return storage_context_cls(place, exp_name, trial_dir_name="trial_name")


def _create_mock_custom_fs(custom_fs_root_dir: Path) -> Any:
    """Return an Arrow file system whose paths are below a folder, which is made."""
    from fsspec.implementations.dirfs import DirFileSystem
    from fsspec.implementations.local import LocalFileSystem
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    custom_fs_root_dir.mkdir(parents=True, exist_ok=True)
    below = DirFileSystem(path=str(custom_fs_root_dir), fs=LocalFileSystem())
    return PyFileSystem(FSSpecHandler(below))


@contextlib.contextmanager
def _resolve_storage_type(
    storage_path_type: str | None, tmp_path: Path
) -> Iterator[tuple[str | None, Any]]:
    """Yield a place to store a run, and its file system, of a kind: "nfs", "custom_fs" or None."""
    if storage_path_type == "custom_fs":
        yield "mock_bucket", _create_mock_custom_fs(tmp_path / "custom_fs")
    elif storage_path_type in (None, "nfs"):
        yield (str(tmp_path / "fake_nfs") if storage_path_type else None), None
    else:
        raise NotImplementedError(f"there is no {storage_path_type!r} to test with here")
