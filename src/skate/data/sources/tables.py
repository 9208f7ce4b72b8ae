"""Files of tables: CSV, JSON, ORC."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from skate._core.errors import add_note
from skate._core.optional_imports import try_import
from skate.data._arrow.blocks import Block, block_of_rows, unique_columns
from skate.data._io.paths import File
from skate.data.sources.files import FileSource

STREAM_FROM = 64 << 20  # bytes; larger files of CSV are read piece by piece
# A file of lines is cut so that all CPUs have something to do, and at the end none has much more
# to do than another; not by their number: every run of a write that goes on has the same pieces.
LEAST_BYTES, PIECE_BYTES = 2 << 20, 16 << 20  # of a piece, and of one of a file that is large
MOST_SMALL_PIECES = 32
LONGEST_LINE = 16 << 20  # bytes; of a file with longer ones no pieces are made
SAMPLE_BYTES = 1 << 20  # of a file of lines, for its types
MORE_BYTES = 1 << 16  # read at a time until a line ends
MAX_NESTED_LEVELS = 500  # lists and objects of JSON in each other
LARGEST_PIECE = (1 << 31) - 1  # bytes that Arrow parses at once
WITNESSES = 8  # files that are asked for the type of a column which is empty in another


@dataclass(frozen=True)
class CSVSource(FileSource):
    """What is missing is None, in columns of text "" unless `convert_options` say otherwise: so
    Arrow reads one file, and so it is here for many, of which some may have no text at all."""

    arguments: tuple[tuple[str, Any], ...] = ()
    witnesses: tuple[str, ...] = field(init=False, repr=False, default=())
    name = "CSV"
    imports = ("pyarrow.csv", "pandas")

    def reader(self, files: list[File]) -> Any:
        every = max(1, len(self.place.files) // WITNESSES)
        asked = [file.path for file in self.place.files[::every][:WITNESSES]]
        return super().reader(files)._with(witnesses=tuple(asked) if len(asked) > 1 else ())

    def completed(self, block: Block, file: File) -> Block:
        return super().completed(self._with_text(block), file)

    def _with_text(self, block: Block) -> Block:
        """Turn columns without any value into text where they are text in other files."""
        for place, column in enumerate(block.schema):
            if pa.types.is_null(column.type) and column.name in self._text_columns:
                text = pa.repeat(pa.scalar("", self._text_columns[column.name]), block.num_rows)
                block = block.set_column(place, column.name, text)
        return block

    @cached_property
    def _text_columns(self) -> dict[str, pa.DataType]:
        options = dict(self.arguments).get("convert_options")
        if options is not None and options.strings_can_be_null:
            return {}
        found: dict[str, pa.DataType] = {}
        for path in self.witnesses:
            with suppress(pa.ArrowInvalid, OSError), self.open(path) as stream:
                schema = self._reader(stream).schema
                found.update((f.name, f.type) for f in schema if pa.types.is_string(f.type))
        return found

    def read_file(self, path: str) -> Iterator[Block]:
        """Yield the table of a file, whose types are found from the first rows or, if others do
        not fit them, from all rows. (pyarrow.csv.read_csv would do that; it leaves a pipe for
        signals open.)"""
        with self.open(path) as stream:
            data = pa.py_buffer(stream.read())
        try:
            yield unique_columns(self._reader(pa.BufferReader(data)).read_all())
        except pa.ArrowInvalid:
            piece = min(len(data) + 1, LARGEST_PIECE)
            yield unique_columns(self._reader(pa.BufferReader(data), piece).read_all())

    def read_piece(self, file: File) -> Iterator[Block]:
        if file.size < STREAM_FROM:
            yield from self.read_file(file.path)
            return
        with self.open(file.path) as stream:
            try:
                yield from map(unique_columns, gathered(self._reader(stream), self.block_size))
            except pa.ArrowInvalid as error:
                add_note(
                    error,
                    "types of large files are found from their first rows; "
                    "convert_options=pyarrow.csv.ConvertOptions(column_types=...) gives others",
                )
                raise

    def _reader(self, stream: object, piece: int = 0) -> Any:
        from pyarrow import csv

        arguments = dict(self.arguments)
        options = copy(arguments.pop("read_options", None)) or csv.ReadOptions()
        options.block_size = max(piece, options.block_size)
        return csv.open_csv(stream, read_options=options, **arguments)


def gathered(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[Block]:
    """Join record batches to blocks of at least half of `size` bytes."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= size // 2:
            yield pa.Table.from_batches(held)
            held, held_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held)


