"""The options that writers of files share, as type checkers, editors and `help()` show them.

WriteKeywords                         every writer of files
  └─ ParquetWriteKeywords …           and what goes to the library that writes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv

    from skate.data._io.sinks import FilenameProvider, SaveMode

    Arguments = Callable[[], Mapping[str, Any]]


class WriteKeywords(TypedDict, total=False):
    """Options of a writer of files."""

    filesystem: object
    mode: Literal["append", "overwrite", "ignore", "error"] | SaveMode
    try_create_dir: bool
    filename_provider: FilenameProvider | None
    min_rows_per_file: int | None
    num_rows_per_file: int | None
    max_rows_per_file: int | None
    arrow_open_stream_args: Mapping[str, Any] | None
    ray_remote_args: Mapping[str, Any] | None
    concurrency: int | None
    resume: bool


class ParquetWriteKeywords(WriteKeywords, total=False):
    """Options of `write_parquet`."""

    arrow_parquet_args_fn: Arguments | None
    row_group_size: int | None
    version: Literal["1.0", "2.4", "2.6"]
    use_dictionary: bool | Sequence[str]
    compression: str | Mapping[str, str] | None
    compression_level: int | Mapping[str, int] | None
    write_statistics: bool | Sequence[str]
    use_deprecated_int96_timestamps: bool | None
    coerce_timestamps: Literal["ms", "us"] | None
    allow_truncated_timestamps: bool
    data_page_size: int | None
    data_page_version: Literal["1.0", "2.0"]
    flavor: Literal["spark"] | None
    use_byte_stream_split: bool | Sequence[str]
    column_encoding: str | Mapping[str, str] | None
    use_compliant_nested_type: bool
    encryption_properties: object
    write_batch_size: int | None
    dictionary_pagesize_limit: int | None
    store_schema: bool
    write_page_index: bool
    write_page_checksum: bool
    sorting_columns: Sequence[object] | None
    store_decimal_as_integer: bool


class CSVWriteKeywords(WriteKeywords, total=False):
    """Options of `write_csv`."""

    arrow_csv_args_fn: Arguments | None
    write_options: pa.csv.WriteOptions | None
    memory_pool: pa.MemoryPool | None


class JSONWriteKeywords(WriteKeywords, total=False):
    """Options of `write_json`."""

    pandas_json_args_fn: Arguments | None
    orient: Literal["split", "records", "index", "columns", "values", "table"] | None
    lines: bool
    date_format: Literal["epoch", "iso"] | None
    date_unit: Literal["s", "ms", "us", "ns"]
    double_precision: int
    force_ascii: bool
    default_handler: Callable[[Any], Any] | None
    compression: str | Mapping[str, Any] | None
    index: bool | None
    indent: int | None


class ORCWriteKeywords(WriteKeywords, total=False):
    """Options of `write_orc`."""

    arrow_orc_args_fn: Arguments | None
    file_version: Literal["0.11", "0.12"]
    batch_size: int
    stripe_size: int
    compression: str
    compression_block_size: int
    compression_strategy: Literal["speed", "compression"]
    row_index_stride: int
    padding_tolerance: float
    dictionary_key_size_threshold: float
    bloom_filter_columns: Sequence[str] | None
    bloom_filter_fpp: float


_OF_LIBRARIES = {
    ParquetWriteKeywords: "pyarrow.parquet.write_table",
    CSVWriteKeywords: "pyarrow.csv.write_csv",
    JSONWriteKeywords: "pandas' to_json",
    ORCWriteKeywords: "pyarrow.orc.write_table",
}

_OURS = {
    "filesystem": "The file system of pyarrow or fsspec that the path is on.",
    "mode": (
        'What becomes of files that are there: "append" keeps them, "overwrite" removes '
        'them at the end, "ignore" writes nothing, "error" raises.'
    ),
    "try_create_dir": "Whether the folder is made where there is none.",
    "filename_provider": "What names the files.",
    "min_rows_per_file": (
        "Blocks are put together until a file has so many rows; they are not cut."
    ),
    "num_rows_per_file": "`min_rows_per_file`, as it was called before.",
    "max_rows_per_file": "A file has no more rows.",
    "arrow_open_stream_args": (
        'For the file system\'s open_output_stream, such as `{"compression": "gzip"}`.'
    ),
    "ray_remote_args": (
        "Options of the tasks of a write with `resume=True`; others write in threads."
    ),
    "concurrency": "How many files are written at a time; None chooses.",
    "resume": "Whether the same write goes on where it was stopped, and has each row once.",
}


def meanings(keywords: type) -> dict[str, str]:
    """Return a line on each option of a class of this module, for `help()`."""
    return {
        name: _OURS.get(name) or _for_library(name, keywords) for name in keywords.__annotations__
    }


def _for_library(name: str, keywords: type) -> str:
    library = _OF_LIBRARIES[keywords]
    return f"Returns more for {library}." if name.endswith("_args_fn") else f"Goes to {library}."
