"""Dataset: files and other places for its rows.

Files are numbered in the order of the rows, so that reading the folder gives the same order.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa

from skate._core.argument_checks import unknown_names
from skate._core.nearest import unknown_parameter
from skate._core.optional_imports import try_import
from skate._core.plain_errors import methods_failing_plainly
from skate._core.signature import showing_keywords
from skate.data._api.consuming import Consuming
from skate.data._arrow.blocks import (
    Block,
    check_columns,
    concat,
    numpy_of,
    pandas_of,
    rows_of,
    without_extensions,
)
from skate.data._arrow.tensors import type_text
from skate.data._io.file_writers import OutputFolder, TaskContext, write_in_order
from skate.data._io.partitioning import hive_folder, partition_style
from skate.data._io.resumable import (
    FileOutput,
    Split,
    Write,
    cut,
    resumed_files,
    resumed_sink,
    write_stage,
)
from skate.data._io.row_checkpoints import WriteRun, run_of_write, warn_without_ids
from skate.data._io.sinks import (
    Datasink,
    FilenameProvider,
    SaveMode,
    UniqueNames,
    WriteResult,
    name_of_block,
    name_of_row,
)
from skate.data._io.write_keywords import (
    CSVWriteKeywords,
    JSONWriteKeywords,
    ORCWriteKeywords,
    ParquetWriteKeywords,
    WriteKeywords,
    meanings,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from skate.data._io.paths import PathLike

_RESUMED = "resume=True, which has notes of its own"


@methods_failing_plainly
class Writing(Consuming):
    """Keywords of all that write files: filesystem, try_create_dir, filename_provider,
    min_rows_per_file (num_rows_per_file; blocks are put together, not cut), max_rows_per_file,
    concurrency (files written at a time), arrow_open_stream_args (for the file system), mode
    ("append"; "overwrite", which removes the old files at the end; "ignore"; "error"), a function
    that returns more keywords for the library that writes (arrow_parquet_args_fn,
    arrow_csv_args_fn, pandas_json_args_fn), and resume: with True a write that was cut short, by
    whatever, goes on where it was when the same program runs again, and has each row once."""

    @showing_keywords(meanings(ParquetWriteKeywords), open_ended=True)
    def write_parquet(
        self,
        path: PathLike,
        *,
        partition_cols: list[str] | None = None,
        partitioning_flavor: str | None = "hive",
        schema: pa.Schema | None = None,
        **options: Unpack[ParquetWriteKeywords],
    ) -> None:
        """Write Parquet files; tensors come back as tensors.

        Args:
            path: The folder, on any file system; one file per block is written into it.
            partition_cols: Columns by whose values the rows are put into folders. They are read
                back as text unless `Partitioning(field_types=...)` says what they are.
            partitioning_flavor: How folders are called: "hive" is `key=value`, None the value
                alone, and "filename" puts the values at the beginning of the file's name.
            schema: What types the columns have; None keeps them.
            **options: `filesystem`, `mode` ("append", "overwrite", "error" or "ignore"),
                `try_create_dir`, `filename_provider`, `min_rows_per_file`, `max_rows_per_file`,
                `arrow_open_stream_args`, `concurrency`, `resume` (True: run after a kill, it goes
                on where it was); others go to pyarrow.parquet.write_table.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     skate.data.range(3).write_parquet(folder)
            ...     skate.data.read_parquet(folder).count()
            3
        """
        from pyarrow import parquet

        files = _FileOptions(path, dict(options))
        if "compression" in files.stream:  # of the columns: a compressed file is no Parquet file
            files.rest["compression"] = files.stream.pop("compression")
        style, rest = partition_style(partitioning_flavor), files.rest

        def write(block: Block, file: object, number: str) -> None:
            if schema is not None:
                inside = [field for field in schema if field.name in block.column_names]
                block = block.select([field.name for field in inside]).cast(pa.schema(inside))
            parquet.write_table(block, file, **rest)

        names = files.names_for("parquet")
        if files.folder.mode is SaveMode.APPEND:
            names = UniqueNames(names)
        split = partial(_by_folder, names, partition_cols, style)
        self._write_blocks(files, "parquet", write, split)

    @showing_keywords(meanings(CSVWriteKeywords), open_ended=True)
    def write_csv(self, path: PathLike, **options: Unpack[CSVWriteKeywords]) -> None:
        """Write CSV files.

        Args:
            path: The folder, on any file system; one file per block is written into it.
            **options: Those of `write_parquet`; others go to pyarrow.csv.write_csv.

        Raises:
            ValueError: If there are tensors, lists or dictionaries, which CSV has not.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     skate.data.range(3).write_csv(folder)
            ...     skate.data.read_csv(folder).count()
            3
        """
        from pyarrow import csv

        files = _FileOptions(path, dict(options))
        rest = files.rest

        def write(block: Block, file: object, number: str) -> None:
            _check_flat(block)
            csv.write_csv(block, file, **rest)

        self._write_blocks(files, "csv", write)

    @showing_keywords(meanings(JSONWriteKeywords), open_ended=True)
    def write_json(self, path: PathLike, **options: Unpack[JSONWriteKeywords]) -> None:
        """Write files with one JSON object per line.

        Args:
            path: The folder, on any file system; one file per block is written into it.
            **options: Those of `write_parquet`; others go to pandas' to_json.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     skate.data.range(3).write_json(folder)
            ...     skate.data.read_json(folder).count()
            3
        """
        files = _FileOptions(path, dict(options))
        arguments = {"orient": "records", "lines": True, **files.rest}

        def write(block: Block, file: BinaryIO, number: str) -> None:
            text = io.StringIO()
            pandas_of(without_extensions(block)).to_json(text, **arguments)
            file.write(text.getvalue().encode())

        self._write_blocks(files, "json", write)

    @showing_keywords(meanings(WriteKeywords))
    def write_numpy(
        self, path: PathLike, *, column: str, **options: Unpack[WriteKeywords]
    ) -> None:
        """Write .npy files of one column.

        Args:
            path: The folder, on any file system; one file per block is written into it.
            column: The column: of numbers, or of tensors of one shape.
            **options: Those of `write_parquet`, without others.
        """
        import numpy as np

        files = _FileOptions(path, dict(options))
        files.nothing_left()

        def write(block: Block, file: BinaryIO, number: str) -> None:
            check_columns([column], block.column_names)
            content = io.BytesIO()
            array = numpy_of(block.select([column]))[column]
            if array.dtype.kind == "O":
                kind = type_text(block[column].type)
                raise TypeError(
                    f"column {column!r} is {kind}, and .npy files hold numbers, or tensors of one "
                    "shape without any missing; bring them to one shape, or use write_parquet"
                )
            np.save(content, array)
            file.write(content.getvalue())

        self._write_blocks(files, "npy", write)

    @showing_keywords(meanings(ORCWriteKeywords), open_ended=True)
    def write_orc(self, path: PathLike, **options: Unpack[ORCWriteKeywords]) -> None:
        """Write ORC files; tensors become lists.

        Args:
            path: The folder, on any file system; one file per block is written into it.
            **options: Those of `write_parquet`; others go to pyarrow.orc.write_table.

        Raises:
            ValueError: If `arrow_open_stream_args` would compress the file as a whole.
        """
        try_import("pyarrow.orc", "data")
        files = _FileOptions(path, dict(options))
        if "compression" in files.stream:
            raise ValueError(
                f"a compressed file is no ORC file; got arrow_open_stream_args={files.stream!r}: "
                "write_orc(path, compression='zstd') compresses what is inside"
            )

        rest = files.rest

        def write(block: Block, file: BinaryIO, number: str) -> None:
            from pyarrow import orc

            orc.write_table(without_extensions(block), file, **rest)

        self._write_blocks(files, "orc", write)

    @showing_keywords(meanings(WriteKeywords))
    def write_tfrecords(
        self, path: PathLike, *, tf_schema: object = None, **options: Unpack[WriteKeywords]
    ) -> None:
        """Write TFRecord files of tf.train.Example; tensors as tf.io.parse_tensor reads them.

        Args:
            path: The folder, on any file system; one file per block is written into it.
            tf_schema: What the columns hold, as a Schema of tensorflow_metadata.
            **options: Those of `write_parquet`, without others.
        """
        from skate.data.sources import tf_examples, tfrecords

        files = _FileOptions(path, dict(options))
        files.nothing_left()
        kinds = tf_examples.kinds_of_schema(tf_schema)

        def write(block: Block, file: BinaryIO, number: str) -> None:
            tfrecords.write_examples(block, file, kinds)

        self._write_blocks(files, "tfrecords", write)

    @showing_keywords(meanings(WriteKeywords))
    def write_webdataset(
        self, path: PathLike, *, encoder: object = True, **options: Unpack[WriteKeywords]
    ) -> None:
        """Write WebDataset archives: columns are named by extensions, `__key__` names the sample.

        Args:
            path: The folder, on any file system; one archive per block is written into it.
            encoder: True (values become bytes by their extensions), a function of samples that
                returns what is written, None for columns of bytes and text, or a list of these.
            **options: Those of `write_parquet`, without others.
        """
        from skate.data.sources.webdataset import archive_of

        files = _FileOptions(path, dict(options))
        files.nothing_left()

        def write(block: Block, file: BinaryIO, number: str) -> None:
            file.write(archive_of(rows_of(block, plain=False), number, encoder))

        self._write_blocks(files, "tar", write)

    @showing_keywords(meanings(WriteKeywords))
    def write_images(
        self,
        path: PathLike,
        column: str,
        file_format: str = "png",
        **options: Unpack[WriteKeywords],
    ) -> None:
        """Write one image file per row, of the arrays in a column.

        Args:
            path: The folder, on any file system.
            column: The column.
            file_format: The format, as the extension of the files.
            **options: Those of `write_parquet`, without others.
        """
        try_import("PIL.Image", "data")
        files = _FileOptions(path, dict(options))
        files.nothing_left()

        def write(block: Block, file: BinaryIO, number: str) -> None:
            from PIL import Image

            check_columns([column], block.column_names)
            (row,) = rows_of(block, plain=False)
            content = io.BytesIO()
            try:
                Image.fromarray(row[column]).save(content, format=file_format)
            except (AttributeError, OSError, TypeError) as error:
                raise _no_image(row[column], column, file_format) from error
            file.write(content.getvalue())

        split = partial(_by_row, files.names_for(file_format))
        self._write_blocks(files, file_format, write, split)

    def write_sql(
        self,
        sql: str,
        connection_factory: Callable[[], Any],
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Insert all rows into a table, by one connection and in one transaction.

        Args:
            sql: What is executed for each row, such as "INSERT INTO t VALUES (?, ?)", with a place
                for each column in order.
            connection_factory: Makes a DB-API connection, such as `lambda:
                sqlite3.connect("a.db")`.
            ray_remote_args: Without effect: there is one connection only.
            concurrency: Without effect, likewise.

        Example:
            >>> import sqlite3, tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     connect = lambda: sqlite3.connect(f"{folder}/a.db")
            ...     _ = connect().execute("CREATE TABLE t (id INTEGER)")
            ...     skate.data.range(3).write_sql("INSERT INTO t VALUES (?)", connect)
            ...     connect().execute("SELECT count(*) FROM t").fetchone()
            (3,)
        """
        warn_without_ids(self._context, "write_sql, which is one transaction")
        connection = connection_factory()
        try:
            for block in self._blocks():
                columns = [column.to_pylist() for column in block.columns]
                connection.cursor().executemany(sql, list(zip(*columns, strict=True)))
            connection.commit()
        finally:
            connection.close()

    def write_datasink(
        self,
        datasink: Datasink[object],
        *,
        ray_remote_args: dict[str, object] | None = None,
        concurrency: int | None = None,
        resume: bool = False,
    ) -> None:
        """Write to a sink of your own, from threads of this process.

        Args:
            datasink: The sink.
            ray_remote_args: Without effect, unless it is resumed: threads need none.
            concurrency: How many threads at a time; None chooses.
            resume: Whether a second run of the program goes on where the first one was cut short,
                see `Datasink.resume_folder`. The sink is then called where rows are computed.
        """
        if resume:
            warn_without_ids(self._context, _RESUMED)
            stage = write_stage(concurrency, ray_remote_args)
            resumed_sink(datasink, self._plan, self._context, self._new_stats(), stage)
            return
        schema = self.schema(fetch_if_missing=False)
        datasink.on_write_start(None if schema is None else schema.base_schema)
        total: WriteResult[Any] = WriteResult(0, 0, [])

        known = {"write_uuid": uuid.uuid4().hex}
        output = datasink._output()
        run = run_of_write(self._plan, self._context, known["write_uuid"], output)

        def write(block: Block, number: int) -> Any:
            ctx = TaskContext(number, "Write", dict(known))
            with run.noting(block, number, lambda: list(datasink._names_of_files(block, ctx))):
                return datasink.write([block], ctx)

        def counted(blocks: Iterator[Block]) -> Iterator[Block]:
            for block in blocks:
                total.num_rows += block.num_rows
                total.size_bytes += block.nbytes
                yield block

        try:
            least = datasink.min_rows_per_write, datasink.min_bytes_per_write
            rows: Iterator[Block] = iter(()) if datasink._skip else self._blocks_of(run)
            blocks = counted(at_least(rows, *least))
            with datasink._writing(run.file_by_file):
                total.write_returns = write_in_order(blocks, write, concurrency)
        except BaseException as error:
            datasink.on_write_failed(error)
            raise
        datasink.on_write_complete(total)
        run.finish()

    def _blocks_of(self, run: WriteRun) -> Iterator[Block]:
        return (bundle.get() for bundle in self._bundles(run.node))

    def _write_blocks(
        self, files: _FileOptions, extension: str, write: Write, split: Split | None = None
    ) -> None:
        split = split or partial(_by_folder, files.names_for(extension), None, hive_folder)
        self._check_keywords(f"write_{extension}", files.rest, write)
        if files.resume:
            warn_without_ids(self._context, _RESUMED)
            output = FileOutput(files.folder, write, split, files.most, files.stream)
            stage = write_stage(files.concurrency, files.remote_args)
            resumed_files(output, extension, self._plan, self._context, self._new_stats(), stage)
            return
        folder = files.folder
        if not folder.prepare():
            return
        run = run_of_write(self._plan, self._context, folder.uuid, folder)

        def one(block: Block, number: int) -> None:
            for name, part in run.noted(block, number, split(block, folder.uuid, number)):
                content = partial(_written_to, write, part, f"{number:06}")
                place = folder.place_of(name)
                folder.write(place, content, partial(folder.open, **files.stream))

        with folder.replacing(run.file_by_file):
            write_in_order(files.cut(self._blocks_of(run)), one, files.concurrency)
        run.finish()

    def _check_keywords(self, method: str, rest: Iterable[str], write: Write) -> None:
        """Raise for keywords that neither a method nor the library that writes knows; newer
        versions of that may know more than we, so that it is asked, with one row."""
        if not rest:
            return
        known = [*signature(getattr(self, method)).parameters][:-1]  # without **options
        for name in rest:
            if name not in known:
                try:
                    write(pa.table({"x": [1]}), io.BytesIO(), "0")
                except TypeError:
                    raise unknown_parameter(method, name, known) from None