@dataclass(frozen=True)
class JSONSource(FileSource):
    """One object per line, or one list of objects per file."""

    lines: bool = False
    arguments: tuple[tuple[str, Any], ...] = ()
    name = "JSON"
    imports = ("pyarrow.json", "pandas")

    def pieces(self, files: list[File]) -> list[File]:
        """List the files; large ones of an object per line are cut at ends of lines."""
        found: list[File] = []
        for file in files:
            whole = file.size < 2 * LEAST_BYTES or not self._has_lines(file.path)
            found += [file] if whole else spans_of(file)
        return found

    def _wanted(self, pieces: int) -> int:
        size = sum(file.size for file in self.place.files)
        small = min(size // LEAST_BYTES, MOST_SMALL_PIECES, pieces)
        return max(super()._wanted(pieces), small)

    def _has_lines(self, path: str) -> bool:
        """Return whether lines of the file are objects, which no parser has to see together."""
        import json

        if detected_compression(path) or self.options.arrow_open_stream_args or self.arguments:
            return False
        with suppress(ValueError, OSError), self.place.filesystem.open_input_file(path) as file:
            data = b""
            while b"\n" not in data[:-1] and (more := file.read(len(data) or MORE_BYTES)):
                data += more
                if len(data) > LONGEST_LINE:
                    return False
            line, _, rest = data.partition(b"\n")
            check_depth(line)
            return bool(rest) and isinstance(json.loads(line), dict)
        return False

    def read_piece(self, file: File) -> Iterator[Block]:
        if file.parts is None:
            yield from self.read_file(file.path)
            return
        start, stop = file.parts
        try:
            data = lines_within(self.place.filesystem, file.path, start, stop)
            yield from self._parsed(data, self._schema_of_lines(file.path))
        except ValueError as error:
            add_note(error, f"in the lines that begin at bytes {start} to {stop}")
            raise

    def _schema_of_lines(self, path: str) -> pa.Schema:
        """Find the types that the first lines of a file show, for all its pieces."""
        from pyarrow import json

        data = lines_within(self.place.filesystem, path, 0, SAMPLE_BYTES)
        check_depth(data)
        try:
            known = json.read_json(io.BytesIO(data)).schema
        except pa.ArrowInvalid:
            return pa.schema([])
        return pa.schema([column for column in known if not pa.types.is_null(column.type)])

    def read_file(self, path: str) -> Iterator[Block]:
        with self.open(path) as stream:
            yield from self._parsed(stream.read())

    def _parsed(self, data: bytes, expected: pa.Schema | None = None) -> Iterator[Block]:
        from pyarrow import json

        if not data.strip():
            return
        check_depth(data)
        check_text(data)
        if not self.lines and bytes(data[:64]).lstrip().startswith(b"["):
            yield self._from_list(data)
            return
        if expected:
            options = json.ParseOptions(explicit_schema=expected)
            with suppress(pa.ArrowInvalid):  # other types, which these lines show by themselves
                yield json.read_json(io.BytesIO(data), parse_options=options)
                return
        try:
            yield json.read_json(io.BytesIO(data), **dict(self.arguments))
        except pa.ArrowInvalid:
            yield self._by_python(data)

    def _from_list(self, data: bytes) -> Block:
        import json

        return block_of_rows(json.loads(data))

    def _by_python(self, data: bytes) -> Block:
        """Parse what Arrow's reader refuses: columns of mixed types, one object over many
        lines."""
        import json

        try:
            return block_of_rows(list(map(_row, _by_line(data))))
        except ValueError:
            if self.lines:
                raise
            with suppress(json.JSONDecodeError):
                return block_of_rows([json.loads(data)])
            raise


def spans_of(file: File) -> list[File]:
    """Divide a file into parts, which begin and end at any byte."""
    small = min(file.size // LEAST_BYTES, MOST_SMALL_PIECES)
    count = max(1, small, file.size // PIECE_BYTES)
    ends = [file.size * number // count for number in range(count + 1)]
    return [file._replace(size=b - a, parts=(a, b)) for a, b in pairwise(ends)]


def lines_within(filesystem: pafs.FileSystem, path: str, start: int, stop: int) -> bytes:
    """Read the lines that begin at one of these bytes, each to its end."""
    with filesystem.open_input_file(path) as file:
        file.seek(max(0, start - 1))
        data = file.read(stop - max(0, start - 1))
        while data and not data.endswith(b"\n") and (more := file.read(MORE_BYTES)):
            end = more.find(b"\n") + 1
            data += more[: end or None]
    return bytes(data) if start == 0 else bytes(data.partition(b"\n")[2])


def detected_compression(path: str) -> bool:
    """Return whether the name of a file says that its bytes are not its lines."""
    try:
        return pa.Codec.detect(path) is not None
    except (TypeError, ValueError):  # of which versions of Arrow raise one or the other
        return False


_BLOCK_BYTES = 1 << 16
_OTHERS = bytes(set(range(256)) - set(b'[]{}"\r\n'))


def check_depth(data: bytes) -> None:
    """Raise for values nested so deep that parsing them would overflow the stack, which ends the
    process without an error."""
    if _depth(data) > MAX_NESTED_LEVELS:
        raise ValueError(f"lists and objects are nested more than {MAX_NESTED_LEVELS} deep")


def check_text(data: bytes) -> None:
    """Raise for bytes that are not UTF-8: Arrow's parser hands them on, and whoever looks at the
    rows later does not know the file."""
    if data.isascii():
        return
    ends = pa.py_buffer(np.array([0, len(data)]))
    text = pa.Array.from_buffers(pa.large_string(), 1, [None, ends, pa.py_buffer(data)])
    try:
        text.validate(full=True)  # many times faster than decoding, and nothing is copied
    except pa.ArrowInvalid:
        bytes(data).decode()  # says where
        raise


def _depth(data: bytes) -> int:
    """Return how deep brackets outside of strings are nested, wherever a parser may begin.

    A string ends with its line at the latest, since no parser reads on behind one that does not:
    so what is wrong in one line hides nothing in those that a reader takes up by themselves.
    """
    if b"\\" in data:
        data = data.replace(rb"\\", b"").replace(rb"\"", b"")
    signs = np.frombuffer(data.translate(None, _OTHERS), np.uint8)
    deepest = level = lowest = unpaired = 0
    for start in range(0, len(signs), _BLOCK_BYTES):
        block = signs[start : start + _BLOCK_BYTES]
        quotes = unpaired + np.cumsum(block == ord('"'))
        ends = (block == ord("\n")) | (block == ord("\r"))
        of_line = quotes - np.maximum.accumulate(np.where(ends, quotes, 0))
        opening = (block == ord("[")) | (block == ord("{"))
        closing = (block == ord("]")) | (block == ord("}"))
        steps = np.where(of_line % 2, 0, opening.astype(int) - closing)
        levels = level + np.cumsum(steps)
        lows = np.minimum.accumulate(np.minimum(levels, lowest))
        deepest = max(deepest, int((levels - lows).max()))
        level, lowest, unpaired = int(levels[-1]), int(lows[-1]), int(of_line[-1] % 2)
    return deepest


def _row(value: object) -> Any:
    """Give a line that is a list columns called 0, 1 …"""
    return {str(n): v for n, v in enumerate(value)} if isinstance(value, list) else value


def _by_line(data: bytes) -> list[Any]:
    import json

    rows = []
    for number, line in enumerate(data.splitlines(), 1):
        try:
            if line.strip():
                rows.append(json.loads(line))
        except ValueError as error:
            text = line[:100].decode(errors="replace")
            raise ValueError(f"line {number} is no JSON: {error}; it begins {text!r}") from None
    return rows


@dataclass(frozen=True)
class ORCSource(FileSource):
    columns: tuple[str, ...] | None = None
    name = "ORC"

    def read_file(self, path: str) -> Iterator[Block]:
        orc = try_import("pyarrow.orc", "data")
        with self.place.filesystem.open_input_file(path) as file:
            names = list(self.columns) if self.columns is not None else None
            yield orc.ORCFile(file).read(columns=names)
