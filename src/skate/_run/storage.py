"""A run's folder: atomic files, lines that survive a cut at any byte, checkpoints.

    storage_path/name/
      params.json  result.json  progress.csv  events.out.tfevents.…
      checkpoints.json           one line per checkpoint that is complete
      checkpoint_000000/         … and its folder, renamed into place when all of it is there

Everything inside is named relative to the folder, so that it can be moved. Where the folder is not
on this machine, loggers write to a local copy that is uploaded as they go.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from skate._core.plain_files import open_plain
from skate._run.checkpoint import Checkpoint
from skate._run.config_checks import checked_durability, default_storage_path
from skate._run.folders import (
    LocalFolder,
    StorageFolder,
    append_whole,
    check_outside,
    folder_at,
    scratch_dir,
)
from skate._run.links import check_foreign_links
from skate._run.own_files import signatures_of_models
from skate._run.syncing import sync_folder, sync_tree
from skate._run.values import as_lines

if TYPE_CHECKING:
    import pyarrow.fs as pafs

    from skate._run.types import ResultRow


DRAFT = ".draft"
REPLACED = ".replaced"


class Storage:
    """`storage_path/name`, on any file system. With `durability="power"`, what is written on this
    machine and has been acknowledged survives a power cut; see `RunConfig`."""

    def __init__(
        self,
        storage_path: object = None,
        name: str = "",
        filesystem: object = None,
        durability: str | None = None,
    ) -> None:
        if filesystem is not None and not storage_path:
            raise ValueError("storage_filesystem needs storage_path, the place on it")
        root = folder_at(storage_path or default_storage_path(), filesystem)
        if isinstance(root, LocalFolder):
            root.synced = checked_durability(durability) == "power"
        self.folder: StorageFolder = root.sub(name) if name else root
        self.experiment_folder: StorageFolder = self.folder
        self._reset_process_state()

    def _reset_process_state(self) -> None:
        """Begin with nothing of what only this process knows."""
        self._staging: str | None = None
        self._drop_staging: Callable[[], Any] = lambda: None
        self._arrived: dict[str, tuple[int, int]] = {}  # staged files as they are in the folder
        self._whole: set[str] = set()  # files whose last line is known to be complete
        self._appending = threading.Lock()

    @classmethod
    def at(cls, path: object, filesystem: object = None) -> Storage:
        """Open the folder of a run that exists."""
        inside = cls.__new__(cls)
        inside.folder = inside.experiment_folder = folder_at(path, filesystem)
        inside._reset_process_state()
        return inside

    def sub(self, name: str) -> Storage:
        """Open a folder inside, as that of one trial."""
        inside = Storage.__new__(Storage)
        inside.folder = self.folder.sub(name)
        inside.experiment_folder = self.experiment_folder
        inside._reset_process_state()
        return inside

    @property
    def path(self) -> str:
        return self.folder.path

    @property
    def filesystem(self) -> pafs.FileSystem:
        return self.folder.filesystem

    @property
    def name(self) -> str:
        return os.path.basename(self.path)

    # What programs for Ray, which see a `StorageContext`, call these. A training run is its own
    # experiment; a trial is a folder in that of its experiment.
    trial_fs_path = path
    trial_dir_name = name
    storage_filesystem = filesystem

    @property
    def experiment_fs_path(self) -> str:
        """The experiment's folder, on the file system."""
        return self.experiment_folder.path

    @property
    def experiment_dir_name(self) -> str:
        """The name of the experiment's folder."""
        return os.path.basename(self.experiment_fs_path)

    @property
    def storage_fs_path(self) -> str:
        """The place of experiments and runs, on the file system."""
        return os.path.dirname(self.experiment_fs_path)

    @property
    def trial_working_directory(self) -> str:
        """The folder on this machine in which a trial writes what belongs to it."""
        return self.local_path

    @property
    def trial_driver_staging_path(self) -> str:
        """The folder on this machine in which loggers write what belongs to a trial."""
        return self.local_path

    def build_checkpoint_path_from_name(self, checkpoint_name: str) -> str:
        """Return where the checkpoint with this name goes, on the file system."""
        return self.folder.sub(checkpoint_name).path

    @property
    def is_local(self) -> bool:
        return isinstance(self.folder, LocalFolder)

    @property
    def synced(self) -> bool:
        """Whether what is written must have arrived on the disk before it counts."""
        return isinstance(self.folder, LocalFolder) and self.folder.synced

    def settle(self, name: str) -> None:
        """Bring to the disk what somebody else has written to a file or a folder in here, before
        anything counts that depends on it."""
        if self.synced and self.exists(name):
            sync_tree(os.path.join(self.path, name))
            sync_folder(self.path)

    @property
    def local_folder(self) -> LocalFolder:
        """Where loggers write, as a folder."""
        folder = self.folder
        return folder if isinstance(folder, LocalFolder) else LocalFolder(self.local_path)

    @property
    def local_path(self) -> str:
        """Where loggers write: the folder itself, or a copy for `sync` to upload."""
        if isinstance(self.folder, LocalFolder):
            if not os.path.isdir(self.path):
                self.folder.make()
            return self.path
        if self._staging is None:
            self._staging = tempfile.mkdtemp(prefix="skate-run-", dir=scratch_dir())
            self._drop_staging = weakref.finalize(self, shutil.rmtree, self._staging, True)
            for name in self.names():
                if name.endswith((".json", ".csv")):  # loggers go on with what is there
                    LocalFolder(self._staging).write(name, self.read(name))
            self._arrived = _stamps(self._staging)
        return self._staging

    def sync(self) -> None:
        """Upload what loggers wrote. Files that they have not touched stay as they are there,
        where others may have added to them."""
        if self._staging is None:
            return
        staged = LocalFolder(self._staging)
        for name, stamp in _stamps(self._staging).items():
            if self._arrived.get(name) != stamp:
                self.folder.write(name, staged.read(name))
                self._arrived[name] = stamp

    def close(self) -> None:
        """Upload, and drop the local copy."""
        if self._staging is not None:
            self.sync()
            self._drop_staging()
            self._staging = None

    # -- files ----------------------------------------------------------------------------------

    def exists(self, name: str = "") -> bool:
        return self.folder.exists(name)

    def names(self) -> list[str]:
        return self.folder.names()

    def read(self, name: str) -> bytes:
        return self.folder.read(name)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, all or nothing."""
        self.folder.write(name, data)

    def delete(self, name: str) -> None:
        self.folder.delete(name)

    # -- lines ----------------------------------------------------------------------------------

    def append(self, name: str, *records: Mapping[str, object]) -> None:
        """Add lines of JSON, from any thread. What a crash left of a last line is dropped
        first."""
        lines = as_lines(records)
        with self._appending:
            self._append(name, lines)

    def _append(self, name: str, lines: bytes) -> None:
        if not self.is_local:
            self.folder.write(name, self._complete_lines(name) + lines)
            return
        place = os.path.join(self.path, name)
        if name not in self._whole:
            self.local_folder.make()
            self._whole.add(name)
            drop_cut_line(place)
        append_whole(place, lines, self.synced)

    def lines(self, name: str) -> list[ResultRow]:
        """Read all complete lines; one that is damaged is passed over."""
        return [record for _, record in readable_lines(self._complete_lines(name))]

    def _complete_lines(self, name: str) -> bytes:
        if not self.exists(name):
            return b""
        data = self.read(name)
        return data[: data.rfind(b"\n") + 1]

    # -- checkpoints ----------------------------------------------------------------------------

    def draft(self, name: str) -> StorageFolder:
        """Return where a checkpoint is written before it is complete, by one process or
        several."""
        return self.folder.sub(name + DRAFT if self.is_local else name)

    def new_draft(self, name: str) -> StorageFolder:
        """Make an empty draft, of the only process that writes to it: what another that died has
        left is no part of this checkpoint."""
        draft = self.draft(name)
        draft.delete()
        if self.is_local:
            os.makedirs(os.path.join(self.local_path, name + DRAFT))
        return draft

    def finish(self, name: str) -> Checkpoint:
        """Let a complete draft count from now on, and drop what had its name before."""
        checkpoint = self.put_into_place(name)
        self.forget_replaced(name)
        return checkpoint

    def put_into_place(self, name: str) -> Checkpoint:
        """Give a complete draft its name. On this machine that is one rename; elsewhere a
        checkpoint counts once it is recorded. One that had the name before is put aside, for
        `take_back` or `forget_replaced`."""
        if self.is_local:
            self.settle(name + DRAFT)
            if self.folder.exists(name):
                self.folder.delete(name + REPLACED)
                self.folder.rename(name, name + REPLACED)
            self.folder.rename(name + DRAFT, name)
        return self.checkpoint(name)

    def forget_replaced(self, name: str) -> None:
        """Drop the checkpoint that had this name before the one that counts. If that came back, it
        would be taken for the one that the next with this name is to replace."""
        if self.is_local and self.exists(name + REPLACED):
            self.folder.delete(name + REPLACED)
            if self.synced:
                sync_folder(self.path)

    def take_back(self, name: str) -> None:
        """Drop the checkpoint with this name, which does not count, for the one that had it
        before."""
        self.folder.delete(name)
        self.folder.rename(name + REPLACED, name)

    def persist(
        self, checkpoint: Checkpoint, name: str, *, written_since: float = math.inf
    ) -> Checkpoint:
        """Copy a checkpoint into the run's folder, all or nothing.

        Args:
            checkpoint: What to copy.
            name: What it is called there.
            written_since: Models written since then are this program's own, and are signed.
        """
        _check_outside(checkpoint, self.draft(name))
        write_into(self.new_draft(name), checkpoint, written_since=written_since)
        return self.finish(name)

    def checkpoint(self, name: str) -> Checkpoint:
        """Return the checkpoint with this name in the run's folder."""
        if self.is_local:
            return Checkpoint(self.folder.sub(name).path)
        return Checkpoint(self.folder.sub(name).path, self.filesystem)

    def tidy_after_crash(self) -> None:
        """Delete what processes that died were writing, and put back what they were to replace."""
        for name in self.names():
            if name.endswith(DRAFT):
                self.delete(name)
            elif name.endswith(REPLACED):
                self._put_back(name.removesuffix(REPLACED))

    def _put_back(self, name: str) -> None:
        """Settle what a process has left that died between the two renames of `put_into_place`, or
        behind them."""
        if self.exists(name):
            self.forget_replaced(name)
        else:
            self.take_back(name)

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "experiment_folder": self.experiment_folder}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.folder = state["folder"]
        self.experiment_folder = state.get("experiment_folder", self.folder)
        self._reset_process_state()

    def __repr__(self) -> str:
        return f"Storage({self.path!r})"


