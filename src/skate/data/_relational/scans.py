"""Parquet files that Polars reads itself, and so only the columns and rows that are asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeGuard
from weakref import WeakKeyDictionary

import pyarrow.fs as pafs
from pyarrow import types as kinds

from skate.data._plan import nodes as plan
from skate.data._relational.carried import is_carried, polars_type
from skate.data._relational.frames import Frame
from skate.data.sources.parquet import LOOKED_AT, ParquetSource

_EXTENSION = b"ARROW:extension:name"
_known: WeakKeyDictionary[plan.Read, bool] = WeakKeyDictionary()  # footers are read once, too


def is_scan(node: plan.Node) -> TypeGuard[plan.Read]:
    """Return whether Polars would read the same rows and types: plain local files, all alike."""
    if not isinstance(node, plan.Read) or type(node.source) is not ParquetSource:
        return False
    if node not in _known:
        _known[node] = _is_plain(node, node.source)
    return _known[node]


def _is_plain(read: plan.Read, source: ParquetSource) -> bool:
    options = source.options
    plain = (
        not read.options
        and not read.concurrency
        and not read.parallelism
        and options.shuffle is None
        and isinstance(source.place.filesystem, pafs.LocalFileSystem)
        and options.on_bad_files == "raise"
        and options.arrow_open_stream_args is None
        and not source.filters
        and source.columns is None
        and not source.arguments
        and not source.allow_pickle
        and source.wanted_schema is None
        and not source.adds_columns
        and 0 < len(source.place.files) <= LOOKED_AT
    )
    try:
        return plain and _is_carried(source)
    except Exception:
        return False  # what cannot be read says so when it is


def _is_carried(source: ParquetSource) -> bool:
    """Return whether all files have the same columns, of types that Polars carries."""
    schemas = source.stored_schemas()
    first = source.schema()
    return (
        first is not None
        and all(schema.equals(schemas[0]) for schema in schemas)
        and len(set(first.names)) == len(first.names)
        and all(is_carried(field.type) for field in first)
        and not any(_EXTENSION in (field.metadata or {}) for field in schemas[0])
        and not any(kinds.is_dictionary(type_) for type_ in schemas[0].types)
    )


def size_of(read: plan.Read) -> int:
    """Return about how many bytes the rows have in memory."""
    source = read.source
    assert isinstance(source, ParquetSource)
    return int(sum(file.size for file in source.place.files) * source.growth)


def scanned(read: plan.Read) -> Frame:
    """Return the rows of the files, which are read when somebody asks for them."""
    import polars

    source = read.source
    assert isinstance(source, ParquetSource)
    schema = source.schema()
    assert schema is not None
    lazy = polars.scan_parquet(
        [file.path for file in source.place.files], glob=False, hive_partitioning=False
    )
    found = lazy.collect_schema()
    changes = [
        polars.col(field.name).cast(wanted)
        for field in schema
        if found[field.name] != (wanted := polars_type(field.type))
    ]
    lazy = lazy.with_columns(changes) if changes else lazy
    return replace(Frame(lazy, schema), blocks=len(source.read_tasks(None)))