def _written_to(write: Write, block: Block, number: str, file: object) -> None:
    write(block, file, number)


_ARGUMENTS_FROM = (
    "arrow_parquet_args_fn", "arrow_csv_args_fn", "arrow_orc_args_fn", "pandas_json_args_fn",
)  # fmt: skip


class _FileOptions:
    """Keywords of the methods that write files; `rest` are those for the library that writes."""

    def __init__(self, path: PathLike, given: dict[str, Any]) -> None:
        take = given.pop
        self.folder = OutputFolder(
            path,
            take("filesystem", None),
            take("try_create_dir", True),
            take("mode", "append"),
        )
        self._names: FilenameProvider | None = take("filename_provider", None)
        self.concurrency: int | None = take("concurrency", None)
        rows, older = take("min_rows_per_file", None), take("num_rows_per_file", None)
        if rows is not None and older is not None:
            raise ValueError("num_rows_per_file is min_rows_per_file by its older name; give one")
        self.rows: int | None = older if rows is None else rows
        self.most: int | None = take("max_rows_per_file", None)
        _check_rows(self.rows, self.most)
        self.stream: dict[str, Any] = dict(take("arrow_open_stream_args", None) or {})
        # Files are written by threads of this process, unless the write can be resumed.
        self.remote_args: dict[str, Any] | None = take("ray_remote_args", None)
        self.resume: bool = take("resume", False)
        if self.resume and self.rows is not None:
            raise ValueError(
                f"min_rows_per_file={self.rows} puts rows of several blocks together, which "
                "resume=True notes one by one: use repartition(target_num_rows_per_block=...)"
            )
        for name in _ARGUMENTS_FROM:
            more = take(name, None)
            if more is not None:
                given.update(more())
        self.rest = given

    def names_for(self, extension: str) -> FilenameProvider:
        return self._names or FilenameProvider(file_format=extension)

    def cut(self, blocks: Iterator[Block]) -> Iterator[Block]:
        return cut(at_least(blocks, self.rows), self.most)

    def nothing_left(self) -> None:
        if self.rest:
            raise unknown_names("a write of files", self.rest, WriteKeywords.__annotations__)


