"""Sinks: what to derive from for places of your own to write to."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

import skate
from skate._core.enumerations import looked_up_by_value
from skate._core.signature import passing_on
from skate.data._arrow.blocks import Block, Row, concat
from skate.data.block import BlockAccessor

if TYPE_CHECKING:
    from skate.data._io.file_writers import OutputFolder

WriteReturnType = TypeVar("WriteReturnType")


@looked_up_by_value
class SaveMode(str, Enum):
    """Say what a write does with what is there already.

    `UPSERT` is for tables that have keys, which files do not; `CREATE` is another name of `ERROR`.

    Args:
        value: "append", "overwrite", "ignore", "error", "create" or "upsert".
    """

    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"
    CREATE = "create"
    UPSERT = "upsert"

    @classmethod
    def _missing_(cls, value: object) -> SaveMode:
        allowed = ", ".join(repr(member.value) for member in cls)
        raise ValueError(f"mode takes {allowed}; got {value!r}")


@dataclass
class WriteResult(Generic[WriteReturnType]):
    """What was written, and what the calls of `write` returned, in order."""

    num_rows: int
    size_bytes: int
    write_returns: list[WriteReturnType]

    @classmethod
    def combine(cls, *wrs: WriteResult[WriteReturnType]) -> WriteResult[WriteReturnType]:
        return cls(
            sum(each.num_rows for each in wrs),
            sum(each.size_bytes for each in wrs),
            [value for each in wrs for value in each.write_returns],
        )


class Datasink(Generic[WriteReturnType]):
    """A sink of your own, for `write_datasink`: override `write`. `Datasink[str]` says what that
    returns."""

    def get_name(self) -> str:
        """Return the name of the sink, by default that of its class."""
        return type(self).__name__.removesuffix("Datasink").removeprefix("_")

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Prepare, once, before anything is written.

        Args:
            schema: Names and types of the columns, as Arrow has them; None if they are not known
                yet.
        """

    def write(self, blocks: Iterable[Block], ctx: Any) -> WriteReturnType:
        """Write some blocks. Override it.

        Args:
            blocks: Arrow tables.
            ctx: Facts about the call; `ctx.task_idx` counts them.

        Returns:
            What `on_write_complete` is to be told.
        """
        raise TypeError(f"{type(self).__name__} must override write")

    def on_write_complete(self, write_result: WriteResult[WriteReturnType]) -> None:
        """Finish, once, after all was written.

        Args:
            write_result: How many rows and bytes there were, and what each `write` returned.
        """

    def on_write_failed(self, error: BaseException) -> None:
        """Clean up after a write that raised, instead of `on_write_complete`.

        Args:
            error: What was raised.
        """

    # Whether `on_write_start` has found that nothing is to be written: nothing is computed then.
    _skip = False

    def _writing(self, file_by_file: bool) -> AbstractContextManager[None]:
        """Surround all writes; if one fails, the files before it stay if they go one by one."""
        return nullcontext()

    def _output(self) -> OutputFolder | None:
        """Return the folder of a sink that writes files."""
        return None

    def _names_of_files(self, block: Block, ctx: Any) -> Iterable[str]:
        """Return the names of the files that `write` makes of a block."""
        return ()

    @property
    def supports_distributed_writes(self) -> bool:
        """Ray's; writes run in threads of the driver here."""
        return True

    @property
    def resume_folder(self) -> str | None:
        """A folder for the log of a write that can be resumed (`write_datasink(resume=True)`);
        None: the sink cannot do that.

        One that can is pickled, and its `write` is called where the rows are computed. After a
        kill it is called again for the same rows, with the same `ctx.task_idx` and
        `ctx.kwargs["write_uuid"]`, and replaces what the earlier call has left. It returns what
        JSON can hold."""
        return None

    @property
    def min_rows_per_write(self) -> int | None:
        """How many rows a call of `write` gets at least, except the last; None: those of a block.
        Blocks are put together for that, not cut."""
        return None

    @property
    def min_bytes_per_write(self) -> int | None:
        """As `min_rows_per_write`, in bytes."""
        return None


class FilenameProvider:
    """Names of the files that are written: override `get_filename_for_task`. The other two are
    those of older versions of Ray, and are asked where it is not overridden."""

    dataset_uuid: str | None = None
    file_format: str | None = None

    def __init__(self, dataset_uuid: str | None = None, file_format: str | None = None) -> None:
        self.dataset_uuid = dataset_uuid
        self.file_format = file_format

    def get_filename_for_task(self, write_uuid: str, task_index: int) -> str:
        """Name the file of a block."""
        prefix = "" if self.dataset_uuid is None else f"{self.dataset_uuid}_"
        suffix = "" if self.file_format is None else f".{self.file_format}"
        return f"{prefix}{write_uuid}_{task_index:06}{suffix}"

    def get_filename_for_block(
        self, block: Block, write_uuid: str, task_index: int, block_index: int
    ) -> str:
        """Name the file of a block; `block_index` is 0."""
        return self.get_filename_for_task(write_uuid, task_index)

    def get_filename_for_row(
        self, row: Row, write_uuid: str, task_index: int, block_index: int,
        row_index: int,
    ) -> str:  # fmt: skip
        """Name the file of a row; `block_index` is 0."""
        name = PurePosixPath(self.get_filename_for_task(write_uuid, task_index))
        return f"{name.stem}_{block_index:06}_{row_index:06}{name.suffix}"


