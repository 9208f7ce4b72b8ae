"""Files that a Datasource of the user's reads as streams."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from skate.data._arrow.blocks import Block, block_of_batch
from skate.data.sources.files import FileSource


@dataclass(frozen=True)
class StreamSource(FileSource):
    """`_read_stream(file, path)` of a datasource gives the batches of a file."""

    files_reader: Any = None
    name = "Streams"
    runs_python = True
    runs_user_code = True

    def read_file(self, path: str) -> Iterator[Block]:
        with self.open(path) as stream:
            batches = self.files_reader.datasource._read_stream(stream, path)
            yield from map(block_of_batch, batches)
