"""Datasets of files and other sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skate._core.argument_checks import wrong_type
from skate._core.nearest import unknown_parameter
from skate._core.plain_errors import failing_plainly
from skate._core.signature import showing_keywords
from skate.data._api.base import blocks_wanted, check_least, given_options, tasks_wanted
from skate.data._arrow.foreign import allows_pickle
from skate.data._early_start import expect_tasks
from skate.data._execution.transforms import TensorsOfBytes
from skate.data._io.read_keywords import (
    FILES,
    PLAN,
    REMOTE,
    CSVKeywords,
    JSONKeywords,
    NumpyKeywords,
    ParquetKeywords,
    ReadKeywords,
    SourceKeywords,
    meanings,
)
from skate.data._plan import nodes as plan
from skate.data.dataset import Dataset
from skate.data.datasource import Datasource, Partitioning, PartitionStyle
from skate.data.sources.base import Source
from skate.data.sources.custom import CustomSource
from skate.data.sources.documents import BinarySource, ImageSource, NumpySource, TextSource
from skate.data.sources.files import FileOptions
from skate.data.sources.parquet import ROW_HASH, ParquetSource
from skate.data.sources.tables import CSVSource, JSONSource, ORCSource

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from skate.data._io.paths import Paths

_ARROW = ("read_options", "parse_options", "memory_pool")
HIVE = Partitioning(PartitionStyle.HIVE)
PARQUET_EXTENSIONS = ("parquet", "parq", "pq")
JSON_EXTENSIONS = tuple(
    f"{kind}{compressed}"
    for kind in ("json", "jsonl", "ndjson")
    for compressed in ("", ".gz", ".br", ".zst", ".lz4", ".bz2")
)
IMAGE_EXTENSIONS = ("png", "jpg", "jpeg", "tif", "tiff", "bmp", "gif", "webp")


_FOR_PANDAS_USERS = (
    "; what pandas calls sep and dtype are parse_options=pyarrow.csv.ParseOptions(delimiter=...) "
    "and convert_options=pyarrow.csv.ConvertOptions(column_types=...)"
)


Given = dict[str, Any]  # what was given by name, of which each takes its part


def _taken(given: Given, names: Sequence[str]) -> Given:
    return {name: given.pop(name) for name in names if name in given}


def file_options(paths: Paths, given: Given, **defaults: object) -> FileOptions:
    chosen = {**defaults, **_taken(given, FILES)}
    if "file_extensions" in chosen:  # None is any
        chosen.pop("usual_extensions", None)
    if "arrow_open_file_args" in given:  # as readers of images call it
        chosen["arrow_open_stream_args"] = given.pop("arrow_open_file_args")
    if chosen.get("partitioning") == "hive":
        chosen["partitioning"] = HIVE
    shuffle = chosen.get("shuffle")
    if shuffle not in (None, "files") and not hasattr(shuffle, "seed"):
        raise ValueError(
            f"Invalid value for 'shuffle': {shuffle!r}; it takes None, 'files', FileShuffleConfig"
        )
    return FileOptions(paths, **chosen)


def dataset_of(source: Source, given: Given) -> Dataset:
    """Make the dataset of a source; what is left of the keywords is unknown to the reader."""
    settings = _taken(given, PLAN)
    remote = given_options({**(settings.get("ray_remote_args") or {}), **_taken(given, REMOTE)})
    for name in given:
        raise _unknown(source, name)
    if source.runs_python:
        expect_tasks(type(source).__module__, *source.imports)
    blocks = blocks_wanted(settings.get("parallelism", -1), settings.get("override_num_blocks"))
    concurrency = tasks_wanted(settings.get("concurrency"))
    return Dataset(plan.Read(source, blocks, concurrency, tuple(remote.items())))


def _unknown(source: Source, name: str) -> TypeError:
    """Return the error for a keyword that a reader does not have."""
    reader = f"read_{source.name.removeprefix('Read').lower()}"
    error = unknown_parameter(reader, name, (*FILES, *PLAN, *REMOTE))
    return TypeError(f"{error}{_FOR_PANDAS_USERS}") if isinstance(source, CSVSource) else error


def _left(given: Given, theirs: Sequence[str] | None = None) -> tuple[tuple[str, object], ...]:
    """Take the keywords that are meant for the library that parses, which knows `theirs`."""
    ours = {*FILES, *PLAN, *REMOTE}
    names = [name for name in given if name not in ours and name in (theirs or given)]
    return tuple((name, given.pop(name)) for name in names)


@showing_keywords(meanings(ParquetKeywords))
@failing_plainly
def read_parquet(
    paths: Paths,
    *,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    include_row_hash: bool = False,
    tensor_column_schema: Mapping[str, tuple[object, Sequence[int]]] | None = None,
    allow_pickle: bool = False,
    _block_udf: Callable[[pa.Table], pa.Table] | None = None,
    **options: Unpack[ParquetKeywords],
) -> Dataset:
    """Read Parquet files; files that differ are brought to a common schema.

    Args:
        paths: A file, a folder or several of them, on any file system.
        columns: The columns that are read, or the only one; None is all.
        schema: What types the columns have; None is what the files say.
        include_row_hash: Whether to add the column `row_hash`: a number for each row, of its file
            and its place there, the same in each read.
        tensor_column_schema: Which columns hold the bytes of arrays, and of what type and shape:
            `{"image": (np.uint8, (32, 32))}`.
        allow_pickle: Whether to read columns of Python objects, which are refused otherwise:
            unpickling those of a stranger runs the stranger's code.
        _block_udf: Is called with each block, as map_batches does.
        **options: Those of `read_csv`; `filter`, an expression of pyarrow (`.filter(expr=...)`
            reads less); others go to pyarrow.parquet.ParquetFile, as does what is in
            `dataset_kwargs`.

    Returns:
        A dataset of the rows, which are read when they are used.

    Raises:
        FileNotFoundError: If there is no such file, when it is looked for.
        UntrustedPickleError: If there are Python objects, and they are not allowed.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     skate.data.range(3).write_parquet(folder)
        ...     skate.data.read_parquet(folder, columns=["id"]).sum("id")
        3
    """
    given: dict[str, Any] = dict(options)
    wanted = given.pop("filter", None)
    given.update(_for_files(given.pop("dataset_kwargs", None) or {}))
    arguments = _left(given)
    added = [ROW_HASH] if include_row_hash else []
    added += ["path"] if given.get("include_paths") else []
    columns = _names(columns)
    chosen = tuple(dict.fromkeys([*columns, *added])) if columns is not None else None
    files = file_options(paths, given, partitioning=HIVE, usual_extensions=PARQUET_EXTENSIONS)
    # The filter may be about columns that are not wanted otherwise.
    read = chosen if wanted is None else None
    trusted = allows_pickle(allow_pickle)
    source = ParquetSource(files, read, (), arguments, schema, include_row_hash, trusted)
    rows = dataset_of(source, given)
    if wanted is not None:
        rows = _matching(rows, wanted, chosen)
    rows = _with_tensors(rows, tensor_column_schema)
    if _block_udf is None:
        return rows
    return rows.map_batches(_block_udf, batch_format="pyarrow", batch_size=None)


def _for_files(given: Mapping[str, object]) -> Mapping[str, object]:
    """Check what Ray's users write for pyarrow's ParquetDataset, which knows more than the
    files."""
    taken = [name for name in ("partitioning", "filters", "filesystem", "schema") if name in given]
    if taken:
        raise ValueError(f"dataset_kwargs has {taken}, which read_parquet takes itself")
    return given


def _with_tensors(
    dataset: Dataset, kinds: Mapping[str, tuple[object, Sequence[int]]] | None
) -> Dataset:
    if not kinds:
        return dataset
    wanted = ((name, dtype, tuple(shape)) for name, (dtype, shape) in kinds.items())
    return dataset._mapped(TensorsOfBytes(tuple(wanted)), "TensorsOfBytes", keeps_rows=True)


def _names(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """Return the names of columns; one that is given by itself is no list of letters."""
    if columns is None:
        return None
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _matching(dataset: Dataset, wanted: object, columns: Sequence[str] | None) -> Dataset:
    """Keep the rows that match an expression of pyarrow, which may be about other columns as
    well."""
    rows = dataset.map_batches(
        _rows_where, fn_args=(wanted,), batch_format="pyarrow", batch_size=None
    )
    return rows if columns is None else rows.select_columns(list(columns))


def _rows_where(table: pa.Table, wanted: object) -> pa.Table:
    return table.filter(wanted)


@showing_keywords(meanings(CSVKeywords))
@failing_plainly
def read_csv(paths: Paths, **options: Unpack[CSVKeywords]) -> Dataset:
    r"""Read CSV files.

    Args:
        paths: A file, a folder or several of them, on any file system.
        **options: Those of all readers of files, see below; `read_options`, `parse_options`,
            `convert_options` and `memory_pool` go to pyarrow.csv.open_csv.

    Returns:
        A dataset of the rows, which are read when they are used.

    Raises:
        FileNotFoundError: If there is no such file, when it is looked for.
        TypeError: If there is no such option.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.csv").write_text("x,y\n1,a\n2,b\n")
        ...     skate.data.read_csv(folder).take_all()
        [{'x': 1, 'y': 'a'}, {'x': 2, 'y': 'b'}]
    """
    given = dict(options)
    arguments = _left(given, (*_ARROW, "convert_options"))
    files = file_options(paths, given, partitioning=HIVE)
    return dataset_of(CSVSource(files, arguments), given)


@showing_keywords(meanings(JSONKeywords))
@failing_plainly
def read_json(paths: Paths, *, lines: bool = False, **options: Unpack[JSONKeywords]) -> Dataset:
    r"""Read JSON files: an object per line, or one list of objects per file, as found in the file.

    Args:
        paths: A file, a folder or several of them, on any file system.
        lines: Whether only an object per line is allowed.
        **options: Those of `read_csv`; `read_options`, `parse_options` and `memory_pool` go to
            pyarrow.json.read_json.

    Returns:
        A dataset of the rows, which are read when they are used.

    Raises:
        FileNotFoundError: If there is no such file, when it is looked for.
        ValueError: If `read_options` have a block size below 1.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.jsonl").write_text('{"x": 1}\n{"x": 2}\n')
        ...     skate.data.read_json(f"{folder}/a.jsonl").take_all()
        [{'x': 1}, {'x': 2}]
    """
    given = dict(options)
    arguments = _left(given, _ARROW)
    read_options = options.get("read_options")
    if read_options is not None:
        check_least("read_options.block_size", read_options.block_size, 1)
    files = file_options(paths, given, partitioning=HIVE, usual_extensions=JSON_EXTENSIONS)
    return dataset_of(JSONSource(files, lines, arguments), given)


@showing_keywords(meanings(ReadKeywords))
@failing_plainly
def read_text(
    paths: Paths,
    *,
    encoding: str = "utf-8",
    drop_empty_lines: bool = True,
    **options: Unpack[ReadKeywords],
) -> Dataset:
    r"""Read the lines of text files, into the column `text`.

    Args:
        paths: A file, a folder or several of them, on any file system.
        encoding: How text is encoded.
        drop_empty_lines: Whether empty lines are left out.
        **options: Those of `read_csv`, without others.

    Returns:
        A dataset of the rows, which are read when they are used.

    Raises:
        FileNotFoundError: If there is no such file, when it is looked for.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.txt").write_text("one\n\ntwo\n")
        ...     skate.data.read_text(folder).take_all()
        [{'text': 'one'}, {'text': 'two'}]
    """
    given = dict(options)
    files = file_options(paths, given, partitioning=HIVE)
    return dataset_of(TextSource(files, encoding, drop_empty_lines), given)


@showing_keywords(meanings(ReadKeywords))
@failing_plainly
def read_binary_files(paths: Paths, **options: Unpack[ReadKeywords]) -> Dataset:
    """Read whole files, into the column `bytes`.

    Args:
        paths: A file, a folder or several of them, on any file system.
        **options: Those of `read_csv`, without others; `include_paths=True` adds the column
            `path`.

    Returns:
        A dataset of the rows, which are read when they are used.

    Raises:
        FileNotFoundError: If there is no such file, when it is looked for.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "a.bin").write_bytes(b"abc")
        ...     skate.data.read_binary_files(folder).take_all()
        [{'bytes': b'abc'}]
    """
    given = dict(options)
    files = file_options(paths, given)
    return dataset_of(BinarySource(files), given)


@showing_keywords(meanings(NumpyKeywords))
@failing_plainly
def read_numpy(
    paths: Paths, *, allow_pickle: bool = False, **options: Unpack[NumpyKeywords]
) -> Dataset:
    """Read .npy files, into the column `data`.

    Args:
        paths: A file, a folder or several of them, on any file system.
        allow_pickle: Whether to read arrays of Python objects; see `read_parquet`.
        **options: Those of `read_csv`; others go to numpy.load.

    Returns:
        A dataset of the rows, which are read when they are used.

    Raises:
        FileNotFoundError: If there is no such file, when it is looked for.

    Example:
        >>> import numpy as np
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/a.npy", np.array([5, 6]))
        ...     skate.data.read_numpy(folder).take_all()
        [{'data': 5}, {'data': 6}]
    """
    given = dict(options)
    arguments = _left(given)
    files = file_options(paths, given, file_extensions=["npy"], partitioning=HIVE)
    return dataset_of(NumpySource(files, arguments, allows_pickle(allow_pickle)), given)


@showing_keywords(meanings(ReadKeywords))
@failing_plainly
def read_images(
    paths: Paths,
    *,
    size: Sequence[int] | None = None,
    mode: str | None = None,
    **options: Unpack[ReadKeywords],
) -> Dataset:
    """Read images as arrays, into the column `image`.

    Args:
        paths: A file, a folder or several of them, on any file system.
        size: (height, width) to resize to; without it images are as they are, and of different
            shapes if they differ.
        mode: A mode of Pillow to convert to, such as "RGB"; None keeps what the files have.
        **options: Those of `read_csv`, without others; `include_paths=True` adds the column
            `path`.

    Returns:
        A dataset of the rows, which are read when they are used.

    Raises:
        ValueError: If `size` is not two positive numbers.
        FileNotFoundError: If there is no such file, when it is looked for.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Image.new("RGB", (8, 4)).save(f"{folder}/a.png")
        ...     skate.data.read_images(folder, size=(2, 2)).take(1)[0]["image"].shape
        (2, 2, 3)
    """
    given = dict(options)
    if size is not None and (len(size) != 2 or min(size) < 1):
        raise ValueError(f"size takes (height, width), both positive; got {size}")
    files = file_options(paths, given, file_extensions=IMAGE_EXTENSIONS)
    return dataset_of(
        ImageSource(files, None if size is None else (size[0], size[1]), mode), given
    )


@showing_keywords(meanings(ReadKeywords))
@failing_plainly
def read_tfrecords(
    paths: Paths, *, tf_schema: object = None, **options: Unpack[ReadKeywords]
) -> Dataset:
    """Read TFRecord files of tf.train.Example.

    Args:
        paths: A file, a folder or several of them, on any file system.
        tf_schema: What the features hold, as a Schema of tensorflow_metadata; all columns are
            lists then. Without it those are whose features have several values, or none.
        **options: Those of `read_csv`, without others.

    Returns:
        A dataset of the rows, which are read when they are used.
    """
    given = dict(options)
    from skate.data.sources.tf_examples import kinds_of_schema
    from skate.data.sources.tfrecords import TFRecordSource

    kinds = kinds_of_schema(tf_schema)
    return dataset_of(TFRecordSource(file_options(paths, given), kinds=kinds), given)


@showing_keywords(meanings(ReadKeywords))
@failing_plainly
def read_webdataset(
    paths: Paths,
    *,
    decoder: object = True,
    fileselect: object = None,
    filerename: object = None,
    suffixes: object = None,
    verbose_open: bool = False,
    expand_json: bool = False,
    allow_pickle: bool = False,
    **options: Unpack[ReadKeywords],
) -> Dataset:
    """Read WebDataset archives: a row per sample, a column per extension, `__key__` and `__url__`.

    Args:
        paths: A file, a folder or several of them, on any file system.
        decoder: True (text, numbers, JSON, arrays and images become what they are), "pil" (images
            stay Pillow's), a function of samples, None for bytes, or a list of these.
        fileselect: Files of the archive to read: names, patterns such as "*.txt", or a function.
        filerename: A function, or pairs of patterns and names, for the files before that.
        suffixes: Extensions to read; None is all.
        verbose_open: Whether to print the archives as they are read.
        expand_json: Whether to make columns of what is inside `.json` files.
        allow_pickle: Whether to read pickles, and all of `.pt` and `.pth`, see `read_parquet`;
            without it those of torch are read as plain tensors, and pickles are refused.
        **options: Those of `read_csv`, without others.

    Returns:
        A dataset of the rows, which are read when they are used.
    """
    given = dict(options)
    trusted = allows_pickle(allow_pickle, "RAY_DATA_WEBDATASET_ALLOW_UNSAFE_DESERIALIZATION")
    from skate.data.sources.webdataset import WebDatasetSource, freeze

    chosen = (freeze(decoder), freeze(fileselect), freeze(filerename), freeze(suffixes))
    files = file_options(paths, given)
    return dataset_of(WebDatasetSource(files, *chosen, verbose_open, expand_json, trusted), given)


@showing_keywords(meanings(ReadKeywords))
@failing_plainly
def read_orc(
    paths: Paths, *, columns: Sequence[str] | None = None, **options: Unpack[ReadKeywords]
) -> Dataset:
    """Read ORC files.

    Args:
        paths: A file, a folder or several of them, on any file system.
        columns: The columns that are read, or the only one; None is all.
        **options: Those of `read_csv`, without others.

    Returns:
        A dataset of the rows, which are read when they are used.
    """
    given = dict(options)
    files = file_options(paths, given, usual_extensions=("orc",))
    return dataset_of(ORCSource(files, _names(columns)), given)


@showing_keywords(meanings(SourceKeywords))
@failing_plainly
def read_sql(
    sql: str,
    connection_factory: Callable[[], object],
    *,
    sql_params: object = None,
    shard_keys: Sequence[str] | None = None,
    shard_hash_fn: str = "MD5",
    **options: Unpack[SourceKeywords],
) -> Dataset:
    """Read the rows of a query.

    Args:
        sql: The query.
        connection_factory: Makes a DB-API connection, such as `lambda:
            sqlite3.connect("file.db")`.
        sql_params: Values for the places in the query, as its database takes them.
        shard_keys: Columns by whose hash the rows are divided among several queries side by side,
            as many as `override_num_blocks` says.
        shard_hash_fn: The function of the database that computes the hash.
        **options: `override_num_blocks`, `concurrency` and options of tasks, as in `read_csv`.

    Returns:
        A dataset of the rows, which are read when they are used.

    Example:
        >>> import sqlite3, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     connect = lambda: sqlite3.connect(f"{folder}/a.db")
        ...     with connect() as connection:
        ...         _ = connection.execute("CREATE TABLE t AS SELECT 1 AS a UNION SELECT 2")
        ...     skate.data.read_sql("SELECT a FROM t ORDER BY a", connect).take_all()
        [{'a': 1}, {'a': 2}]
    """
    given = dict(options)
    from skate.data.sources.sql import SQLSource

    if not callable(connection_factory):
        allowed = "a function that opens a connection, such as lambda: sqlite3.connect(path)"
        raise wrong_type("connection_factory", connection_factory, allowed)
    source = SQLSource(sql, connection_factory, sql_params, shard_keys, shard_hash_fn)
    return dataset_of(source, given)


@showing_keywords(meanings(ReadKeywords))
@failing_plainly
def read_avro(paths: Paths, **options: Unpack[ReadKeywords]) -> Dataset:
    """Read Avro files, a row per record.

    Args:
        paths: A file, a folder or several of them, on any file system.
        **options: Those of `read_csv`, without others.

    Returns:
        A dataset of the rows, which are read when they are used.
    """
    given = dict(options)
    from skate.data.sources.avro import AvroSource

    return dataset_of(AvroSource(file_options(paths, given)), given)


@showing_keywords(meanings(SourceKeywords), open_ended=True)
@failing_plainly
def read_datasource(datasource: Datasource, **options: object) -> Dataset:
    """Read a source of your own.

    Args:
        datasource: The source.
        **options: `override_num_blocks`, `concurrency` and options of tasks, as in `read_csv`;
            others are for the reader of a source that overrides `create_reader` or `prepare_read`.

    Returns:
        A dataset of the rows, which are read when they are used.

    Raises:
        TypeError: If it is no source.
    """
    if not hasattr(datasource, "get_read_tasks"):
        raise TypeError(f"read_datasource takes a Datasource; got {datasource!r}")
    of_older_versions = getattr(datasource, "should_create_reader", False)
    theirs = [name for name in options if of_older_versions and name not in (*PLAN, *REMOTE)]
    return dataset_of(CustomSource(datasource, {n: options.pop(n) for n in theirs}), options)


__all__ = [
    "read_avro", "read_binary_files", "read_csv", "read_datasource", "read_images", "read_json",
    "read_numpy", "read_orc", "read_parquet", "read_sql", "read_text", "read_tfrecords",
    "read_webdataset",
]  # fmt: skip