def name_of_block(
    names: FilenameProvider, block: Block, write_uuid: str, task_index: int, block_index: int = 0
) -> str:
    """Return the name of the file of a block."""
    asked = FilenameProvider if _names_tasks(names) else type(names)
    return asked.get_filename_for_block(names, block, write_uuid, task_index, block_index)


def name_of_row(
    names: FilenameProvider, row: Row, write_uuid: str, task_index: int, row_index: int,
    block_index: int = 0,
) -> str:  # fmt: skip
    """Return the name of the file of a row."""
    asked = FilenameProvider if _names_tasks(names) else type(names)
    return asked.get_filename_for_row(names, row, write_uuid, task_index, block_index, row_index)


def _names_tasks(names: FilenameProvider) -> bool:
    """Return whether a class has names for tasks, as Ray asks for them now: a program that has
    those of older versions as well means them for those. It need not be one of ours."""
    base = FilenameProvider.get_filename_for_task
    return getattr(type(names), "get_filename_for_task", base) is not base


class UniqueNames(FilenameProvider):
    """Names of another provider, each of which has to say which write it is of.

    Parquet files that are added to a folder are read as one dataset with those that are there.
    """

    def __init__(self, names: FilenameProvider) -> None:
        super().__init__()
        self._names = names

    def get_filename_for_block(
        self, block: Block, write_uuid: str, task_index: int, block_index: int
    ) -> str:
        name = name_of_block(self._names, block, write_uuid, task_index, block_index)
        if write_uuid not in name:
            raise ValueError(
                f"Write UUID {write_uuid!r} is missing from filename template {name!r}, so that "
                "a later write would replace the file: let the FilenameProvider put `write_uuid` "
                "into its names, or write with mode='overwrite'"
            )
        return name


class _RowCounter:
    """An actor that remembers how many rows it was given."""

    def __init__(self) -> None:
        self.rows_written = 0

    def write(self, block: Block) -> None:
        self.rows_written += block.num_rows

    def get_rows_written(self) -> int:
        return self.rows_written


class DummyOutputDatasink(Datasink[None]):
    """A sink for tests: counts rows, and how often writing ended well (`num_ok`) or badly
    (`num_failed`). With `enabled = False` each write fails."""

    def __init__(self) -> None:
        self.data_sink: skate.ActorHandle[_RowCounter] = (
            skate.remote(_RowCounter).options(num_cpus=0).remote()
        )
        self.num_ok: int = 0
        self.num_failed: int = 0
        self.enabled = True

    def write(self, blocks: Iterable[Block], ctx: object) -> None:
        if not self.enabled:
            raise ValueError("disabled")
        skate.get([self.data_sink.write.remote(block) for block in blocks])

    def on_write_complete(self, write_result: WriteResult[None]) -> None:
        self.num_ok += 1

    def on_write_failed(self, error: BaseException) -> None:
        self.num_failed += 1


class _FileDatasink(Datasink[None]):
    """Files in a folder; derived classes say what goes into one. `open_stream_args` go to the file
    system's open_output_stream; `dataset_uuid` begins the names of the files."""

    def __init__(
        self,
        path: str,
        *,
        filesystem: object = None,
        try_create_dir: bool = True,
        open_stream_args: dict[str, object] | None = None,
        filename_provider: FilenameProvider | None = None,
        dataset_uuid: str | None = None,
        file_format: str = "bin",
        mode: SaveMode | str = SaveMode.APPEND,
    ) -> None:
        from skate.data._io.file_writers import OutputFolder

        self.folder: OutputFolder = OutputFolder(path, filesystem, try_create_dir, mode)
        if dataset_uuid:
            self.folder.call_writes(dataset_uuid)
        self.filename_provider: FilenameProvider = filename_provider or FilenameProvider(
            file_format=file_format
        )
        self.open_stream_args: dict[str, Any] = open_stream_args or {}
        self.file_format = file_format

    @property
    def path(self) -> str:
        """The folder, as its file system calls it."""
        return self.folder.path

    @path.setter
    def path(self, path: str) -> None:
        self.folder.path = path

    @property
    def filesystem(self) -> object:
        """The file system that the folder is on."""
        return self.folder.filesystem

    @filesystem.setter
    def filesystem(self, filesystem: object) -> None:
        self.folder.filesystem = filesystem

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        self.folder.begin_anew()
        self._skip = not self.folder.prepare()

    def _writing(self, file_by_file: bool) -> AbstractContextManager[None]:
        return self.folder.replacing(file_by_file)

    def _output(self) -> OutputFolder:
        return self.folder

    def open_output_stream(self, path: str) -> object:
        """Open a file to write to.

        Args:
            path: The complete path of the file, which lies inside of the sink's folder.
        """
        return self.folder.open(path, **self.open_stream_args)

    def write(self, blocks: Iterable[Block], ctx: object) -> None:
        block = concat(list(blocks))
        if block.num_rows and not self._skip:
            self.write_block(BlockAccessor(block), 0, ctx)

    def write_block(self, block: BlockAccessor, block_index: int, ctx: object) -> None:
        raise TypeError(f"{type(self).__name__} must override write_block")