def _check_rows(least: int | None, most: int | None) -> None:
    for name, number in (("min_rows_per_file", least), ("max_rows_per_file", most)):
        if number is not None and number < 1:
            raise ValueError(f"{name} must be a positive integer; got {number}")
    if least is not None and most is not None and least > most:
        raise ValueError(
            f"min_rows_per_file ({least}) cannot be greater than max_rows_per_file ({most})"
        )


def at_least(
    blocks: Iterable[Block], rows: int | None, size: int | None = None
) -> Iterator[Block]:
    """Join neighbouring blocks until there are so many rows and bytes; without both, yield them as
    they come."""
    held: list[Block] = []
    rows_held = bytes_held = 0
    for block in blocks:
        if block.num_rows:
            held.append(block)
            rows_held += block.num_rows
            bytes_held += block.nbytes if size else 0
        if rows_held >= (rows or 1) and bytes_held >= (size or 0):
            yield concat(held)
            held, rows_held, bytes_held = [], 0, 0
    if held:
        yield concat(held)


def _no_image(value: object, column: str, file_format: str) -> TypeError:
    shape, kind = getattr(value, "shape", None), getattr(value, "dtype", type(value).__name__)
    return TypeError(
        f"column {column!r} holds a value of type {kind} and shape {shape}, of which no "
        f"{file_format} image can be made; those are arrays of uint8 with the shape "
        "(height, width) or (height, width, 3)"
    )


