"""What to derive from for sources, sinks, partitions and file names of your own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skate._core.public_names import name_publicly
from skate._core.signature import showing_keywords
from skate.data._arrow.blocks import Block, block_of_batch
from skate.data._io.partitioning import (
    Partitioning,
    PartitionStyle,
    PathPartitionFilter,
    PathPartitionParser,
)
from skate.data._io.read_keywords import FILES
from skate.data._io.sinks import (
    BlockBasedFileDatasink,
    Datasink,
    DummyOutputDatasink,
    FilenameProvider,
    RowBasedFileDatasink,
    SaveMode,
    WriteResult,
    WriteReturnType,
)
from skate.data.block import BlockMetadata
from skate.data.sources.files import FileShuffleConfig
from skate.data.sources.generated import spans

if TYPE_CHECKING:
    from skate.data._expressions.expression import Expr
    from skate.data._io.paths import Paths
    from skate.data._settings.context import DataContext

__all__ = [
    "BlockBasedFileDatasink", "Datasink", "Datasource", "DummyOutputDatasink",
    "FileBasedDatasource", "FileShuffleConfig", "FilenameProvider", "PartitionStyle",
    "Partitioning", "PathPartitionFilter", "PathPartitionParser", "RandomIntRowDatasource",
    "ReadTask", "Reader", "RowBasedFileDatasink", "SaveMode", "WriteResult", "WriteReturnType",
]  # fmt: skip


class ReadTask:
    """Read a piece of a source of yours.

    Args:
        read_fn: Returns blocks or batches.
        metadata: What is known of the piece: a `BlockMetadata` with rows and bytes, or None.
        schema: Names and types of the columns, as Arrow has them; None is that of the metadata,
            which may be unknown.
        per_task_row_limit: How many rows are needed of it; None is all.
    """

    read_fn: Callable[[], Iterable[Any]]
    metadata: Any
    schema: pa.Schema | None
    per_task_row_limit: int | None

    def __init__(
        self,
        read_fn: Callable[[], Iterable[object]],
        metadata: object = None,
        schema: pa.Schema | None = None,
        per_task_row_limit: int | None = None,
    ) -> None:
        self.read_fn = read_fn
        self.metadata = metadata
        self.schema = getattr(metadata, "schema", None) if schema is None else schema
        self.per_task_row_limit = per_task_row_limit

    def __call__(self) -> Iterable[Any]:
        """Read the piece.

        Returns:
            The blocks, in the form in which `read_fn` makes them.
        """
        if self.per_task_row_limit is None:
            yield from self.read_fn()
            return
        left = self.per_task_row_limit
        for batch in self.read_fn():
            rows = block_of_batch(batch).num_rows
            yield batch if rows <= left else _first_rows(batch, left)
            left -= rows
            if left <= 0:
                return


def _first_rows(batch: Any, count: int) -> Any:
    """Return the beginning of a batch in the form that the batch has."""
    if isinstance(batch, Mapping):
        return {name: column[:count] for name, column in batch.items()}
    return batch.head(count) if hasattr(batch, "head") else batch[:count]


class Reader:
    """A reader of older versions of Ray: what `Datasource.create_reader` returns."""

    def estimate_inmemory_data_size(self) -> int | None:
        return None

    def get_read_tasks(self, parallelism: int) -> list[ReadTask]:
        raise TypeError(f"{type(self).__name__} must override get_read_tasks")


class Datasource:
    """A source of your own, for `read_datasource`: override `get_read_tasks`.

    One that can skip columns or rows says so in `supports_projection_pushdown` or
    `supports_predicate_pushdown`, and looks at `get_projection_map` and `get_current_predicate`.
    """

    _projection: dict[str, str] | None = None
    _predicate: Expr | None = None

    def get_name(self) -> str:
        """Return the name of the source, by default that of its class."""
        return type(self).__name__.removesuffix("Datasource")

    def estimate_inmemory_data_size(self) -> int | None:
        """Return how many bytes all rows have in memory, about; None if that is not known."""
        return None

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Divide the source into pieces, in the order of the rows. Override it.

        Args:
            parallelism: About how many pieces.
            per_task_row_limit: How many rows are needed of each; None is all.
            data_context: The settings of the dataset.
        """
        raise TypeError(f"{type(self).__name__} must override get_read_tasks")

    @property
    def supports_distributed_reads(self) -> bool:
        """Whether other processes can read; if not, the driver does."""
        return True

    # -- fewer columns and rows -----------------------------------------------------------------

    def supports_projection_pushdown(self) -> bool:
        """Return whether the source can leave out columns; by default it cannot."""
        return False

    def get_projection_map(self) -> dict[str, str] | None:
        """Return the columns that are wanted, and their new names; None is all."""
        return self._projection

    def apply_projection(self, projection_map: dict[str, str] | None) -> Datasource:
        """Return the same source giving some columns only.

        Args:
            projection_map: The columns, and their new names; None is all.
        """
        clone = copy.copy(self)
        clone._projection = projection_map
        return clone

    def supports_predicate_pushdown(self) -> bool:
        """Return whether the source can leave out rows; by default it cannot."""
        return False

    def get_current_predicate(self) -> Expr | None:
        """Return what must hold for the rows that are wanted; None is all."""
        return self._predicate

    def apply_predicate(self, predicate_expr: Expr) -> Datasource:
        """Return the same source giving only rows for which something holds, too.

        Args:
            predicate_expr: What must hold.
        """
        clone = copy.copy(self)
        before = self._predicate
        clone._predicate = predicate_expr if before is None else before & predicate_expr
        return clone

    # -- as older versions of Ray had it --------------------------------------------------------

    @property
    def should_create_reader(self) -> bool:
        kind = type(self)
        return (
            kind.create_reader is not Datasource.create_reader
            or kind.prepare_read is not Datasource.prepare_read
        )

    def create_reader(self, **read_args: Any) -> Any:
        """Return the object that is asked for read tasks, as in older versions of Ray.

        Args:
            **read_args: What `read_datasource` was given besides.
        """
        return _Prepared(self, read_args)

    def prepare_read(self, parallelism: int, **read_args: Any) -> Sequence[ReadTask]:
        """Divide the source into pieces, as in older versions of Ray.

        Args:
            parallelism: About how many pieces.
            **read_args: What `read_datasource` was given besides.
        """
        raise TypeError(f"{type(self).__name__} must override get_read_tasks")