class BlockBasedFileDatasink(_FileDatasink):
    """Write one file per block: override `write_block_to_file(block, file)`.

    Args:
        path: The folder, on any file system.
        min_rows_per_file: How many rows a file has at least; None does not care.
        **file_datasink_kwargs: As `RowBasedFileDatasink` takes them: `filesystem`,
            `try_create_dir`, `open_stream_args`, `filename_provider`, `dataset_uuid`,
            `file_format`, `mode`.
    """

    @passing_on(_FileDatasink.__init__)
    def __init__(
        self, path: str, *, min_rows_per_file: int | None = None, **file_datasink_kwargs: Any
    ) -> None:
        super().__init__(path, **file_datasink_kwargs)
        self._min_rows_per_file = min_rows_per_file

    @property
    def min_rows_per_write(self) -> int | None:
        """How many rows `write` is given at least; None does not care."""
        return self._min_rows_per_file

    def write_block_to_file(self, block: BlockAccessor, file: pa.NativeFile) -> None:
        """Write a block. Override it.

        Args:
            block: The rows; `block.to_arrow()` and the like give them.
            file: The file, open for writing bytes.
        """
        raise TypeError(f"{type(self).__name__} must override write_block_to_file")

    def write_block(self, block: BlockAccessor, block_index: int, ctx: Any) -> None:
        """Write a block to a file of its own.

        Args:
            block: The rows.
            block_index: The number of the block within its call.
            ctx: Facts about the call; `ctx.task_idx` counts them.
        """
        name = self._name(block.to_block(), block_index, ctx)
        write = partial(self.write_block_to_file, block)
        self.folder.write(self.folder.place_of(name), write, self.open_output_stream)

    def _names_of_files(self, block: Block, ctx: Any) -> Iterable[str]:
        return [self._name(block, 0, ctx)]

    def _name(self, block: Block, block_index: int, ctx: Any) -> str:
        return name_of_block(
            self.filename_provider, block, self.folder.uuid, ctx.task_idx, block_index
        )


class RowBasedFileDatasink(_FileDatasink):
    """Write one file per row: override `write_row_to_file(row, file)`.

    Args:
        path: The folder, on any file system.
        filesystem: The file system; None finds it by `path`.
        try_create_dir: Whether to make the folder.
        open_stream_args: More arguments of the file system's open_output_stream.
        filename_provider: Names the files; None numbers them.
        dataset_uuid: What names of files begin with; None invents it.
        file_format: The extension of the files.
        mode: What happens to a folder that has files: a `SaveMode`.
    """

    def write_row_to_file(self, row: Row, file: pa.NativeFile) -> None:
        """Write a row. Override it.

        Args:
            row: The row, as a dictionary.
            file: The file, open for writing bytes.
        """
        raise TypeError(f"{type(self).__name__} must override write_row_to_file")

    def write_block(self, block: BlockAccessor, block_index: int, ctx: Any) -> None:
        """Write the rows of a block to files of their own.

        Args:
            block: The rows.
            block_index: The number of the block within its call.
            ctx: Facts about the call; `ctx.task_idx` counts them.
        """
        for number, row in enumerate(block.iter_rows()):
            name = self._name(row, number, block_index, ctx)
            write = partial(self.write_row_to_file, row)
            self.folder.write(self.folder.place_of(name), write, self.open_output_stream)

    def _names_of_files(self, block: Block, ctx: Any) -> Iterable[str]:
        rows = BlockAccessor(block).iter_rows()
        return [self._name(row, number, 0, ctx) for number, row in enumerate(rows)]

    def _name(self, row: Row, number: int, block_index: int, ctx: Any) -> str:
        return name_of_row(
            self.filename_provider, row, self.folder.uuid, ctx.task_idx, number, block_index
        )
