"""Datasets of files and other sources."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from skate.data._api.base import blocks_wanted, given_options
from skate.data._arrow.foreign import allows_pickle
from skate.data._execution.transforms import TensorsOfBytes
from skate.data._plan import nodes as plan
from skate.data.dataset import Dataset
from skate.data.datasource import Datasource, Partitioning, PartitionStyle
from skate.data.sources.avro import AvroSource
from skate.data.sources.base import Source
from skate.data.sources.custom import CustomSource
from skate.data.sources.documents import BinarySource, ImageSource, NumpySource, TextSource
from skate.data.sources.files import FileOptions
from skate.data.sources.lakes import delta_source, iceberg_source, iceberg_table
from skate.data.sources.parquet import ROW_HASH, ParquetSource
from skate.data.sources.sql import SQLSource
from skate.data.sources.tables import CSVSource, JSONSource, ORCSource
from skate.data.sources.tfrecords import TFRecordSource
from skate.data.sources.webdataset import WebDatasetSource, freeze

_FILES = (
    "filesystem", "include_paths", "ignore_missing_paths", "file_extensions", "partitioning",
    "partition_filter", "shuffle", "on_bad_files", "arrow_open_stream_args", "skip_paths",
)  # fmt: skip
_PLAN = ("parallelism", "concurrency", "override_num_blocks", "ray_remote_args")
_REMOTE = (
    "num_cpus", "num_gpus", "memory", "resources", "runtime_env", "max_calls", "accelerator_type",
    "label_selector", "fallback_strategy", "scheduling_strategy", "max_retries",
)  # fmt: skip
_ARROW = ("read_options", "parse_options", "memory_pool")
HIVE = Partitioning(PartitionStyle.HIVE)
IMAGE_EXTENSIONS = ("png", "jpg", "jpeg", "tif", "tiff", "bmp", "gif", "webp")


def _taken(given: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: given.pop(name) for name in names if name in given}


def file_options(paths: Any, given: dict[str, Any], **defaults: Any) -> FileOptions:
    chosen = {**defaults, **_taken(given, _FILES)}
    if "arrow_open_file_args" in given:  # as readers of images call it
        chosen["arrow_open_stream_args"] = given.pop("arrow_open_file_args")
    if chosen.get("partitioning") == "hive":
        chosen["partitioning"] = HIVE
    shuffle = chosen.get("shuffle")
    if shuffle not in (None, "files") and not hasattr(shuffle, "seed"):
        raise ValueError(f'shuffle takes None, "files" or a FileShuffleConfig; got {shuffle!r}')
    return FileOptions(paths, **chosen)


def _dataset(source: Source, given: dict[str, Any]) -> Dataset:
    """The dataset; what is left of the keywords is unknown to the reader."""
    settings = _taken(given, _PLAN)
    remote = given_options({**(settings.get("ray_remote_args") or {}), **_taken(given, _REMOTE)})
    if given:
        known = sorted((*_FILES, *_PLAN, *_REMOTE))
        raise TypeError(
            f"unknown arguments {sorted(given)}; there are {known}, and those of the library that "
            "parses; of pyarrow, convert_options=pyarrow.csv.ConvertOptions(column_types=...) and "
            "the like"
        )
    blocks = blocks_wanted(settings.get("parallelism", -1), settings.get("override_num_blocks"))
    concurrency = settings.get("concurrency")
    return Dataset(plan.Read(source, blocks, concurrency, tuple(remote.items())))


def _left(
    given: dict[str, Any], theirs: Sequence[str] | None = None
) -> tuple[tuple[str, Any], ...]:
    """The keywords that are meant for the library that parses, which knows `theirs`."""
    ours = {*_FILES, *_PLAN, *_REMOTE}
    names = [name for name in given if name not in ours and name in (theirs or given)]
    return tuple((name, given.pop(name)) for name in names)


def read_parquet(
    paths: Any,
    *,
    columns: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    include_row_hash: bool = False,
    tensor_column_schema: Mapping[str, tuple[Any, Sequence[int]]] | None = None,
    allow_pickle: bool = False,
    _block_udf: Callable[[pa.Table], pa.Table] | None = None,
    **options: Any,
) -> Dataset:
    """Parquet files. `columns` limits what is read, `schema` says what types the columns have;
    files that differ are brought to a common schema. `filter` is an expression of pyarrow; write
    `.filter(expr=...)` instead, which reads less. `include_row_hash` adds the column `row_hash`: a
    number for each row, of its file and its place there, the same in each read.
    `tensor_column_schema` says which columns hold the bytes of arrays, and of what type and shape:
    {"image": (np.uint8, (32, 32))}. `allow_pickle` reads columns of Python objects, which are
    refused otherwise: unpickling those of a stranger runs the stranger's code. `_block_udf` is
    called with each block, as map_batches does. Other keywords: see `read_csv`, and those of
    pyarrow.parquet.ParquetFile."""
    wanted = options.pop("filter", None)
    arguments = _left(options)
    added = [ROW_HASH] if include_row_hash else []
    added += ["path"] if options.get("include_paths") else []
    chosen = tuple(dict.fromkeys([*columns, *added])) if columns is not None else None
    files = file_options(paths, options, partitioning=HIVE)
    # The filter may be about columns that are not wanted otherwise.
    read = chosen if wanted is None else None
    trusted = allows_pickle(allow_pickle)
    source = ParquetSource(files, read, (), arguments, schema, include_row_hash, trusted)
    rows = _dataset(source, options)
    if wanted is not None:
        rows = _matching(rows, wanted, chosen)
    rows = _with_tensors(rows, tensor_column_schema)
    if _block_udf is None:
        return rows
    return rows.map_batches(_block_udf, batch_format="pyarrow", batch_size=None)


def _with_tensors(
    dataset: Dataset, kinds: Mapping[str, tuple[Any, Sequence[int]]] | None
) -> Dataset:
    if not kinds:
        return dataset
    wanted = ((name, dtype, tuple(shape)) for name, (dtype, shape) in kinds.items())
    return dataset._mapped(TensorsOfBytes(tuple(wanted)), "TensorsOfBytes", keeps_rows=True)


def _matching(dataset: Dataset, wanted: Any, columns: Sequence[str] | None) -> Dataset:
    """The rows that match an expression of pyarrow, which may be about other columns as well."""
    rows = dataset.map_batches(
        _rows_where, fn_args=(wanted,), batch_format="pyarrow", batch_size=None
    )
    return rows if columns is None else rows.select_columns(list(columns))


def _rows_where(table: pa.Table, wanted: Any) -> pa.Table:
    return table.filter(wanted)


def read_csv(paths: Any, **options: Any) -> Dataset:
    """CSV files.

    Keywords of all readers of files: filesystem, include_paths (adds the column `path`),
    ignore_missing_paths, skip_paths (files and folders to leave out), file_extensions,
    partitioning (of tables and text: `key=value` folders become columns), partition_filter,
    shuffle ("files" or a FileShuffleConfig), on_bad_files ("raise", "warn", "skip"),
    arrow_open_stream_args (for the file system's open_input_stream, such as
    {"compression": "gzip"}), override_num_blocks,
    concurrency, and options of tasks such as num_cpus. Others go to pyarrow.csv.open_csv.
    """
    arguments = _left(options, (*_ARROW, "convert_options"))
    files = file_options(paths, options, partitioning=HIVE)
    return _dataset(CSVSource(files, arguments), options)


def read_json(paths: Any, *, lines: bool = False, **options: Any) -> Dataset:
    """JSON files: an object per line, or one list of objects per file, as found in the file;
    `lines=True` allows the former only. Other keywords: see `read_csv`, and those of
    pyarrow.json.read_json."""
    arguments = _left(options, _ARROW)
    files = file_options(paths, options, partitioning=HIVE)
    return _dataset(JSONSource(files, lines, arguments), options)


def read_text(
    paths: Any, *, encoding: str = "utf-8", drop_empty_lines: bool = True, **options: Any
) -> Dataset:
    """Lines of text files, in the column `text`. Other keywords: see `read_csv`."""
    files = file_options(paths, options, partitioning=HIVE)
    return _dataset(TextSource(files, encoding, drop_empty_lines), options)


def read_binary_files(paths: Any, *, include_paths: bool = False, **options: Any) -> Dataset:
    """Whole files, in the column `bytes`. Other keywords: see `read_csv`."""
    files = file_options(paths, options, include_paths=include_paths)
    return _dataset(BinarySource(files), options)


def read_numpy(paths: Any, *, allow_pickle: bool = False, **options: Any) -> Dataset:
    """.npy files, in the column `data`. `allow_pickle` reads arrays of Python objects, see
    `read_parquet`. Other keywords: see `read_csv`, and numpy.load."""
    arguments = _left(options)
    files = file_options(paths, options, file_extensions=["npy"], partitioning=HIVE)
    return _dataset(NumpySource(files, arguments, allows_pickle(allow_pickle)), options)


def read_images(
    paths: Any,
    *,
    size: Sequence[int] | None = None,
    mode: str | None = None,
    include_paths: bool = False,
    **options: Any,
) -> Dataset:
    """Images as arrays, in the column `image`.

    `size` is (height, width) to resize to, `mode` a mode of Pillow such as "RGB" to convert to.
    Without them images are as they are, and of different shapes if they differ. Other keywords:
    see `read_csv`.
    """
    if size is not None and (len(size) != 2 or min(size) < 1):
        raise ValueError(f"size takes (height, width), both positive; got {size}")
    files = file_options(
        paths, options, include_paths=include_paths, file_extensions=IMAGE_EXTENSIONS
    )
    return _dataset(
        ImageSource(files, None if size is None else (size[0], size[1]), mode), options
    )


def read_tfrecords(paths: Any, **options: Any) -> Dataset:
    """TFRecord files of tf.train.Example. Keywords: see `read_csv`."""
    return _dataset(TFRecordSource(file_options(paths, options)), options)


def read_webdataset(
    paths: Any,
    *,
    decoder: Any = True,
    fileselect: Any = None,
    filerename: Any = None,
    suffixes: Any = None,
    verbose_open: bool = False,
    expand_json: bool = False,
    allow_pickle: bool = False,
    **options: Any,
) -> Dataset:
    """WebDataset archives: a row per sample, a column per extension, `__key__` and `__url__`.

    `decoder` is True (text, numbers, JSON, arrays and images become what they are), "pil" (images
    stay Pillow's), a function of samples, None for bytes, or a list of these. `suffixes` chooses
    extensions, `fileselect` files of the archive: names, patterns such as "*.txt", or a function.
    `filerename` is a function, or pairs of patterns and names, for the files before that.
    `expand_json` makes columns of what is inside `.json` files, `verbose_open` prints the archives
    that are opened. `allow_pickle` decodes `.pkl`, `.pickle` and all of `.pt` and `.pth`, see
    `read_parquet`; without it those of torch are read as plain tensors, and pickles are refused.
    Other keywords: see `read_csv`.
    """
    trusted = allows_pickle(allow_pickle)
    chosen = (freeze(decoder), freeze(fileselect), freeze(filerename), freeze(suffixes))
    files = file_options(paths, options)
    return _dataset(WebDatasetSource(files, *chosen, verbose_open, expand_json, trusted), options)


def read_orc(paths: Any, *, columns: Sequence[str] | None = None, **options: Any) -> Dataset:
    """ORC files. Other keywords: see `read_csv`."""
    chosen = tuple(columns) if columns is not None else None
    return _dataset(ORCSource(file_options(paths, options), chosen), options)


def read_sql(
    sql: str,
    connection_factory: Callable[[], Any],
    *,
    sql_params: Any = None,
    shard_keys: Sequence[str] | None = None,
    shard_hash_fn: str = "MD5",
    **options: Any,
) -> Dataset:
    """The rows of a query. `connection_factory` makes a DB-API connection, such as
    `lambda: sqlite3.connect("file.db")`. With `shard_keys` and override_num_blocks, several
    queries run side by side."""
    source = SQLSource(sql, connection_factory, sql_params, shard_keys, shard_hash_fn)
    return _dataset(source, options)


def read_avro(paths: Any, **options: Any) -> Dataset:
    """Avro files, a row per record. Keywords: see `read_csv`."""
    return _dataset(AvroSource(file_options(paths, options)), options)


def read_delta(
    path: Any,
    version: Any = None,
    *,
    storage_options: dict[str, str] | None = None,
    columns: Sequence[str] | None = None,
    allow_pickle: bool = False,
    **options: Any,
) -> Dataset:
    """A table of Delta Lake as it is now, or at a `version`: a number or a time. `storage_options`
    are those of the deltalake package; `allow_pickle` as in `read_parquet`. Keywords:
    override_num_blocks, concurrency, and options of tasks."""
    source = delta_source(
        os.fspath(path), version, storage_options, columns, allows_pickle(allow_pickle)
    )
    return _dataset(source, options)


def read_iceberg(
    *,
    table_identifier: str,
    row_filter: Any = None,
    selected_fields: Sequence[str] = ("*",),
    snapshot_id: int | None = None,
    scan_kwargs: dict[str, Any] | None = None,
    catalog_kwargs: dict[str, Any] | None = None,
    allow_pickle: bool = False,
    **options: Any,
) -> Dataset:
    """A table of Iceberg as it is now, or at a snapshot. `row_filter` is an expression of
    pyiceberg, or text such as "price > 3"; `catalog_kwargs` are for pyiceberg's load_catalog, with
    the name of the catalog as `name`, `scan_kwargs` for its Table.scan; `allow_pickle` as in
    `read_parquet`. Keywords: see `read_delta`."""
    table = iceberg_table(table_identifier, catalog_kwargs)
    trusted = allows_pickle(allow_pickle)
    source = iceberg_source(table, row_filter, selected_fields, snapshot_id, scan_kwargs, trusted)
    return _dataset(source, options)


def read_datasource(datasource: Datasource, **options: Any) -> Dataset:
    """A source of your own. Keywords that are not about the execution are for the reader of one
    that overrides `create_reader` or `prepare_read`."""
    if not hasattr(datasource, "get_read_tasks"):
        raise TypeError(f"read_datasource takes a Datasource; got {datasource!r}")
    of_older_versions = getattr(datasource, "should_create_reader", False)
    theirs = [name for name in options if of_older_versions and name not in (*_PLAN, *_REMOTE)]
    return _dataset(CustomSource(datasource, {n: options.pop(n) for n in theirs}), options)


__all__ = [
    "read_avro", "read_binary_files", "read_csv", "read_datasource", "read_delta", "read_iceberg",
    "read_images", "read_json", "read_numpy", "read_orc", "read_parquet", "read_sql", "read_text",
    "read_tfrecords", "read_webdataset",
]  # fmt: skip