class RandomIntRowDatasource(Datasource):
    """Rows of random integers, in columns `c_0`, `c_1` and so on.

    Args:
        n: How many rows.
        num_columns: How many columns.
    """

    def __init__(self, n: int, num_columns: int) -> None:
        self._rows = n
        self._names = [f"c_{number}" for number in range(num_columns)]

    def estimate_inmemory_data_size(self) -> int:
        """Return how many bytes all rows have."""
        return self._rows * len(self._names) * 8

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        """Divide the rows into pieces.

        Args:
            parallelism: About how many pieces.
            per_task_row_limit: How many rows are needed of each; None is all.
            data_context: The settings of the dataset.
        """
        schema = pa.schema([(name, pa.int64()) for name in self._names])
        return [
            ReadTask(
                partial(self._blocks, stop - start),
                BlockMetadata(stop - start, (stop - start) * len(self._names) * 8),
                schema,
                per_task_row_limit,
            )
            for start, stop in spans(self._rows, parallelism)
        ]

    def _blocks(self, rows: int) -> list[Block]:
        random = np.random.default_rng()
        most = np.iinfo(np.int64).max
        return [pa.table({name: random.integers(0, most, rows) for name in self._names})]


class FileReader:
    """Take a datasource to the processes that read it.

    It has what was set after its constructor had run, and not the list of all files.
    """

    def __init__(self, datasource: FileBasedDatasource) -> None:
        self.datasource = datasource

    def __getstate__(self) -> dict[str, object]:
        alone = copy.copy(self.datasource)
        del alone._source
        return {"datasource": alone}


class FileBasedDatasource(Datasource):
    """Files that you read yourself: override `_read_stream(f, path)`, which yields batches.

    `open_stream_args` go to the file system's open_input_stream; the others are as in `read_csv`.
    """

    @showing_keywords(name for name in FILES if name != "arrow_open_stream_args")
    def __init__(
        self,
        paths: Paths,
        *,
        open_stream_args: dict[str, object] | None = None,
        **options: object,
    ) -> None:
        from skate.data._io.paths import is_of_driver
        from skate.data._io.read import file_options
        from skate.data.sources.streams import StreamSource

        options["arrow_open_stream_args"] = open_stream_args
        files = file_options(paths, options)
        if options:
            raise TypeError(f"{type(self).__name__} got unknown arguments {sorted(options)}")
        self._source = StreamSource(files, FileReader(self))
        self._read_by_driver = is_of_driver(paths)

    @property
    def supports_distributed_reads(self) -> bool:
        return not self._read_by_driver

    def _read_stream(self, f: pa.NativeFile, path: str) -> Iterable[object]:
        yield self._read_file(f, path)

    def _read_file(self, f: pa.NativeFile, path: str) -> object:
        """Read all of a file as one batch: what older versions of Ray override."""
        raise TypeError(f"{type(self).__name__} must override _read_stream")

    def _paths(self) -> list[str]:
        return self._source.files()

    def estimate_inmemory_data_size(self) -> int | None:
        return self._source.size_bytes()

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        pieces = self._source.read_tasks(parallelism)
        return [ReadTask(p.read, per_task_row_limit=per_task_row_limit) for p in pieces]


class _Prepared(Reader):
    def __init__(self, datasource: Datasource, arguments: dict[str, object]) -> None:
        self.datasource = datasource
        self.arguments = arguments

    def get_read_tasks(self, parallelism: int) -> list[ReadTask]:
        return list(self.datasource.prepare_read(parallelism, **self.arguments))


name_publicly(__name__)
