"""Writing: a folder, and a file for each block."""

from __future__ import annotations

import os
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.fs as pafs

from skate._core.errors import add_note
from skate.data._arrow.blocks import Block
from skate.data._io.paths import resolve
from skate.data._io.retries import io_attempts
from skate.data._io.sinks import SaveMode
from skate.data._settings.context import driver_threads

if TYPE_CHECKING:
    from skate.data._io.paths import PathLike


# File systems where a file appears when it is complete, and moving it would be writing it again.
_WHOLE_FILES = ("s3", "gcs", "gs", "abfs")


class OutputExistsError(FileExistsError, ValueError):
    """There are files already. Ray raises a ValueError for that."""


def has_whole_files(filesystem: pafs.FileSystem) -> bool:
    """Return whether files appear when they are complete."""
    return any(name in filesystem.type_name for name in _WHOLE_FILES)


def check_inside(folder: str, place: str) -> None:
    """Raise for a file outside of the folder: names may be made of rows, which are data."""
    inside = place.startswith(f"{folder.rstrip('/')}/")
    if not inside or ".." in place[len(folder) :].split("/"):
        raise ValueError(
            f"{place!r} is outside of the folder {folder!r} that is written to; names of files "
            "are relative and have no '..'"
        )


def check_really_inside(filesystem: pafs.FileSystem, folder: str, place: str) -> None:
    """Raise for a file outside of the folder, also by a link: for places that files name, which
    whoever may write to the folder may have written.

    Raises:
        ValueError: If it is outside.
    """
    check_inside(folder, place)
    if not isinstance(filesystem, pafs.LocalFileSystem):
        return
    above, real = map(os.path.realpath, (folder, os.path.dirname(place)))
    if real != above and not real.startswith(f"{above}/"):
        raise ValueError(
            f"{place!r} is outside of the folder {folder!r} that is written to, as a link leads "
            f"to {real!r}"
        )


