"""Files: how they are found, grouped into tasks, and what is added to their rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from skate._core.errors import add_note
from skate.data._arrow.blocks import Block
from skate.data._execution.transforms import SourceTask
from skate.data._expressions.steps import set_column
from skate.data._io.partitioning import Partitioning, PathPartitionFilter, agreeing
from skate.data._io.paths import File, FilesOnSystem, find
from skate.data._io.retries import items_with_retries
from skate.data._settings.context import DataContext, driver_threads
from skate.data.sources.base import Source

if TYPE_CHECKING:
    from typing_extensions import Self

# What a file that is not as it should be may raise, and what has nothing to do with the file.
_SAYS_ENOUGH = (ValueError, TypeError, OSError, NotImplementedError, ImportError, MemoryError)
ON_BAD_FILES = ("raise", "warn", "skip")


class UnreadableFileError(ValueError):
    """A file is not what its reader expects: of another format, cut off, damaged or hostile."""


@dataclass(frozen=True)
class FileOptions:
    """What all readers of files understand."""

    paths: Any
    filesystem: Any = None
    include_paths: bool = False
    ignore_missing_paths: bool = False
    file_extensions: Sequence[str] | None = None
    partitioning: Partitioning | None = None
    partition_filter: PathPartitionFilter | None = None
    shuffle: Any = None
    on_bad_files: str = "raise"
    arrow_open_stream_args: dict[str, Any] | None = None
    skip_paths: Any = None
    usual_extensions: Sequence[str] = ()  # what else a folder holds beside such files is not read

    def __post_init__(self) -> None:
        if self.on_bad_files not in ON_BAD_FILES:
            raise ValueError(f"on_bad_files takes {ON_BAD_FILES}; got {self.on_bad_files!r}")


@dataclass(frozen=True)
class FileShuffleConfig:
    """Put files into random order.

    Args:
        seed: Makes a second run of the program repeat the order; None does not.
        reseed_after_execution: Whether each execution has another order.
    """

    seed: int | None = None
    reseed_after_execution: bool = True

    def __post_init__(self) -> None:
        if self.seed is not None and not isinstance(self.seed, int):
            raise ValueError(f"Seed must be an integer or None; got {self.seed!r}")

    def get_seed(self, execution_idx: int = 0) -> int | None:
        """Return the seed of one of the executions.

        Args:
            execution_idx: Which one, from 0.
        """
        if self.seed is None or not self.reseed_after_execution:
            return self.seed
        return int(np.random.SeedSequence([self.seed, execution_idx]).generate_state(1)[0])


@dataclass(frozen=True)
class FileSource(Source):
    """Rows of files. Derived classes read one file."""

    options: FileOptions
    place: FilesOnSystem = field(init=False, repr=False)
    block_size: int = field(init=False, repr=False, default=0)  # in bytes, of readers
    multiple: int = field(init=False, repr=False, default=1)  # of rows in a task, where files are
    _executions: list[int] = field(init=False, repr=False)  # how many there were
    rows_per_file: ClassVar[int | None] = None
    growth: ClassVar[float] = 2.0  # bytes in memory for one on disk, about
    trusts_its_files: ClassVar[bool] = False  # and not their paths, where both have a column
    runs_user_code: ClassVar[bool] = False  # whose errors are the user's

    def __post_init__(self) -> None:
        options = self.options
        place = find(
            options.paths,
            options.filesystem,
            options.file_extensions,
            options.ignore_missing_paths,
            options.skip_paths,
            options.usual_extensions,
        )
        object.__setattr__(self, "place", place._replace(files=self._kept(place.files)))
        object.__setattr__(self, "_executions", [0])

    def _kept(self, files: list[File]) -> list[File]:
        chosen = self.options.partition_filter
        if chosen is None:
            return files
        kept: list[File] = []
        for root, group in groupby(files, lambda file: file.root):
            below = list(group)
            paths = set(chosen([file.path for file in below], root))
            kept += [file for file in below if file.path in paths]
        return kept

    def _ordered(self, files: list[File]) -> list[File]:
        shuffle = self.options.shuffle
        if shuffle is None:
            return files
        number = self._executions[0]
        self._executions[0] += 1
        seed = None if shuffle == "files" else shuffle.get_seed(number)
        order = np.random.default_rng(seed).permutation(len(files))
        return [files[number] for number in order]

    @abstractmethod
    def read_file(self, path: str) -> Iterator[Block]:
        """Yield the blocks of one file."""

    def files(self) -> list[str]:
        return [file.path for file in self.place.files]

    def count(self) -> int | None:
        return None if self.rows_per_file is None else len(self.place.files) * self.rows_per_file

    def size_bytes(self) -> int:
        return int(sum(file.size for file in self.place.files) * self.growth)

    def read_tasks(self, parallelism: int | None) -> list[SourceTask]:
        pieces = self.pieces(self._ordered(self.place.files))
        count = parallelism or self._wanted(len(pieces))
        if parallelism is None and self.multiple > 1:
            groups = in_multiples(pieces, count, self.multiple)
        else:
            groups = grouped(pieces, count)
        return [self._task(group) for group in groups]

    def aligned(self, batch_size: int) -> Source:
        return self._with(multiple=batch_size) if self.rows_per_file == 1 else self

    def pieces(self, files: list[File]) -> list[File]:
        """List what tasks are made of: the files, or parts of them."""
        return files

    def _wanted(self, pieces: int) -> int:
        """Choose enough tasks to keep all CPUs busy, and more if the blocks would be large."""
        context = DataContext.get_current()
        total = self.size_bytes()
        at_most = max(1, total // context.target_min_block_size)
        at_least = 2 * total // context.target_max_block_size
        return max(min(4 * driver_threads(), pieces), min(at_most, 16), at_least)

    def _task(self, group: list[File]) -> SourceTask:
        size = int(sum(file.size for file in group) * self.growth)
        names = group[0].path if len(group) == 1 else f"{group[0].path} … {group[-1].path}"
        return SourceTask(
            self.reader(group).read,
            names,
            size,
            None if self.rows_per_file is None else self.rows_per_file * len(group),
            streams=size > 2 * DataContext.get_current().target_max_block_size,
        )

    def reader(self, files: list[File]) -> Any:
        """Make a copy that knows no other files: it travels to a process."""
        alone = replace(self.options, paths=(), partition_filter=None)
        block_size = DataContext.get_current().target_max_block_size
        return self._with(
            options=alone, place=FilesOnSystem(self.place.filesystem, files), block_size=block_size
        )

    def read(self) -> Iterator[Block]:
        """Yield the blocks of all files; those that cannot be read are errors, warned of or left
        out."""
        for file in self.place.files:
            try:
                for block in items_with_retries(partial(self.read_piece, file)):
                    yield self.completed(block, file)
            except Exception as error:
                if self.options.on_bad_files == "raise":
                    named = self.named(error, file)
                    if named is error:
                        raise
                    raise named from error
                if self.options.on_bad_files == "warn":
                    import warnings

                    warnings.warn(f"the file {file.path} is left out: {error}", stacklevel=2)

    def named(self, error: Exception, file: File) -> Exception:
        """Let the error say what file it is about, or return another one if it says nothing
        else."""
        if self.runs_user_code or isinstance(error, _SAYS_ENOUGH):
            add_note(error, f"Failed to read {self.name} file {file.path}{self._hint(error)}")
            return error
        return UnreadableFileError(
            f"cannot read {file.path} as {self.name}: {type(error).__name__}: {error}"
        )

    def _hint(self, error: Exception) -> str:
        handler = getattr(self.place.filesystem, "handler", None)
        if not isinstance(error, FileNotFoundError) or protocol_of(handler) != "memory":
            return ""
        return (
            "; memory:// is the memory of one process, and this is another: put the file on disk, "
            "or call materialize() before the step that runs in tasks"
        )

    def read_piece(self, file: File) -> Iterator[Block]:
        """Yield the blocks of a file or of a part of it."""
        return self.read_file(file.path)

    def completed(self, block: Block, file: File) -> Block:
        """Add the columns that the path tells to the block: those of partitions, and the path
        itself."""
        options = self.options
        if options.partitioning is not None:
            for name, value in options.partitioning.values(file.path, file.root).items():
                if name in block.column_names:
                    if self.trusts_its_files:
                        continue
                    column = agreeing(block[name], value, name, file.path)
                    block = block.set_column(block.column_names.index(name), name, column)
                else:
                    type_ = options.partitioning.type_of(name)
                    block = block.append_column(name, constant(value, block.num_rows, type_))
        if options.include_paths:
            block = set_column(block, "path", constant(file.path, block.num_rows, pa.string()))
        return block

    def open(self, path: str) -> Any:
        """Open the file as a stream; decompressed if its name ends in .gz or the like."""
        given = self.options.arrow_open_stream_args or {}
        return self.place.filesystem.open_input_stream(path, **given)

    def bytes_of(self, path: str) -> bytes:
        given = {"compression": None, **(self.options.arrow_open_stream_args or {})}
        with self.place.filesystem.open_input_stream(path, **given) as stream:
            return bytes(stream.read())

    def _with(self, **changes: object) -> Self:
        """Make a changed copy that keeps what was found out so far."""
        clone = copy(self)
        for name, value in changes.items():
            object.__setattr__(clone, name, value)
        return clone


def protocol_of(handler: object) -> Any:
    """Return what fsspec calls the file system of a handler; None if it is none of fsspec's."""
    protocol = getattr(getattr(handler, "fs", None), "protocol", None)
    return protocol[0] if isinstance(protocol, tuple) else protocol


def constant(value: object, rows: int, type_: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, type_), rows)


def in_multiples(files: list[File], count: int, multiple: int) -> list[list[File]]:
    """Group neighbouring files into at most `count` groups of whole multiples, all but the
    last."""
    each = max(1, -(-len(files) // (count * multiple))) * multiple
    return [files[start : start + each] for start in range(0, len(files), each)]


def grouped(files: list[File], count: int) -> list[list[File]]:
    """Group neighbouring files into at most `count` groups of about equal size."""
    if not files:
        return []
    count = max(1, min(count, len(files)))
    # A file costs something even if it is empty.
    ends = np.cumsum([file.size + 1024 for file in files])
    share = ends[-1] / count
    groups: list[list[File]] = [[] for _ in range(count)]
    for file, end in zip(files, ends, strict=True):
        groups[min(int((end - 1) // share), count - 1)].append(file)
    return [group for group in groups if group]
