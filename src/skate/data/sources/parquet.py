"""Parquet: columns and rows that are not wanted are not read; large files in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from skate.data._blocks import Block, missing_column
from skate.data._context import DataContext
from skate.data._transforms import ReadTask
from skate.data.sources.base import Source
from skate.data.sources.files import FileSource

if TYPE_CHECKING:
    from skate.data._expressions import Expr


LOOKED_AT = 256  # files whose schemas are compared


@dataclass(frozen=True)
class ParquetSource(FileSource):
    columns: tuple[str, ...] | None = None
    filters: tuple[Any, ...] = ()
    arguments: tuple[tuple[str, Any], ...] = ()
    wanted_schema: pa.Schema | None = None
    name = "Parquet"
    growth = 4.0

    def _metadata(self, path: str) -> pq.FileMetaData:
        with self.place.filesystem.open_input_file(path) as file:
            return pq.ParquetFile(file).metadata

    @cached_property
    def _schemas(self) -> list[pa.Schema]:
        """Of the files; of some of them if there are very many."""
        files = self.place.files
        step = max(1, len(files) // LOOKED_AT)
        return [self._schema_of(file.path) for file in files[::step]]

    def _schema_of(self, path: str) -> pa.Schema:
        with self.place.filesystem.open_input_file(path) as stream:
            return clean(pq.ParquetFile(stream).schema_arrow)

    @cached_property
    def _common(self) -> pa.Schema | None:
        """The schema that rows are brought to, if files differ or one is asked for."""
        if self.wanted_schema is not None:
            return self.wanted_schema
        schemas = self._schemas
        if all(schema.equals(schemas[0]) for schema in schemas):
            return None
        try:
            return pa.unify_schemas(schemas, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return None  # what does not fit together is left to those who put it together

    def schema(self) -> pa.Schema | None:
        if not self.place.files:
            return None
        schema = self._common if self._common is not None else self._schemas[0]
        block = self.completed(schema.empty_table(), self.place.files[0].path)
        if self.columns is not None:
            self._check(block.column_names)
            block = block.select(list(self.columns))
        return block.schema

    def count(self) -> int | None:
        if self.filters or len(self.place.files) > 10_000:
            return None
        return sum(int(self._metadata(file.path).num_rows) for file in self.place.files)

    def with_columns(self, columns: tuple[str, ...]) -> Source | None:
        if self.columns is not None and not set(columns) <= set(self.columns):
            return None
        return self._with(columns=columns)  # type: ignore[no-any-return]

    def with_filter(self, expression: Expr) -> Source | None:
        if expression._arrow is None or self._adds_columns:
            return None
        return self._with(filters=(*self.filters, expression._arrow))  # type: ignore[no-any-return]

    def read_tasks(self, parallelism: int | None) -> list[ReadTask]:
        """One task per group of files; a file larger than a block is cut at its row groups."""
        _ = self._common  # looked up here, so that it travels with the tasks
        limit = DataContext.get_current().target_max_block_size
        if all(file.size * self.growth <= 2 * limit for file in self.place.files):
            return super().read_tasks(parallelism)
        tasks = []
        for file in self.place.files:
            groups = self._metadata(file.path).num_row_groups
            step = max(1, int(groups * limit // max(1, file.size * self.growth)))
            for start in range(0, groups, step):
                numbers = list(range(start, min(start + step, groups)))
                share = int(file.size * self.growth * len(numbers) / groups)
                read = partial(self._read_groups, file.path, numbers)
                tasks.append(ReadTask(read, file.path, share))
        return tasks

    def _read_groups(self, path: str, numbers: list[int]) -> Iterator[Block]:
        for block in self.read_file(path, numbers):
            yield self.completed(block, path)

    def completed(self, block: Block, path: str) -> Block:
        block = super().completed(block, path)
        wanted = self.columns
        return block.select(list(wanted)) if wanted and block.num_columns else block

    def read_file(self, path: str, groups: list[int] | None = None) -> Iterator[Block]:
        with self.place.filesystem.open_input_file(path) as stream:
            file = pq.ParquetFile(stream, **dict(self.arguments))
            names = file.schema_arrow.names
            columns = self._columns_in(self._common.names if self._common is not None else names)
            numbers = range(file.num_row_groups) if groups is None else groups
            inside = columns and ([n for n in columns if n in names] or names[:1])
            table = file.read_row_groups(list(numbers), inside)
        table = table.cast(clean(table.schema)) if needs_cleaning(table.schema) else table
        if self._common is not None:
            table = brought_to(table, self._common, columns)
        for expression in self.filters:
            table = table.filter(expression)
        yield table.replace_schema_metadata(_kept(table.schema.metadata))

    def _columns_in(self, names: list[str]) -> list[str] | None:
        """The columns to read: those wanted, and those that a filter looks at."""
        if self.columns is None or self.filters:
            return None
        inside = [n for n in self.columns if n in names or self._not_added(n, names)]
        return inside or names[:1]  # no column at all would be no row

    @property
    def _adds_columns(self) -> bool:
        """Whether paths give columns that are not in the files."""
        return self.options.include_paths or any("=" in file.path for file in self.place.files)

    def _not_added(self, name: str, names: list[str]) -> bool:
        if self._adds_columns:
            return False
        raise missing_column(name, names)

    def _check(self, names: list[str]) -> None:
        for name in self.columns or ():
            if name not in names:
                raise missing_column(name, names)


def brought_to(table: Block, schema: pa.Schema, columns: list[str] | None) -> Block:
    """The table with the columns of the schema (or those of them that are wanted), of its types;
    what is absent is None."""
    wanted = [field for field in schema if columns is None or field.name in columns]
    there = table.column_names
    return pa.table(
        [
            table[field.name].cast(field.type)
            if field.name in there
            else pa.nulls(table.num_rows, field.type)
            for field in wanted
        ],
        schema=pa.schema(wanted, table.schema.metadata),
    )


def _kept(metadata: Any) -> Any:
    """Only our own marks: what pandas left about its index concerns nobody here."""
    ours = {key: value for key, value in (metadata or {}).items() if key.startswith(b"skate.")}
    return ours or None


def needs_cleaning(schema: pa.Schema) -> bool:
    return any(pa.types.is_dictionary(field.type) for field in schema)


def clean(schema: pa.Schema) -> pa.Schema:
    """Dictionary columns as plain ones: their codes differ from file to file."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in schema
    ]
    return pa.schema(fields, _kept(schema.metadata))