class OutputFolder:
    """Where files go. Files that are to be replaced stay until the new ones are there: the rows
    may come from them."""

    def __init__(
        self, path: PathLike, filesystem: object, try_create_dir: bool, mode: SaveMode | str
    ) -> None:
        self.filesystem: pafs.FileSystem
        self.path: str
        self.filesystem, self.path = resolve(path, filesystem)
        self.create = try_create_dir
        self.mode: SaveMode = SaveMode(mode)
        if self.mode is SaveMode.UPSERT:
            raise ValueError("mode='upsert' is for tables with keys; files have none")
        self.uuid: str = uuid.uuid4().hex  # of the write, with which names of files begin
        self._given_uuid = False
        self.old: list[pafs.FileInfo] = []  # what the new files replace
        self._made: set[str] = set()
        self._new: dict[str, str] = {}  # where files will be, and where they are until the end
        self._announced: set[str] = set()
        self._naming = threading.Lock()
        self._file_by_file = False
        self._whole_files = has_whole_files(self.filesystem)

    def call_writes(self, uuid: str) -> None:
        """Let names begin with something that the user has chosen, in each write."""
        self.uuid, self._given_uuid = uuid, True

    def begin_anew(self) -> None:
        """Let names of files be others than in the last write, unless the user has chosen them."""
        if not self._given_uuid:
            self.uuid = uuid.uuid4().hex

    def prepare(self) -> bool:
        """Make the folder ready; False if nothing is to be written."""
        if self.mode in (SaveMode.APPEND, SaveMode.OVERWRITE):
            self._check_no_file()
        if self.mode is SaveMode.APPEND:
            return True
        if self.mode is SaveMode.OVERWRITE:
            self.old = self._inside(self.path)
            return True
        if self._is_there(self.path):
            if self.mode is SaveMode.IGNORE:
                return False
            raise OutputExistsError(
                f"Path {self.path!r} already exists; mode='overwrite' replaces its files, "
                "'append' adds to them"
            )
        return True

    def _check_no_file(self) -> None:
        if self.filesystem.get_file_info(self.path).type == pafs.FileType.File:
            raise FileExistsError(
                f"{self.path!r} is a file, and a dataset is written as files in a folder: give "
                "the path of a folder, which need not exist yet"
            )

    def _is_there(self, place: str) -> bool:
        return bool(self.filesystem.get_file_info(place).type != pafs.FileType.NotFound)

    @contextmanager
    def replacing(self, file_by_file: bool = False) -> Iterator[None]:
        """Surround a write: at its end the new files take the place of the old ones; if it fails,
        only the old ones are left, unless files are to be seen one by one as they are written."""
        if file_by_file and self.mode is SaveMode.OVERWRITE:
            raise ValueError(
                "mode='overwrite' removes what earlier runs have written, and "
                "DataContext.checkpoint_config leaves their rows out: use mode='append'"
            )
        self._file_by_file = file_by_file
        self._new.clear()  # of the write before
        try:
            yield
        except BaseException:
            for place in self._new.values():
                with suppress(OSError):  # it may never have been made
                    self._remove(place)
            raise
        self._replace()

    def place_of(self, name: str) -> str:
        """Return the complete path of a file in the folder."""
        return f"{self.path.rstrip('/')}/{name}"

    def announce(self, names: Sequence[str]) -> None:
        """Raise if somebody else's file has one of the names: whoever may remove files of these
        names later asks before."""
        for place in map(self.place_of, names):
            invented = not self._given_uuid and self.uuid in place  # which nobody else has
            if not invented and self._is_there(place):
                raise _two_files_of(place)
            with self._naming:
                if place in self._announced:
                    raise _two_files_of(place)
                self._announced.add(place)

    def write(
        self, place: str, write: Callable[[object], None], open_: Callable[[str], Any]
    ) -> None:
        """Write a file, anew after errors of the store that pass by.

        Args:
            place: The complete path of the file.
            write: Writes the content to the opened file.
            open_: Opens the file; `OutputFolder.open` or what a sink has instead.
        """
        attempts = io_attempts()
        while True:
            try:
                with open_(place) as file:
                    write(file)
                if self._file_by_file:
                    self._show(place, self._new.pop(place, place))
                return
            except Exception as error:
                if not attempts.again(error):
                    add_note(error, f"while writing {place}")
                    raise
                self._new.pop(place, None)  # the name is free for the next attempt

    def open(self, place: str, **arguments: object) -> Any:
        """Open a file to write to, by its complete path."""
        check_inside(self.path, place)
        folder = place.rpartition("/")[0]
        written = self._place_until_the_end(place)
        if self.create and folder not in self._made:  # not before there is something to write
            self.filesystem.create_dir(folder, recursive=True)
            self._made.add(folder)
        return self.filesystem.open_output_stream(written, **{"compression": None, **arguments})

    def _place_until_the_end(self, place: str) -> str:
        """Hide a file until all are written: a write that is cut short leaves nothing that is
        read."""
        folder, _, last = place.rpartition("/")
        with self._naming:
            self._check_name(place)
            hidden = bool(self.old) or not self._whole_files
            self._new[place] = f"{folder}/_{self.uuid}_{last}" if hidden else place
            return self._new[place]

    def _check_name(self, place: str) -> None:
        """Raise if a name that is not ours, which are unique, would replace rows by others."""
        if self.uuid in place:
            return
        if place in self._new or (self.mode is SaveMode.APPEND and self._is_there(place)):
            raise _two_files_of(place)

    def _replace(self) -> None:
        for place, written in self._new.items():
            self._show(place, written)
        kept = {place.strip("/") for place in self._new}
        folders = []
        for info in self.old:
            if info.type == pafs.FileType.Directory:
                folders.append(info.path)
            elif info.path.strip("/") not in kept:
                self._remove(info.path)
        for folder in sorted(folders, reverse=True):  # those inside before those around them
            if not self._inside(folder):
                self.filesystem.delete_dir(folder)

    def _show(self, place: str, written: str) -> None:
        if written != place:
            self.filesystem.move(written, place)

    def _inside(self, folder: str) -> list[pafs.FileInfo]:
        selector = pafs.FileSelector(folder, recursive=True, allow_not_found=True)
        found: list[pafs.FileInfo] = self.filesystem.get_file_info(selector)
        return found

    def _remove(self, place: str) -> None:
        with suppress(FileNotFoundError):
            self.filesystem.delete_file(place)


def _two_files_of(place: str) -> OutputExistsError:
    return OutputExistsError(
        f"two files would be called {place!r}, and the rows of one be lost: the "
        "FilenameProvider must make names of write_uuid and task_index"
    )


@dataclass(frozen=True)
class TaskContext:
    """What a sink is told about a write: the number of the call, and under `kwargs` the id of the
    whole write (`write_uuid`)."""

    task_idx: int
    op_name: str = "Write"
    kwargs: dict[str, Any] = field(default_factory=dict)


def write_in_order(
    blocks: Iterator[Block], write: Callable[[Block, int], object], threads: int | None
) -> list[object]:
    """Call `write` with each block and its number, several at a time; the results in order."""
    count = threads or driver_threads()
    results: list[Any] = []
    pending: deque[Future[Any]] = deque()
    with ThreadPoolExecutor(count, thread_name_prefix="skate-write") as pool:
        try:
            for number, block in enumerate(blocks):
                pending.append(pool.submit(write, block, number))
                while len(pending) > count:
                    results.append(pending.popleft().result())
            results.extend(future.result() for future in pending)
        except BaseException:
            for future in pending:
                future.cancel()
            raise
    return results
