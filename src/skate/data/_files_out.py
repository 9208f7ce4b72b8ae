"""Writing: a folder, and a file for each block."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow.fs as pafs

from skate.data._blocks import Block
from skate.data._context import driver_threads
from skate.data._paths import resolve
from skate.data._sinks import SaveMode


class FolderInUseError(FileExistsError, ValueError):
    """There are files already. Ray raises a ValueError for that."""


class Folder:
    """Where files go."""

    def __init__(
        self, path: Any, filesystem: Any, try_create_dir: bool, mode: SaveMode | str
    ) -> None:
        self.filesystem, self.path = resolve(path, filesystem)
        self.create = try_create_dir
        self.mode = SaveMode(mode)
        if self.mode is SaveMode.UPSERT:
            raise ValueError("mode='upsert' is for tables with keys; files have none")
        self.uuid = uuid.uuid4().hex

    def prepare(self) -> bool:
        """Make the folder ready; False if nothing is to be written."""
        if self.mode is not SaveMode.APPEND and self._used():
            if self.mode is SaveMode.IGNORE:
                return False
            if self.mode in (SaveMode.ERROR, SaveMode.CREATE):
                raise FolderInUseError(
                    f"the folder {self.path!r} has files; mode='overwrite' replaces them"
                )
            self.filesystem.delete_dir_contents(self.path)
        if self.create:
            self.filesystem.create_dir(self.path, recursive=True)
        return True

    def _used(self) -> bool:
        info = self.filesystem.get_file_info(self.path)
        if info.type == pafs.FileType.NotFound:
            return False
        return bool(self.filesystem.get_file_info(pafs.FileSelector(self.path)))

    def open(self, name: str, **arguments: Any) -> Any:
        place = f"{self.path.rstrip('/')}/{name}"
        if "/" in name and self.create:
            self.filesystem.create_dir(place.rsplit("/", 1)[0], recursive=True)
        return self.filesystem.open_output_stream(place, **{"compression": None, **arguments})


@dataclass(frozen=True)
class TaskContext:
    """What a sink is told about a write."""

    task_idx: int


def write_in_order(
    blocks: Iterator[Block], write: Callable[[Block, int], Any], threads: int | None
) -> list[Any]:
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