def _check_outside(checkpoint: Checkpoint, folder: StorageFolder) -> None:
    if isinstance(checkpoint._folder, LocalFolder) and isinstance(folder, LocalFolder):
        check_outside(checkpoint.path, folder.path)


def write_into(
    folder: StorageFolder, checkpoint: Checkpoint, *, written_since: float = math.inf
) -> None:
    """Copy the content of a checkpoint into a folder, beside what is there.

    Args:
        folder: Where to.
        checkpoint: What to copy.
        written_since: Models written since then are this program's own, and are signed.

    Raises:
        OutsideLinkError: If it was given to the loop, and has a link that leads out of it.
    """
    _check_outside(checkpoint, folder)
    if isinstance(folder, LocalFolder) and checkpoint._local_path is None:
        checkpoint.to_directory(folder.path)  # a dict, which is signed, or from elsewhere
        return
    with checkpoint.as_directory() as content:
        check_foreign_links(content)
        signatures = signatures_of_models(content, written_since)
        if isinstance(folder, LocalFolder):
            checkpoint._write_into(folder.path, follow_links=True)
        else:
            folder.upload(content)
    for name, signature in signatures.items():
        folder.write(name, signature)


def _stamps(folder: str) -> dict[str, tuple[int, int]]:
    """Note when each file in a folder was changed last, and its size."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            file = os.path.join(place, name)
            if os.path.isfile(file):  # not a link to nowhere
                status = os.stat(file)
                found[os.path.relpath(file, folder)] = status.st_mtime_ns, status.st_size
    return found


def readable_lines(data: bytes) -> Iterator[tuple[bytes, ResultRow]]:
    """Yield each line that is a record, and that record."""
    for line in data.splitlines(keepends=True):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield line, record


def drop_cut_line(place: str) -> None:
    """Drop what a crash left of a last line."""
    try:
        with open(open_plain(place, os.O_RDWR, follow_links=False), "rb+") as file:
            data = file.read()
            if data and not data.endswith(b"\n"):
                file.truncate(data.rfind(b"\n") + 1)
    except FileNotFoundError:
        pass
