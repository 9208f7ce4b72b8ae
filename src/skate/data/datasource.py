"""What to derive from for sources, sinks, partitions and file names of your own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from skate.data._blocks import Block, block_of_batch, rows_of

__all__ = [
    "BlockBasedFileDatasink", "Datasink", "Datasource", "FilenameProvider", "PartitionStyle",
    "Partitioning", "PathPartitionFilter", "ReadTask", "RowBasedFileDatasink", "SaveMode",
]  # fmt: skip


class SaveMode(str, Enum):
    """What a write does with what is there already."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    IGNORE = "ignore"
    ERROR = "error"


class PartitionStyle(str, Enum):
    """How folders carry values: `key=value`, or the values alone."""

    HIVE = "hive"
    DIRECTORY = "dir"


@dataclass(frozen=True)
class Partitioning:
    """Columns whose values are in the names of folders."""

    style: PartitionStyle | str = PartitionStyle.HIVE
    base_dir: str | None = None
    field_names: Sequence[str] | None = None
    field_types: dict[str, type] | None = None

    def __post_init__(self) -> None:
        if PartitionStyle(self.style) is PartitionStyle.DIRECTORY and not self.field_names:
            raise ValueError("partitions of style 'dir' need field_names")

    def values(self, path: str, root: str) -> dict[str, Any]:
        """The values for the file at `path` below `root`."""
        base = (self.base_dir or root).rstrip("/")
        inside = path[len(base) :] if path.startswith(base) else path
        folders = [part for part in inside.split("/")[:-1] if part]
        if PartitionStyle(self.style) is PartitionStyle.HIVE:
            found = dict(part.split("=", 1) for part in folders if "=" in part)
            if self.field_names is not None:
                found = {name: found[name] for name in self.field_names if name in found}
        else:
            assert self.field_names is not None
            if len(folders) != len(self.field_names):
                raise ValueError(
                    f"{path!r} lies in the folders {folders}, which do not fit the partitions "
                    f"{list(self.field_names)}"
                )
            found = dict(zip(self.field_names, folders, strict=True))
        types = self.field_types or {}
        return {name: types.get(name, str)(value) for name, value in found.items()}


class PathPartitionFilter:
    """Keeps the files whose partition values a function accepts."""

    def __init__(
        self, partitioning: Partitioning, filter_fn: Callable[[dict[str, Any]], bool]
    ) -> None:
        self.partitioning = partitioning
        self.filter_fn = filter_fn

    @classmethod
    def of(
        cls,
        filter_fn: Callable[[dict[str, Any]], bool],
        style: PartitionStyle | str = PartitionStyle.HIVE,
        base_dir: str | None = None,
        field_names: Sequence[str] | None = None,
        field_types: dict[str, type] | None = None,
    ) -> PathPartitionFilter:
        return cls(Partitioning(style, base_dir, field_names, field_types), filter_fn)

    def __call__(self, paths: Iterable[str], root: str = "") -> list[str]:
        return [p for p in paths if self.filter_fn(self.partitioning.values(p, root))]


class ReadTask:
    """A piece of a source of yours: `read_fn()` gives blocks or batches."""

    def __init__(
        self,
        read_fn: Callable[[], Iterable[Any]],
        metadata: Any = None,
        schema: pa.Schema | None = None,
        per_task_row_limit: int | None = None,
    ) -> None:
        self.read_fn = read_fn
        self.metadata = metadata
        self.schema = schema
        self.per_task_row_limit = per_task_row_limit

    def __call__(self) -> Iterable[Block]:
        left = self.per_task_row_limit
        for batch in self.read_fn():
            block = block_of_batch(batch)
            if left is not None:
                block = block.slice(0, left)
                left -= block.num_rows
            yield block
            if left == 0:
                return


class Datasource:
    """A source of your own, for `read_datasource`: override `get_read_tasks`."""

    def get_name(self) -> str:
        return type(self).__name__.removesuffix("Datasource")

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, parallelism: int) -> list[ReadTask]:
        """About `parallelism` pieces, in the order of the rows."""
        raise TypeError(f"{type(self).__name__} must override get_read_tasks")


class Datasink:
    """A sink of your own, for `write_datasink`: override `write`."""

    def get_name(self) -> str:
        return type(self).__name__.removesuffix("Datasink")

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        """Called once before anything is written."""

    def write(self, blocks: Iterable[Block], ctx: Any) -> Any:
        """Write some blocks; `ctx.task_idx` counts the calls. What it returns is collected."""
        raise TypeError(f"{type(self).__name__} must override write")

    def on_write_complete(self, write_result: list[Any]) -> None:
        """Called once at the end, with what the writes returned."""

    def on_write_failed(self, error: BaseException) -> None:
        """Called instead if a write raised."""


class FilenameProvider:
    """Names of the files that are written: override one of the two."""

    def get_filename_for_task(self, write_uuid: str, file_format: str, task_index: int) -> str:
        """The name of the file of a block."""
        return f"{write_uuid}_{task_index:06}.{file_format}"

    def get_filename_for_row(
        self, row: dict[str, Any], write_uuid: str, file_format: str, task_index: int,
        row_index: int,
    ) -> str:  # fmt: skip
        """The name of the file of a row."""
        return f"{write_uuid}_{task_index:06}_{row_index:06}.{file_format}"


class _FileDatasink(Datasink):
    """Files in a folder; derived classes say what goes into one."""

    def __init__(
        self,
        path: str,
        *,
        filesystem: Any = None,
        try_create_dir: bool = True,
        filename_provider: FilenameProvider | None = None,
        file_format: str = "bin",
        mode: SaveMode | str = SaveMode.APPEND,
    ) -> None:
        from skate.data._files_out import Folder

        self.folder = Folder(path, filesystem, try_create_dir, mode)
        self.names = filename_provider or FilenameProvider()
        self.file_format = file_format

    def on_write_start(self, schema: pa.Schema | None = None) -> None:
        self.folder.prepare()


class BlockBasedFileDatasink(_FileDatasink):
    """One file per block: override `write_block_to_file(block, file)`."""

    def write_block_to_file(self, block: Any, file: Any) -> None:
        raise TypeError(f"{type(self).__name__} must override write_block_to_file")

    def write(self, blocks: Iterable[Block], ctx: Any) -> Any:
        from skate.data._blocks import concat

        name = self.names.get_filename_for_task(self.folder.uuid, self.file_format, ctx.task_idx)
        with self.folder.open(name) as file:
            self.write_block_to_file(BlockView(concat(list(blocks))), file)


class RowBasedFileDatasink(_FileDatasink):
    """One file per row: override `write_row_to_file(row, file)`."""

    def write_row_to_file(self, row: dict[str, Any], file: Any) -> None:
        raise TypeError(f"{type(self).__name__} must override write_row_to_file")

    def write(self, blocks: Iterable[Block], ctx: Any) -> Any:
        number = 0
        for block in blocks:
            for row in rows_of(block, plain=False):
                name = self.names.get_filename_for_row(
                    row, self.folder.uuid, self.file_format, ctx.task_idx, number
                )
                with self.folder.open(name) as file:
                    self.write_row_to_file(row, file)
                number += 1


class BlockView:
    """A block in the form that a sink likes."""

    def __init__(self, block: Block) -> None:
        self._block = block

    def to_arrow(self) -> Block:
        return self._block

    def to_pandas(self) -> Any:
        from skate.data._blocks import pandas_of

        return pandas_of(self._block)

    def to_numpy(self) -> Any:
        from skate.data._blocks import numpy_of

        return numpy_of(self._block)

    def num_rows(self) -> int:
        return int(self._block.num_rows)
