"""Avro files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from skate._core.optional_imports import try_import
from skate.data._arrow.blocks import Block, block_of_rows
from skate.data.sources.files import FileSource

ROWS_PER_BLOCK = 65_536


@dataclass(frozen=True)
class AvroSource(FileSource):
    """One row per record."""

    name = "Avro"
    runs_python = True

    def read_file(self, path: str) -> Iterator[Block]:
        fastavro = try_import("fastavro", "data-sources")
        with self.open(path) as stream:
            records = fastavro.reader(stream)
            while rows := list(islice(records, ROWS_PER_BLOCK)):
                yield block_of_rows(rows)
