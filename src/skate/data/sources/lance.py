"""Tables of Lance: a version is a list of fragments."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skate._core.optional_imports import try_import
from skate.data._arrow.blocks import Block, check_columns
from skate.data._arrow.foreign import admitted, admitted_schema
from skate.data.sources.lakes import EXTRA, LakeSource

if TYPE_CHECKING:
    from skate.data._io.paths import PathLike


@dataclass(frozen=True)
class LanceTable:
    """A table at a version, which any process can open."""

    uri: str
    version: int
    storage_options: tuple[tuple[str, str], ...] = ()

    def open(self) -> Any:
        lance = try_import("lance", EXTRA)
        options = dict(self.storage_options) or None
        return lance.dataset(self.uri, version=self.version, storage_options=options)


@dataclass(frozen=True)
class LanceSource(LakeSource):
    """The rows of tables, one after the other. A piece is a table and the id of a fragment."""

    tables: tuple[LanceTable, ...]
    scan: tuple[tuple[str, Any], ...] = ()  # arguments of a scanner of Lance
    allow_pickle: bool = False
    name = "Lance"

    def schema(self) -> pa.Schema:
        scanners = [table.open().scanner(**dict(self.scan)) for table in self.tables]
        schema = pa.unify_schemas([scanner.projected_schema for scanner in scanners])
        return admitted_schema(schema, self.allow_pickle)

    def count(self) -> int | None:
        counts_all = {name for name, _ in self.scan} <= {"columns"}
        return sum(table.open().count_rows() for table in self.tables) if counts_all else None

    def known_count(self) -> int | None:
        return None

    def pieces(self) -> Sequence[tuple[LanceTable, int]]:
        return [
            (table, fragment.fragment_id)
            for table in self.tables
            for fragment in table.open().get_fragments()
        ]

    def read(self, pieces: Sequence[Any]) -> Iterator[Block]:
        schema = self.schema()
        for table, number in pieces:
            opened = table.open()
            fragments = [opened.get_fragment(number)]
            scanner = opened.scanner(**dict(self.scan), fragments=fragments, scan_in_order=True)
            for batch in scanner.to_batches():
                block = admitted(pa.Table.from_batches([batch]), table.uri, self.allow_pickle)
                yield _completed(block, schema)

    def only_columns(self, columns: tuple[str, ...]) -> LanceSource | None:
        check_columns(columns, self.schema().names)
        return replace(self, scan=(*_without("columns", self.scan), ("columns", list(columns))))


def _completed(block: Block, schema: pa.Schema) -> Block:
    """Give a block of one table the columns that others have."""
    for field in schema:
        if field.name not in block.column_names:
            block = block.append_column(field, pa.nulls(block.num_rows, field.type))
    return block.select(schema.names)


def _without(name: str, scan: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
    return tuple(pair for pair in scan if pair[0] != name)


def lance_source(
    uris: PathLike | Sequence[PathLike],
    version: int | str | None,
    storage_options: Mapping[str, str] | None,
    scan: Mapping[str, object],
    allow_pickle: bool,
) -> LanceSource:
    """Make the source for tables at a version, by its number or tag; None: as they are now.

    Args:
        uris: A table, or several.
        version: The version of each of them.
        storage_options: Credentials and the like of the storage.
        scan: Arguments of a scanner of Lance.
        allow_pickle: Whether columns of pickles become columns of objects.
    """
    lance = try_import("lance", EXTRA)
    if "fragments" in scan:
        raise ValueError(
            "scanner_options has 'fragments', which tasks choose: give a filter, or read the "
            "fragments with lance and use skate.data.from_arrow"
        )
    options = tuple((storage_options or {}).items())
    tables = []
    for each in [uris] if isinstance(uris, (str, os.PathLike)) else uris:
        uri = os.fspath(each)
        opened = lance.dataset(uri, version=version, storage_options=dict(options) or None)
        tables.append(LanceTable(uri, opened.version, options))
    if not tables:
        raise ValueError("read_lance takes a table or several; got an empty list")
    given = tuple((name, value) for name, value in scan.items() if value is not None)
    return LanceSource(tuple(tables), given, allow_pickle)