def _check_flat(block: Block) -> None:
    """Raise for columns that text in columns cannot hold."""
    for field in block.schema:
        type_ = field.type
        if pa.types.is_nested(type_) or isinstance(type_, pa.BaseExtensionType):
            raise TypeError(
                f"column {field.name!r} is {type_text(type_)}, which CSV has no place for; "
                "drop_columns leaves it out, write_parquet and write_json can hold it"
            )


def _by_folder(
    names: FilenameProvider,
    by: list[str] | None,
    style: Callable[[str, object], str],
    block: Block,
    write_uuid: str,
    number: int,
) -> Iterator[tuple[str, Block]]:
    """Yield the names of the files of a block, and their rows without the columns that names
    say."""
    name = name_of_block(names, block, write_uuid, number)
    if not by:
        yield name, block
        return
    from skate.data.grouped_data import groups_of

    check_columns(by, block.column_names)
    for group in groups_of(block, by):
        prefix = "".join(style(name, group[name][0].as_py()) for name in by)
        yield prefix + name, group.drop_columns(by)


def _by_row(
    names: FilenameProvider, block: Block, write_uuid: str, number: int
) -> Iterator[tuple[str, Block]]:
    """Yield a name for each row, and the row as a block."""
    for index, row in enumerate(rows_of(block, plain=False)):
        name = name_of_row(names, row, write_uuid, number, index)
        yield name, block.slice(index, 1)
