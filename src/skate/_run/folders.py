"""A folder, on this machine or on any Arrow or fsspec file system: the few operations that runs
and checkpoints need.

Local folders use the operating system directly, so that nobody pays for importing Arrow who does
not need it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
import uuid
import weakref
from abc import ABC, abstractmethod
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import skate
from skate._core.plain_files import open_plain, read_plain
from skate._run.links import check_links
from skate._run.syncing import make_synced_folders, sync_folder

if TYPE_CHECKING:
    import pyarrow.fs as pafs


COPY_BYTES = 1 << 20


class StorageFolder(ABC):
    """Names are relative to the folder and may contain slashes."""

    path: str

    @property
    @abstractmethod
    def filesystem(self) -> pafs.FileSystem:
        """The Arrow file system that `path` is on."""

    @abstractmethod
    def sub(self, name: str) -> StorageFolder: ...

    @abstractmethod
    def exists(self, name: str = "") -> bool: ...

    @abstractmethod
    def names(self) -> list[str]:
        """List files and folders directly in this one, sorted; none if it does not exist."""

    @abstractmethod
    def read(self, name: str) -> bytes: ...

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Write all or nothing: readers see the old content or the new one."""

    @abstractmethod
    def delete(self, name: str = "") -> None:
        """Delete a file or a folder with all that is in it; nothing happens if it does not
        exist."""

    @abstractmethod
    def rename(self, old: str, new: str) -> None: ...

    @abstractmethod
    def upload(self, local: str) -> None:
        """Copy the content of a local folder into this one, beside what is there."""

    @abstractmethod
    def download(self, local: str) -> None:
        """Copy the content of this folder into a local one, beside what is there.

        Raises:
            OutsideLinkError: If there is a link that leads out of it.
            ValueError: If there is a name that does.
        """

    @abstractmethod
    def __eq__(self, other: object) -> bool: ...

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"


class LocalFolder(StorageFolder):
    """On this machine. What is written to a `synced` one survives a power cut too."""

    synced: bool = False

    def __init__(self, path: str | os.PathLike[str], synced: bool = False) -> None:
        self.path: str = os.path.abspath(os.path.expanduser(path))
        self.synced = synced

    @classmethod
    def known(cls, path: str, synced: bool = False) -> LocalFolder:
        """Return the folder at a path that has nothing to resolve."""
        folder = cls.__new__(cls)
        folder.path = path
        folder.synced = synced
        return folder

    @property
    def filesystem(self) -> pafs.FileSystem:
        import pyarrow.fs as pafs

        return pafs.LocalFileSystem()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalFolder) and self.path == other.path

    def __hash__(self) -> int:
        return super().__hash__()

    def sub(self, name: str) -> StorageFolder:
        if "/" in name or name in (".", ".."):
            return LocalFolder(self._at(name), self.synced)
        return LocalFolder.known(self._at(name), self.synced)

    def exists(self, name: str = "") -> bool:
        return os.path.exists(self._at(name))

    def names(self) -> list[str]:
        try:
            return sorted(os.listdir(self.path))
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes:
        return read_plain(self._at(name))

    def write(self, name: str, data: bytes) -> None:
        place = self._at(name)
        draft = f"{place}.{os.urandom(4).hex()}.draft"
        try:
            file = self._opened(draft)
            try:
                _write_all(file, data, place)
                if self.synced:
                    os.fsync(file)
            finally:
                os.close(file)
            os.replace(draft, place)
            if self.synced:
                sync_folder(os.path.dirname(place))
        except BaseException:
            self.delete(os.path.relpath(draft, self.path))
            raise

    def create(self, name: str, data: bytes) -> None:
        """Write a file that is not there yet: whoever looks meanwhile may see a part of it. One
        that is there is replaced, all or nothing."""
        if self.synced:
            self.write(name, data)
            return
        place = self._at(name)
        try:
            file = self._opened(place)
        except FileExistsError:
            self.write(name, data)
            return
        try:
            _write_all(file, data, place)
        except BaseException:
            os.unlink(place)
            raise
        finally:
            os.close(file)

    def _opened(self, place: str) -> int:
        """Open a new file; its folder is made if it is missing."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(place, flags, 0o666)
        except FileNotFoundError:
            self.make(os.path.dirname(place))
            return os.open(place, flags, 0o666)

    def delete(self, name: str = "") -> None:
        place = self._at(name)
        try:
            if os.path.isdir(place) and not os.path.islink(place):
                shutil.rmtree(place, ignore_errors=True)
            else:
                os.remove(place)
        except FileNotFoundError:
            pass

    def rename(self, old: str, new: str) -> None:
        os.rename(self._at(old), self._at(new))
        if self.synced:
            for folder in {os.path.dirname(self._at(name)) for name in (old, new)}:
                sync_folder(folder)

    def make(self, path: str | None = None) -> None:
        """Make this folder, or another below it, and those above as needed."""
        place = path or self.path
        if self.synced:
            make_synced_folders(place)
            return
        try:
            os.mkdir(place)  # as it mostly is: `makedirs` looks at those above first
        except OSError:
            if not os.path.isdir(place):
                os.makedirs(place, exist_ok=True)

    def upload(self, local: str) -> None:
        copy_tree(local, self.path)

    def download(self, local: str) -> None:
        check_links(self.path)
        copy_tree(self.path, local)

    def _at(self, name: str) -> str:
        return os.path.join(self.path, name) if name else self.path


def copy_tree(source: str, target: str) -> None:
    """Copy the files of a folder into another one, or to a new one.

    Args:
        source: The folder.
        target: Where its files go.

    Raises:
        ValueError: If that is inside of the folder.
        OSError: If something cannot be copied.
    """
    check_outside(source, target)
    shutil.copytree(source, target, copy_function=copy_whole, dirs_exist_ok=True)


def check_outside(source: str, target: str) -> None:
    """Check that a copy of a folder does not go into that folder, where it would be copied again
    and again.

    Args:
        source: The folder to be copied.
        target: Where its copy goes.

    Raises:
        ValueError: If that is inside of it.
    """
    outer, inner = os.path.realpath(source), os.path.realpath(target)
    if inner != outer and os.path.commonpath([outer, inner]) == outer:
        raise ValueError(
            f"the folder {source!r} cannot be copied to {target!r}, which is inside of it: it "
            "would contain itself. Save a checkpoint in a folder of its own, as "
            "tempfile.TemporaryDirectory() makes one, and not in one that contains the run's"
        )


def scratch_dir() -> str | None:
    """Return where a process makes folders that it deletes itself: the `dir` of `tempfile`'s
    functions. A worker may be killed before it does, so that its folders must go with the
    session."""
    return skate.get_runtime_context()._scratch_dir if skate.is_initialized() else None


class TemporaryFolder:
    """A new folder, deleted when nobody has this object any more; at the latest when the process
    ends, or with the session if that is killed, unless it is given up."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._session = scratch_dir()
        self.path = tempfile.mkdtemp(prefix=prefix, dir=self._session)
        self._drop = weakref.finalize(self, _delete_as, os.getpid(), self.path)

    def give_up(self) -> str:
        """Leave the folder to somebody else who will know it, where it outlives the session.
        Return its path from now on; the one that it had holds until the session ends."""
        if self._drop.detach() is not None and self._session is not None:
            place = tempfile.mkdtemp(prefix=self._prefix)
            _move_into(place, self.path)
            os.symlink(place, self.path)
            self.path = place
        return self.path


