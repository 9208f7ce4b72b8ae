"""TFRecord files of tf.train.Example, read and written without TensorFlow.

A file is a row of records: length (8 bytes), its checksum (4), the bytes, their checksum (4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO

from skate._core.record_files import checked_records_in, record_of
from skate.data._arrow.blocks import Block
from skate.data.sources.checksums import check_bodies
from skate.data.sources.files import FileSource, UnreadableFileError
from skate.data.sources.tf_examples import block_of_examples, examples_of_block

ROWS_PER_BLOCK = 16_384


class UnreadableRecordsError(UnreadableFileError, RuntimeError):
    """A file is no TFRecord file, or damaged. Ray raises a RuntimeError for that."""


@dataclass(frozen=True)
class TFRecordSource(FileSource):
    name = "TFRecord"
    runs_python = True
    kinds: Mapping[str, str] | None = None

    def read_file(self, path: str) -> Iterator[Block]:
        with self.open(path) as stream:
            data = stream.read()
        records = checked_records_in(data)
        try:
            while some := list(islice(records, ROWS_PER_BLOCK)):
                check_bodies(some)
                yield block_of_examples([record.body for record in some], self.kinds)
        except ValueError as error:
            raise UnreadableRecordsError(str(error)) from error


def write_examples(block: Block, file: BinaryIO, kinds: Mapping[str, str] | None) -> None:
    """Write a TFRecord with a tf.train.Example for each row.

    Args:
        block: The rows.
        file: What is written to.
        kinds: What each column holds, by a schema; without one its type says it.
    """
    for example in examples_of_block(block, kinds):
        file.write(record_of(example))
