"""Tables that are kept as lists of files, with versions: Delta Lake and Iceberg.

A version is chosen when the dataset is made, so that all tasks, and all executions, read the same
rows, whatever is written meanwhile.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa

from skate._core.optional_imports import try_import
from skate.data._arrow.blocks import Block, check_columns
from skate.data._arrow.foreign import admitted
from skate.data._execution.transforms import SourceTask
from skate.data._settings.context import driver_threads
from skate.data.sources.base import Source

EXTRA = "data-sources"


@dataclass(frozen=True)
class LakeSource(Source):
    """Derived classes list the files of the table, and read some of them."""

    @abstractmethod
    def pieces(self) -> Sequence[Any]:
        """List the pieces of the version, in its order."""

    @abstractmethod
    def read(self, pieces: Sequence[object]) -> Iterator[Block]:
        """Yield the rows of some pieces."""

    def read_tasks(self, parallelism: int | None) -> list[SourceTask]:
        pieces = self.pieces()
        count = min(len(pieces), parallelism or 4 * driver_threads())
        ends = [len(pieces) * number // count for number in range(count + 1)] if count else []
        groups = [pieces[start:stop] for start, stop in pairwise(ends)]
        if not groups:
            return [SourceTask(partial(_nothing, self.schema()), self.name)]
        return [SourceTask(partial(self.read, group), self.name) for group in groups]

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the schema of the version, without opening its files."""


def _nothing(schema: pa.Schema) -> Iterator[Block]:
    yield schema.empty_table()


@dataclass(frozen=True)
class DeltaSource(LakeSource):
    path: str
    version: int
    storage_options: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] | None = None
    allow_pickle: bool = False
    name = "Delta"

    def _files(self) -> Any:
        """Open the files as a dataset of Arrow's, which knows what the table says about them."""
        tables = try_import("deltalake", EXTRA)
        options = dict(self.storage_options) or None
        table = tables.DeltaTable(self.path, version=self.version, storage_options=options)
        return table.to_pyarrow_dataset()

    def schema(self) -> pa.Schema:
        schema = self._files().schema
        wanted = schema.names if self.columns is None else self.columns
        return pa.schema([schema.field(name) for name in wanted])

    def pieces(self) -> Sequence[Any]:
        return [fragment.path for fragment in self._files().get_fragments()]

    def read(self, pieces: Sequence[Any]) -> Iterator[Block]:
        files = self._files()
        wanted = None if self.columns is None else list(self.columns)
        found = {fragment.path: fragment for fragment in files.get_fragments()}
        for path in pieces:
            fragment = found[path]
            table = fragment.to_table(schema=files.schema, columns=wanted)
            yield admitted(table, path, self.allow_pickle, fragment.physical_schema)

    def only_columns(self, columns: tuple[str, ...]) -> DeltaSource:
        check_columns(columns, self.schema().names)
        return replace(self, columns=columns)


def delta_source(
    path: str,
    version: object,
    storage_options: dict[str, str] | None,
    columns: Sequence[str] | None,
    allow_pickle: bool = False,
) -> DeltaSource:
    """Make the source for a table at a version, by its number or a time; None: as it is now."""
    tables = try_import("deltalake", EXTRA)
    table = tables.DeltaTable(path, version=version, storage_options=storage_options)
    options = tuple((storage_options or {}).items())
    source = DeltaSource(path, table.version(), options, None, allow_pickle)
    return source if columns is None else source.only_columns(tuple(columns))


@dataclass(frozen=True)
class IcebergSource(LakeSource):
    """What a scan of pyiceberg has planned."""

    metadata: Any
    io: Any
    projection: Any
    row_filter: Any
    planned: tuple[Any, ...]
    allow_pickle: bool = False
    name = "Iceberg"

    def schema(self) -> pa.Schema:
        arrow = try_import("pyiceberg.io.pyarrow", EXTRA)
        return arrow.schema_to_pyarrow(self.projection, include_field_ids=False)

    def pieces(self) -> Sequence[Any]:
        return self.planned

    def read(self, pieces: Sequence[Any]) -> Iterator[Block]:
        arrow = try_import("pyiceberg.io.pyarrow", EXTRA)
        scan = arrow.ArrowScan(self.metadata, self.io, self.projection, self.row_filter)
        for file in pieces:
            yield admitted(scan.to_table([file]), file.file.file_path, self.allow_pickle)


def iceberg_table(table_identifier: str, catalog_kwargs: Mapping[str, object] | None) -> Any:
    """Load a table of a catalog, as `pyiceberg.catalog.load_catalog` finds it."""
    catalogs = try_import("pyiceberg.catalog", EXTRA)
    given = dict(catalog_kwargs or {})
    catalog = catalogs.load_catalog(given.pop("name", "default"), **given)
    load_file_io = getattr(catalog, "_load_file_io", None)
    if load_file_io is None:
        version = try_import("pyiceberg", EXTRA).__version__
        raise RuntimeError(
            f"{type(catalog).__name__} of pyiceberg {version} loads files in a way "
            "that cannot be kept from running code that a table names: read the table with "
            "pyiceberg, and use skate.data.from_arrow, or install a version that "
            "the extra data-sources names"
        )

    def checked(properties: object = None, location: str | None = None) -> Any:
        _check_names_no_code(properties or {}, catalog.properties, location)
        return load_file_io(properties or {}, location)

    catalog._load_file_io = checked
    table = catalog.load_table(table_identifier)
    _check_names_no_code(table.properties, catalog.properties, table.metadata_location)
    return table


def _check_names_no_code(properties: Any, trusted: Any, location: str | None) -> None:
    """Raise if the files of a table name a class that pyiceberg would import and call: whoever
    wrote a table could run anything by that. The user's catalog may."""
    for name, value in properties.items():
        if name.endswith("impl") and trusted.get(name) != value:
            raise ValueError(
                f"the table of {location} says {name}={value!r}, which is code to be run by "
                f"whoever reads or writes it; if you trust it, put {name!r} into catalog_kwargs "
                "as well"
            )


def iceberg_source(
    table: Any,
    row_filter: object,
    selected_fields: Sequence[str],
    snapshot_id: int | None,
    scan_kwargs: Mapping[str, object] | None,
    allow_pickle: bool = False,
) -> IcebergSource:
    """Make the source of what a scan of the table has to read."""
    chosen = {} if row_filter is None else {"row_filter": row_filter}
    scan = table.scan(
        selected_fields=tuple(selected_fields),
        snapshot_id=snapshot_id,
        **chosen,
        **(scan_kwargs or {}),
    )
    files = tuple(scan.plan_files())
    return IcebergSource(
        table.metadata, table.io, scan.projection(), scan.row_filter, files, allow_pickle
    )
