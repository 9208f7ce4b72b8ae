"""The options that readers share, as type checkers and editors see them, and by name.

PlanKeywords, RemoteKeywords          every reader
  └─ FileKeywords                     readers of files
       └─ ArrowKeywords …             and what goes to the library that parses
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.dataset
    import pyarrow.json

    from skate.data.datasource import Partitioning, PathPartitionFilter
    from skate.data.sources.files import FileShuffleConfig


class PlanKeywords(TypedDict, total=False):
    """How a source is divided."""

    parallelism: int
    concurrency: int | None
    override_num_blocks: int | None
    ray_remote_args: Mapping[str, Any] | None


class RemoteKeywords(TypedDict, total=False):
    """Options of the tasks that read."""

    num_cpus: float | None
    num_gpus: float | None
    memory: float | None
    resources: Mapping[str, float] | None
    runtime_env: Mapping[str, Any] | None
    max_calls: int | None
    accelerator_type: str | None
    label_selector: Mapping[str, str] | None
    fallback_strategy: Sequence[Mapping[str, Mapping[str, str]]] | None
    scheduling_strategy: object
    max_retries: int | None


class FileKeywords(TypedDict, total=False):
    """Which files are read, and how they are opened."""

    filesystem: object
    include_paths: bool
    ignore_missing_paths: bool
    file_extensions: Sequence[str] | None
    partitioning: Partitioning | Literal["hive"] | None
    partition_filter: PathPartitionFilter | Callable[[dict[str, str]], bool] | None
    shuffle: Literal["files"] | FileShuffleConfig | None
    on_bad_files: Literal["raise", "warn", "skip"]
    arrow_open_stream_args: Mapping[str, Any] | None
    skip_paths: object


class SourceKeywords(PlanKeywords, RemoteKeywords, total=False):
    """Options of a reader of something else than files."""


class ReadKeywords(FileKeywords, SourceKeywords, total=False):
    """Options of a reader of files."""

    arrow_open_file_args: Mapping[str, Any] | None


class JSONKeywords(ReadKeywords, total=False):
    """Options of `read_json`."""

    read_options: pa.json.ReadOptions | None
    parse_options: pa.json.ParseOptions | None
    memory_pool: pa.MemoryPool | None


class CSVKeywords(ReadKeywords, total=False):
    """Options of `read_csv`."""

    read_options: pa.csv.ReadOptions | None
    parse_options: pa.csv.ParseOptions | None
    convert_options: pa.csv.ConvertOptions | None
    memory_pool: pa.MemoryPool | None


class ParquetKeywords(ReadKeywords, total=False):
    """Options of `read_parquet`."""

    filter: pa.dataset.Expression | None
    dataset_kwargs: Mapping[str, Any] | None
    memory_map: bool
    buffer_size: int
    pre_buffer: bool
    read_dictionary: Sequence[str] | None
    coerce_int96_timestamp_unit: str | None
    thrift_string_size_limit: int | None
    thrift_container_size_limit: int | None
    page_checksum_verification: bool
    decryption_properties: object


class NumpyKeywords(ReadKeywords, total=False):
    """Options of `read_numpy`."""

    mmap_mode: Literal["r+", "r", "w+", "c"] | None
    max_header_size: int
    encoding: str


def names_of(keywords: type) -> tuple[str, ...]:
    """Return the names of a class of this module, without those that it inherits.

    Args:
        keywords: The class.
    """
    return tuple(keywords.__annotations__)


FILES = names_of(FileKeywords)
PLAN = names_of(PlanKeywords)
REMOTE = names_of(RemoteKeywords)

_OF_LIBRARIES = {
    CSVKeywords: "pyarrow.csv.open_csv",
    JSONKeywords: "pyarrow.json.read_json",
    ParquetKeywords: "pyarrow.parquet.ParquetFile",
    NumpyKeywords: "numpy.load",
}

_OURS = {
    "filesystem": "The file system of pyarrow or fsspec that paths are on.",
    "include_paths": "Whether to add the column `path`.",
    "ignore_missing_paths": "Whether paths that do not exist are left out.",
    "skip_paths": "Files and folders to leave out.",
    "file_extensions": (
        "The extensions of the files that are read; None is any. Without it, Parquet, ORC "
        "and JSON leave out what else is beside their files in a folder."
    ),
    "partitioning": (
        "Which columns the names of folders hold, such as `key=value`; of tables and text."
    ),
    "partition_filter": "Which of these folders are read.",
    "shuffle": '"files" or a FileShuffleConfig puts files into random order.',
    "on_bad_files": '"raise", "warn" or "skip".',
    "arrow_open_stream_args": (
        'For the file system\'s open_input_stream, such as `{"compression": "gzip"}`.'
    ),
    "arrow_open_file_args": "`arrow_open_stream_args`, as readers of images call it.",
    "override_num_blocks": "How many blocks; None chooses.",
    "parallelism": "`override_num_blocks`, as it was called before; -1 chooses.",
    "concurrency": "How many tasks at a time; None chooses.",
    "ray_remote_args": "Options of these tasks, as a dictionary.",
    "num_cpus": "How many CPUs a task takes.",
    "num_gpus": "How many GPUs a task takes.",
    "memory": "Bytes of memory that a task takes.",
    "resources": "Other resources that a task takes.",
    "accelerator_type": "The kind of GPU.",
    "runtime_env": "Environment variables, packages and files of the tasks.",
    "label_selector": "Labels of the machines that tasks may run on.",
    "fallback_strategy": "What else will do where no machine has the labels.",
    "scheduling_strategy": '"DEFAULT", "SPREAD" or one of `util.scheduling_strategies`.',
    "max_calls": "After how many tasks a process ends.",
    "max_retries": "How often a task runs again when its process dies.",
    "filter": "An expression of pyarrow; rows for which it is not true are not read.",
    "dataset_kwargs": "More for pyarrow.parquet.ParquetFile.",
}


def meanings(keywords: type) -> dict[str, str]:
    """Return a line on each option of a class of this module, for `help()`."""
    library = _OF_LIBRARIES.get(keywords, "")
    return {name: _OURS.get(name) or f"Goes to {library}." for name in keywords.__annotations__}
