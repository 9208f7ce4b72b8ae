"""Parquet: columns and rows that are not wanted are not read; large files in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from skate.data._arrow.blocks import Block, missing_column
from skate.data._arrow.foreign import admitted, admitted_schema, refused, stored_schema
from skate.data._arrow.hashing import row_hashes
from skate.data._arrow.plain_types import plain_schema, plain_type, with_plain_types
from skate.data._arrow.tensors import is_object
from skate.data._execution.transforms import SourceTask
from skate.data._expressions.result_types import looks_for_another_type, may_hold_of_nan
from skate.data._expressions.steps import set_column
from skate.data._io.paths import File
from skate.data._settings.context import DataContext
from skate.data.datasource import PartitionStyle
from skate.data.sources.base import Source
from skate.data.sources.files import FileSource
from skate.data.sources.footers import Footer, Footers, unpacked_bytes
from skate.data.sources.tables import gathered

if TYPE_CHECKING:
    import pyarrow.compute as pc
    import pyarrow.dataset as pads

    from skate.data._expressions.expression import Expr


# Of large files, a little of each column at a time: else a row group is in memory as a whole.
_BUFFERED = {"buffer_size": 1 << 20, "pre_buffer": False}
ROW_HASH = "row_hash"  # the column of include_row_hash
LOOKED_AT = 256  # files whose schemas are compared
COUNTED = 10_000  # files whose rows are counted without reading them


@dataclass(frozen=True)
class ParquetSource(FileSource):
    columns: tuple[str, ...] | None = None
    filters: tuple[Any, ...] = ()
    arguments: tuple[tuple[str, Any], ...] = ()
    wanted_schema: pa.Schema | None = None
    include_row_hash: bool = False
    allow_pickle: bool = False
    common: pa.Schema | None = field(init=False, repr=False, default=None)  # of readers
    _footers: Footers = field(init=False, repr=False)
    name = "Parquet"
    trusts_its_files = True
    growth: ClassVar[float] = 4.0

    def __post_init__(self) -> None:
        super().__post_init__()
        raises = self.options.on_bad_files == "raise"
        object.__setattr__(self, "_footers", Footers(self.place.filesystem, raises))

    # -- what footers say -----------------------------------------------------------------------

    def stored_schemas(self) -> list[pa.Schema]:
        """Return what the files say; some of them if there are very many."""
        files = self.place.files
        step = max(1, len(files) // LOOKED_AT)
        footers = self._footers.of([file.path for file in files[::step]])
        return [footer.schema for footer in footers]

    def _schemas(self) -> list[pa.Schema]:
        return [self._clean(schema) for schema in self.stored_schemas()]

    def _clean(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the blocks of a file that has this one."""
        return admitted_schema(clean(schema), self.allow_pickle)

    def _common(self) -> pa.Schema | None:
        """Find the schema that rows are brought to, if files differ or one is asked for."""
        if self.wanted_schema is not None:
            return self.wanted_schema
        schemas = self._schemas()
        if all(schema.equals(schemas[0]) for schema in schemas):
            return None
        try:
            return pa.unify_schemas(schemas, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            return None  # what does not fit together is left to those who put it together

    def schema(self) -> pa.Schema | None:
        common = self._common()
        schema = common if common is not None else next(iter(self._schemas()), None)
        if schema is None or not self.place.files:
            return None
        block = super().completed(schema.empty_table(), self.place.files[0])
        if self.include_row_hash:
            block = set_column(block, ROW_HASH, pa.array([], pa.uint64()))
        for name in self.columns or ():
            if name not in block.column_names:
                raise missing_column(name, block.column_names)
        return block.schema if self.columns is None else block.select(list(self.columns)).schema

    def count(self) -> int | None:
        if self.filters or len(self.place.files) > COUNTED:
            return None
        return sum(footer.rows for footer in self._footers.of(self.files()))

    def known_count(self) -> int | None:
        return self.count() if all(path in self._footers.known for path in self.files()) else None

    # -- less to read ---------------------------------------------------------------------------

    def only_columns(self, columns: tuple[str, ...]) -> Source | None:
        if self.columns is not None and not set(columns) <= set(self.columns):
            return None
        return self._with(columns=columns)

    def with_filter(self, expression: Expr) -> Source | None:
        schema = self.schema()
        if schema is None or self.adds_columns or self.arguments:
            return None
        try:
            expression.get_type(self._filtered_alike(schema))
        except Exception:
            return None  # it fails as a step, too, and says why there
        wanted = expression.filter_of_files
        if wanted is None:
            return None
        if may_hold_of_nan(expression, schema) or looks_for_another_type(expression, schema):
            return None
        return self._with(filters=(*self.filters, wanted))

    def _filtered_alike(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns by which Arrow filters files as its kernels do. Of decimals it
        compares fewer digits there, and raises where a whole number needs more, or where one of
        64 bits without a sign is no int64; views of files it does not compare at all."""
        views = {
            column.name
            for stored in self.stored_schemas()
            for column in stored
            if plain_type(column.type) != column.type
        }
        return pa.schema(
            [
                column
                for column in schema
                if not (pa.types.is_decimal(column.type) or pa.types.is_uint64(column.type))
                and column.name not in views
            ]
        )

    def detail(self) -> str:
        parts = [] if self.columns is None else [f"columns={list(self.columns)}"]
        parts += [f"filter={_all_of(self.filters)}"] if self.filters else []
        return f"[{', '.join(parts)}]" if parts else ""

    @property
    def adds_columns(self) -> bool:
        """Whether paths give columns that are not in the files."""
        options = self.options
        if self.include_row_hash:
            return True
        if options.include_paths or options.partitioning is None:
            return options.include_paths
        by_key = PartitionStyle(options.partitioning.style) is PartitionStyle.HIVE
        return not by_key or any("=" in file.path for file in self.place.files)

    # -- reading --------------------------------------------------------------------------------

    def read_tasks(self, parallelism: int | None) -> list[SourceTask]:
        return FileSource.read_tasks(self._with(common=self._common()), parallelism)

    def reader(self, files: list[File]) -> Any:
        none = Footers(self.place.filesystem, raises=True)
        return super().reader(files)._with(_footers=none)

    def pieces(self, files: list[File]) -> list[File]:
        """List the files; those larger than a block are cut at their row groups, unless rows
        count."""
        if self.include_row_hash:
            return files
        limit = DataContext.get_current().target_max_block_size / self.growth
        large = [file.path for file in files if file.size > 2 * limit]
        self._footers.of(large)
        found: list[File] = []
        for file in files:
            footer = self._footers.known.get(file.path) if file.size > 2 * limit else None
            found += [file] if footer is None else _cut(file, footer, limit)
        return found

    def read_file(self, path: str) -> Iterator[Block]:
        return self.read_piece(File(path, 0))

    def read_piece(self, file: File) -> Iterator[Block]:
        read = self._filtered if self.filters else self._unfiltered
        start = 0
        for table in read(file, file.size * self.growth > 2 * self.block_size):
            table = table.replace_schema_metadata(_kept(table.schema.metadata))
            if self.include_row_hash:
                hashes = pa.array(row_hashes(file.path, start, table.num_rows))
                table = set_column(table, ROW_HASH, hashes)
            start += table.num_rows
            yield table

    def _unfiltered(self, file: File, large: bool) -> Iterator[Block]:
        with self.place.filesystem.open_input_file(file.path) as stream:
            buffered = _BUFFERED if large else {}
            parquet = pq.ParquetFile(stream, **{**buffered, **dict(self.arguments)})
            names = parquet.schema_arrow.names
            columns = self._columns_in(self.common.names if self.common is not None else names)
            inside = columns and ([n for n in columns if n in names] or names[:1])
            groups = list(range(parquet.num_row_groups) if file.parts is None else file.parts)
            if large or self._grows(parquet.metadata, parquet.schema_arrow, groups):
                batches = parquet.iter_batches(row_groups=groups, columns=inside)
                tables = gathered(batches, self.block_size)
            else:
                tables = iter([parquet.read_row_groups(groups, inside)])
            for table in tables:
                yield self._admitted(table, file, parquet.schema_arrow, columns)

    def _grows(self, metadata: pq.FileMetaData, schema: pa.Schema, groups: list[int]) -> bool:
        """Return whether there is more in row groups than should be in memory at once."""
        return unpacked_bytes(metadata, schema, groups) > 4 * self.block_size

    def _filtered(self, file: File, large: bool) -> Iterator[Block]:
        """Yield the rows that fit; row groups in which no row can, and columns that nobody looks
        at, are not read."""
        from pyarrow import dataset

        fragment = dataset.ParquetFileFormat().make_fragment(
            file.path, self.place.filesystem, row_groups=file.parts
        )
        claims = fragment.physical_schema
        groups = [group.id for group in fragment.row_groups]
        large = large or self._grows(fragment.metadata, claims, groups)
        schema = self.common if self.common is not None else self._clean(claims)
        wanted = {
            "schema": stored_schema(schema, claims),
            "columns": self._columns_in(schema.names),
            "filter": _all_of(self.filters),
        }
        tables = self._sieved(fragment, **wanted) if large else [fragment.to_table(**wanted)]
        for table in tables:
            yield self._admitted(table, file, claims, wanted["columns"])

    def _sieved(
        self,
        fragment: pads.ParquetFileFragment,
        schema: pa.Schema,
        columns: list[str] | None,
        filter: pc.Expression,
    ) -> Iterator[Block]:
        """Yield what is left of a large fragment. Arrow's scanner would hold each row group as a
        whole; here it only says in which of them rows may fit."""
        groups = [group.id for group in fragment.subset(filter, schema=schema).row_groups]
        needed = columns and [*columns, *needed_by(filter, schema)]
        if not groups:
            yield brought_to(pa.Table.from_batches([], schema), schema, columns)
            return
        with self.place.filesystem.open_input_file(fragment.path) as stream:
            parquet = pq.ParquetFile(stream, **_BUFFERED)
            there = [name for name in parquet.schema_arrow.names if not needed or name in needed]
            batches = parquet.iter_batches(row_groups=groups, columns=there)
            for table in gathered(batches, self.block_size):
                plain = with_plain_types(table, dictionaries=True)
                fitting = brought_to(plain, schema, needed).filter(filter)
                yield fitting if columns is None else fitting.select(columns)

    def _admitted(
        self, table: Block, file: File, claims: pa.Schema, columns: list[str] | None
    ) -> Block:
        """Make a block of the table; `claims` is what the file says about its columns."""
        plain = with_plain_types(table, dictionaries=True)
        block = admitted(plain, file.path, self.allow_pickle, claims)
        if self.common is None:
            return block
        if not self.allow_pickle:
            _check_no_new_objects(block, self.common, file.path)
        return brought_to(block, self.common, columns)

    def _columns_in(self, names: list[str]) -> list[str] | None:
        """List the wanted columns that the file should have."""
        if self.columns is None:
            return None
        for name in self.columns:
            if name not in names and not self.adds_columns:
                raise missing_column(name, names)
        # No column at all would be no row.
        return [name for name in self.columns if name in names] or names[:1]

    def completed(self, block: Block, file: File) -> Block:
        block = super().completed(block, file)
        wanted = self.columns
        return block.select(list(wanted)) if wanted and block.num_columns else block


def _cut(file: File, footer: Footer, limit: float) -> list[File]:
    """Cut the file into pieces of about `limit` bytes; a row group is not cut."""
    share = file.size / max(1, sum(footer.groups))
    pieces: list[File] = []
    numbers: list[int] = []
    size = 0.0
    for number, bytes_ in enumerate(footer.groups):
        numbers.append(number)
        size += bytes_ * share
        if size >= limit or number == len(footer.groups) - 1:
            pieces.append(file._replace(size=int(size), parts=tuple(numbers)))
            numbers, size = [], 0.0
    return pieces or [file]


def _all_of(filters: tuple[pc.Expression, ...]) -> pc.Expression | None:
    first, *rest = filters
    for each in rest:
        first = first & each
    return first


def needed_by(filter: pc.Expression, schema: pa.Schema) -> list[str]:
    """Find the columns that a filter looks at. Arrow does not tell them: each is left out once."""
    found = []
    for place, name in enumerate(schema.names):
        try:
            schema.remove(place).empty_table().filter(filter)
        except pa.ArrowInvalid:
            found.append(name)
    return found


def brought_to(table: Block, schema: pa.Schema, columns: list[str] | None) -> Block:
    """Bring the table to the columns of the schema (or those of them that are wanted) and its
    types; what is absent is None."""
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


def _check_no_new_objects(table: Block, schema: pa.Schema, path: str) -> None:
    """Raise where a cast would make pickles of bytes: a schema of the user's is no consent."""
    for name, type_ in zip(schema.names, schema.types, strict=True):
        if is_object(type_) and name in table.column_names:
            column = table[name]
            if not is_object(column.type) and column.null_count < len(column):
                raise refused(f"column {name!r} of {path}")


def _kept(metadata: Any) -> Any:
    """Keep only our own marks: what pandas left about its index concerns nobody here."""
    ours = {key: value for key, value in (metadata or {}).items() if key.startswith(b"skate.")}
    return ours or None


def clean(schema: pa.Schema) -> pa.Schema:
    """Replace dictionary columns by plain ones: their codes differ from file to file."""
    return plain_schema(schema, dictionaries=True).with_metadata(_kept(schema.metadata))