def folder_for_life_of(owner: object, prefix: str) -> str:
    """Make a folder that is deleted with `owner`, as a `TemporaryFolder` is; return its path."""
    path = tempfile.mkdtemp(prefix=prefix, dir=scratch_dir())
    weakref.finalize(owner, _delete_as, os.getpid(), path)
    return path


def _move_into(place: str, folder: str) -> None:
    """Move a folder to the place of an empty one, which is there at every moment: its name is
    public, and whoever found it free could take it."""
    try:
        os.rename(folder, place)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.copytree(folder, place, symlinks=True, dirs_exist_ok=True)
        shutil.rmtree(folder)


def _delete_as(process: int, folder: str) -> None:
    """Delete the folder, unless this process was forked off: that has the object, not the
    folder."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _write_all(file: int, data: bytes | bytearray, place: str) -> None:
    """Write to a descriptor, which may take a part at a time; `place` is for errors. File objects
    would be asked what they are with three calls more, and a search writes thousands of small
    files."""
    rest: bytes | bytearray | memoryview = data
    try:
        while (written := os.write(file, rest)) < len(rest):
            rest = memoryview(rest)[written:]
    except OSError as error:
        error.filename = place
        raise


def append_whole(place: str, data: bytes | bytearray, synced: bool = False) -> None:
    """Add to a file, all or nothing: a full disk may take a part of what is written without an
    error, and what comes next would be glued to that. If it is to be `synced`, it has arrived on
    the disk then."""
    file = open_plain(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND, follow_links=False)
    try:
        before = os.lseek(file, 0, os.SEEK_END)
        try:
            _write_all(file, data, place)
            if synced:
                os.fsync(file)
        except BaseException:
            os.ftruncate(file, before)
            raise
    finally:
        os.close(file)
    if synced and not before:
        sync_folder(os.path.dirname(place))


def copy_whole(source: str, target: str) -> str:
    """Copy a file, all or nothing: several processes may write the same one at once. A pipe or a
    device, which a folder of others may link to, has no end and is refused."""
    os.close(open_plain(source))
    draft = f"{target}.{uuid.uuid4().hex[:8]}.draft"
    try:
        shutil.copy2(source, draft)
        os.replace(draft, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(draft)
        raise
    return target


class RemoteFolder(StorageFolder):
    """On an Arrow file system; those of fsspec are wrapped into one."""

    def __init__(self, path: str, filesystem: Any) -> None:
        self.path = path.rstrip("/") or "/"
        self._filesystem = filesystem

    @property
    def filesystem(self) -> pafs.FileSystem:
        return self._filesystem

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, RemoteFolder)
            and self.path == other.path
            and bool(self._filesystem == other._filesystem)
        )

    def __hash__(self) -> int:
        return super().__hash__()

    def sub(self, name: str) -> StorageFolder:
        return RemoteFolder(self._at(name), self._filesystem)

    def exists(self, name: str = "") -> bool:
        return bool(self._info(self._at(name)).type)

    def names(self) -> list[str]:
        import pyarrow.fs as pafs

        inside = self._filesystem.get_file_info(pafs.FileSelector(self.path, allow_not_found=True))
        return sorted(PurePosixPath(info.path).name for info in inside)

    def read(self, name: str) -> bytes:
        with self._filesystem.open_input_stream(self._at(name)) as stream:
            return bytes(stream.read())

    def write(self, name: str, data: bytes) -> None:
        place = self._at(name)
        self._filesystem.create_dir(str(PurePosixPath(place).parent), recursive=True)
        draft = f"{place}.{uuid.uuid4().hex[:8]}.draft"
        with self._filesystem.open_output_stream(draft) as stream:
            stream.write(data)
        self._filesystem.move(draft, place)

    def delete(self, name: str = "") -> None:
        import pyarrow.fs as pafs

        place = self._at(name)
        found = self._info(place).type
        if found == pafs.FileType.Directory:
            self._filesystem.delete_dir(place)
        elif found == pafs.FileType.File:
            self._filesystem.delete_file(place)

    def rename(self, old: str, new: str) -> None:
        self._filesystem.move(self._at(old), self._at(new))

    def upload(self, local: str) -> None:
        self._filesystem.create_dir(self.path, recursive=True)
        for folder, folders, files in os.walk(local):
            inside = Path(folder).relative_to(local).as_posix()
            for name in folders:
                self._filesystem.create_dir(self._at(f"{inside}/{name}"), recursive=True)
            for name in files:
                with open(open_plain(os.path.join(folder, name)), "rb") as source:
                    self._copy_in(source, self._at(f"{inside}/{name}"))

    def _copy_in(self, source: Any, place: str) -> None:
        with self._filesystem.open_output_stream(place) as target:
            shutil.copyfileobj(source, target, COPY_BYTES)

    def download(self, local: str) -> None:
        import pyarrow.fs as pafs

        os.makedirs(local, exist_ok=True)
        base = self.path.strip("/")  # some file systems list with a leading slash, some without
        for info in self._filesystem.get_file_info(pafs.FileSelector(self.path, recursive=True)):
            place = _inside(local, info.path.strip("/").removeprefix(base), info.path)
            if info.type == pafs.FileType.Directory:
                os.makedirs(place, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with (
                self._filesystem.open_input_stream(info.path) as source,
                open(place, "wb") as target,
            ):
                shutil.copyfileobj(source, target, COPY_BYTES)

    def _info(self, place: str) -> pafs.FileInfo:
        return self._filesystem.get_file_info([place])[0]

    def _at(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{name.removeprefix('./')}" if name else self.path


def _inside(local: str, name: str, listed: str) -> str:
    """Return the place of a file in a local folder; the name that a store has `listed` is whatever
    somebody has called it."""
    if ".." in PurePosixPath(name).parts:
        raise ValueError(
            f"{listed!r} cannot be copied to {local!r}: its name leads out of the folder. "
            "Rename or delete it where it is stored"
        )
    return os.path.join(local, name.strip("/"))


def folder_at(path: object, filesystem: object = None) -> StorageFolder:
    """Return the folder that a path, a URI, or a path on the given file system means."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            f"expected the path or the URI of a folder; got {type(path).__name__}: {path!r}"
        )
    text = os.fspath(path)
    if filesystem is None and "://" not in text:
        return LocalFolder(text)
    if text.startswith("file://"):
        return LocalFolder(text.removeprefix("file://"))
    if _is_local(filesystem):
        return LocalFolder(text)
    from skate.data._io.paths import resolve

    arrow, place = resolve(text, filesystem)
    return RemoteFolder(place, arrow)


def _is_local(filesystem: object) -> bool:
    return type(filesystem).__name__ == "LocalFileSystem"
