"""Avro files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from skate._core.optional_imports import try_import
from skate.data._arrow.blocks import Block, block_of_rows
from skate.data.sources.files import FileSource

ROWS_PER_BLOCK = 65_536
_PART_BYTES = 1 << 20  # read at a time: a file may claim any length
_NAMED = ("record", "error", "fixed", "enum")


@dataclass(frozen=True)
class AvroSource(FileSource):
    """One row per record."""

    name = "Avro"
    runs_python = True

    def read_file(self, path: str) -> Iterator[Block]:
        fastavro = try_import("fastavro", "data-sources")
        with self.open(path) as stream:
            records = fastavro.reader(_InParts(stream))
            check_sizes(records.writer_schema)
            if not contains_itself(records.writer_schema):
                yield from _blocks(records)
                return
        with self.open(path) as stream:
            yield from _blocks(_read_in_python(_InParts(stream)))


def _blocks(records: Iterator[Any]) -> Iterator[Block]:
    while rows := list(islice(records, ROWS_PER_BLOCK)):
        yield block_of_rows(rows)


def _read_in_python(content: _InParts) -> Iterator[Any]:
    """Yield the records by fastavro's slower reader, written in Python.

    The compiled one has no limit for how deep records are inside of each other: a file may end
    the process.

    Raises:
        ValueError: If they are deeper than Python can follow.
    """
    try:
        yield from try_import("fastavro._read_py", "data-sources").reader(content)
    except RecursionError:
        raise ValueError("its records are too deep inside of each other") from None


class _InParts:
    """A stream that takes no more memory for what it is asked for than there is to read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int) -> bytes:
        if size <= _PART_BYTES:
            return bytes(self._stream.read(size))
        parts = []
        while size > 0 and (part := self._stream.read(min(size, _PART_BYTES))):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def contains_itself(schema: Any) -> bool:
    """Return whether records of a type may be inside of each other, as deep as a file says.

    Args:
        schema: The schema of the records, as fastavro has parsed it.
    """
    waiting: list[tuple[Any, frozenset[str]]] = [(schema, frozenset())]
    while waiting:
        part, around = waiting.pop()
        if isinstance(part, str) and part in around:
            return True
        if isinstance(part, list):
            waiting += [(one, around) for one in part]
        elif isinstance(part, dict):
            if part.get("type") in _NAMED:
                around |= {part["name"]}
            inner = [part.get(key) for key in ("type", "items", "values")]
            inner += [field.get("type") for field in part.get("fields") or ()]
            waiting += [(one, around) for one in inner]
    return False


def check_sizes(schema: Any) -> None:
    """Check that records, and what is in their arrays, take some of the file each: otherwise a
    few bytes may say that there are any number of them.

    Args:
        schema: The schema of the records, as fastavro has parsed it.

    Raises:
        ValueError: If they do not.
    """
    types = [part for part in _walk(schema) if isinstance(part, dict)]
    known = {part["name"]: part for part in types if part.get("type") in _NAMED}
    seen: dict[str, bool] = {}
    if _takes_nothing(schema, known, seen):
        raise ValueError(f"its records have no content, in any number; the schema is {schema!r}")
    for part in types:
        if part.get("type") == "array" and _takes_nothing(part.get("items"), known, seen):
            raise ValueError(
                f"it has arrays of what has no content, in any number: {part!r}. Write how many "
                "there are, as a number"
            )


def _walk(schema: Any) -> Iterator[Any]:
    """Yield all types in a schema. What a name stands for is there once, where it is defined."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, list):
            waiting += part
        elif isinstance(part, dict):
            inner = [part.get(key) for key in ("type", "items", "values")]
            fields = part.get("fields") or ()
            waiting += [one for one in (*inner, *fields) if isinstance(one, (dict, list))]


def _takes_nothing(type_: Any, known: dict[str, Any], seen: dict[str, bool]) -> bool:
    """Return whether values of a type are no bytes in the file; `seen` is what is known about
    records, each of which is looked at once."""
    if isinstance(type_, str):
        return _takes_nothing(known[type_], known, seen) if type_ in known else type_ == "null"
    if not isinstance(type_, dict):
        return False  # a union begins with a number
    kind = type_.get("type")
    if kind == "fixed":
        return not type_.get("size")
    if kind not in ("record", "error"):
        return False if kind in ("enum", "array", "map") else _takes_nothing(kind, known, seen)
    name = str(type_.get("name"))
    if name not in seen:
        seen[name] = False  # where it contains itself, it never ends
        fields = type_.get("fields") or ()
        seen[name] = all(_takes_nothing(one.get("type"), known, seen) for one in fields)
    return seen[name]
