"""Files of tables: CSV, JSON, ORC."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skate._imports import try_import
from skate.data._blocks import Block, block_of_rows
from skate.data._context import DataContext
from skate.data.sources.files import FileSource

STREAM_FROM = 64 << 20  # bytes; larger files are read piece by piece


@dataclass(frozen=True)
class CSVSource(FileSource):
    arguments: tuple[tuple[str, Any], ...] = ()
    name = "CSV"

    def read_file(self, path: str) -> Iterator[Block]:
        from pyarrow import csv

        arguments = dict(self.arguments)
        read = arguments.pop("read_options", None) or csv.ReadOptions(use_threads=True)
        with self.open(path) as stream:
            reader = csv.open_csv(stream, read_options=read, **arguments)
            yield from gathered(reader)


def gathered(batches: Any) -> Iterator[Block]:
    """Record batches put together to blocks of a good size."""
    limit = DataContext.get_current().target_max_block_size // 2
    held: list[Any] = []
    size = 0
    schema = None
    for batch in batches:
        schema = batch.schema
        held.append(batch)
        size += batch.nbytes
        if size >= limit:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)
    elif schema is None and getattr(batches, "schema", None) is not None:
        yield batches.schema.empty_table()


@dataclass(frozen=True)
class JSONSource(FileSource):
    """One object per line, or one list of objects per file."""

    lines: bool = False
    arguments: tuple[tuple[str, Any], ...] = ()
    name = "JSON"

    def read_file(self, path: str) -> Iterator[Block]:
        from pyarrow import json

        with self.open(path) as stream:
            data = stream.read()
        if not data.strip():
            return
        if not self.lines and bytes(data[:64]).lstrip().startswith(b"["):
            yield self._from_list(data)
            return
        try:
            yield json.read_json(io.BytesIO(data), **dict(self.arguments))
        except pa.ArrowInvalid:
            yield self._by_python(data)

    def _from_list(self, data: bytes) -> Block:
        import json

        return block_of_rows(json.loads(data))

    def _by_python(self, data: bytes) -> Block:
        """For what Arrow's reader refuses: columns of mixed types, one object over many lines."""
        import json

        try:
            rows = [json.loads(line) for line in data.splitlines() if line.strip()]
        except json.JSONDecodeError:
            rows = [json.loads(data)]
        return block_of_rows(rows)


@dataclass(frozen=True)
class ORCSource(FileSource):
    columns: tuple[str, ...] | None = None
    name = "ORC"

    def read_file(self, path: str) -> Iterator[Block]:
        orc = try_import("pyarrow.orc", "data")
        with self.place.filesystem.open_input_file(path) as file:
            names = list(self.columns) if self.columns is not None else None
            yield orc.ORCFile(file).read(columns=names)
