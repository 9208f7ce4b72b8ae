"""What the ends of Parquet files say: each is read once, several at a time from what is slow."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from skate._core.errors import add_note
from skate.data._io.retries import with_retries

if TYPE_CHECKING:
    import pyarrow.fs as pafs


THREADS = 16  # most of the time is spent waiting for a store
_QUICK_SECONDS = 0.001  # for a file of a disk's cache: starting a thread takes longer
_PATIENCE_SECONDS = 0.01  # for files that are not quick


class Footer(NamedTuple):
    schema: pa.Schema
    rows: int
    groups: tuple[int, ...]  # the sizes of the row groups


class Footers:
    """Of the files on a file system. Bad files raise, or have no footer if they are to be left
    out."""

    def __init__(self, filesystem: pafs.FileSystem, raises: bool) -> None:
        self.known: dict[str, Footer | None] = {}
        self._filesystem = filesystem
        self._raises = raises

    def of(self, paths: Sequence[str]) -> list[Footer]:
        """Return the footers of the good files, in order."""
        unknown = [path for path in paths if path not in self.known]
        if len(unknown) == 1 or self._filesystem.type_name == "local":
            unknown = self._read_while_quick(unknown)
        if unknown:
            with ThreadPoolExecutor(min(THREADS, len(unknown)), "skate-footers") as pool:
                self.known.update(zip(unknown, pool.map(self._read, unknown), strict=True))
        found = (self.known[path] for path in paths)
        return [footer for footer in found if footer is not None]

    def _read_while_quick(self, paths: list[str]) -> list[str]:
        """Read one after the other, and return the rest as soon as that is what takes time, as
        from a disk behind a network."""
        ends = time.monotonic() + _PATIENCE_SECONDS
        for number, path in enumerate(paths):
            if time.monotonic() > ends + number * _QUICK_SECONDS:
                return paths[number:]
            self.known[path] = self._read(path)
        return []

    def _read(self, path: str) -> Footer | None:
        try:
            return with_retries(partial(self._opened, path))
        except Exception as error:
            if not self._raises:
                return None
            add_note(error, f"in the file {path}")
            raise

    def _opened(self, path: str) -> Footer:
        with self._filesystem.open_input_file(path) as stream:
            file = pq.ParquetFile(stream)
            data = file.metadata
            sizes = (data.row_group(n).total_byte_size for n in range(data.num_row_groups))
            return Footer(file.schema_arrow, data.num_rows, tuple(sizes))


def unpacked_bytes(metadata: pq.FileMetaData, schema: pa.Schema, groups: Sequence[int]) -> int:
    """Return at least how much memory row groups take: values that repeat are next to nothing in
    the file.

    Args:
        metadata: What the file says about itself.
        schema: Its columns.
        groups: The numbers of the row groups.
    """
    rows = sum(metadata.row_group(number).num_rows for number in groups)
    bits = sum(_bits(type_) for type_ in schema.types)
    return int(rows * bits // 8)


def _bits(type_: pa.DataType) -> int:
    """Return how much of memory a value takes at least: of a text, where it ends."""
    try:
        return int(type_.bit_width)
    except ValueError:
        return 32
