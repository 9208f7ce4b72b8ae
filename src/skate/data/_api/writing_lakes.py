"""Dataset: into tables with versions. What is written is one new version, or nothing at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skate._core.optional_imports import try_import
from skate._core.plain_errors import methods_failing_plainly
from skate.data._api.base import check_least
from skate.data._api.consuming import Consuming
from skate.data._arrow.blocks import Block, check_columns, without_extensions
from skate.data._arrow.tensors import is_fixed_tensor, is_object
from skate.data._execution.bundles import table_of
from skate.data._io.file_writers import OutputExistsError
from skate.data._io.row_checkpoints import warn_without_ids
from skate.data._io.sinks import SaveMode
from skate.data.sources.iceberg_filters import iceberg_filter
from skate.data.sources.iceberg_schemas import as_required
from skate.data.sources.lakes import EXTRA, iceberg_table

if TYPE_CHECKING:
    from skate.data._expressions.expression import Expr
    from skate.data._io.paths import PathLike


@methods_failing_plainly
class WritingLakes(Consuming):
    """One process writes each of them, so that there is nothing for `ray_remote_args` and
    `concurrency` to do. Tensors become lists."""

    def write_delta(
        self,
        path: PathLike,
        *,
        mode: SaveMode | str = SaveMode.APPEND,
        partition_by: list[str] | str | None = None,
        storage_options: dict[str, str] | None = None,
        schema_mode: str | None = "merge",
        name: str | None = None,
        description: str | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Write into a table of Delta Lake, which is made if there is none.

        The arguments are those of deltalake.write_deltalake.

        Args:
            path: The table.
            mode: "append", "overwrite", "error" or "ignore".
            partition_by: Columns by whose values the table is partitioned, or the name of one.
            storage_options: Credentials and the like of the storage.
            schema_mode: "merge" adds new columns to the table, "overwrite" replaces its schema,
                "error" refuses them.
            name: The name of a new table.
            description: What a new table says of itself.
            ray_remote_args: Without effect: one process writes.
            concurrency: Without effect, likewise.

        Raises:
            ValueError: If the table is there with mode "error", has other partitions, or has to
                get columns with the schema mode "error"; or if `partition_by` names no column.
        """
        warn_without_ids(self._context, "write_delta, which makes one version")
        tables = try_import("deltalake", EXTRA)
        chosen = _mode(mode, "append", "overwrite", "error", "ignore")
        place = os.fspath(path)
        parts = [partition_by] if isinstance(partition_by, str) else partition_by
        with self._reader() as rows:
            check_columns(parts or (), rows.schema.names)
            if tables.DeltaTable.is_deltatable(place, storage_options):
                table = tables.DeltaTable(place, storage_options=storage_options)
                _check_fits_table(table, rows.schema, chosen, parts, schema_mode)
            changes_schema = chosen in ("append", "overwrite") and schema_mode != "error"
            tables.write_deltalake(
                place,
                rows,
                mode=chosen,
                partition_by=parts,
                storage_options=storage_options,
                schema_mode=schema_mode if changes_schema else None,
                name=name,
                description=description,
            )

    def write_iceberg(
        self,
        table_identifier: str,
        catalog_kwargs: dict[str, object] | None = None,
        *,
        snapshot_properties: dict[str, str] | None = None,
        mode: SaveMode | str = SaveMode.APPEND,
        overwrite_filter: Expr | object = None,
        upsert_kwargs: dict[str, object] | None = None,
        overwrite_kwargs: dict[str, object] | None = None,
        ray_remote_args: dict[str, object] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Write into a table of Iceberg that exists; all rows are held in memory on the way.

        The table gets the columns that it lacks, which are missing from its other rows, and wider
        types where those of the rows are wider.

        Args:
            table_identifier: The table, as "namespace.name".
            catalog_kwargs: What `pyiceberg.catalog.load_catalog` needs to find it.
            snapshot_properties: Notes that are kept with the snapshot.
            mode: "append", "overwrite" or "upsert".
            overwrite_filter: For "overwrite", which rows give way: an expression such as
                `col("day") == 3`, or a filter of pyiceberg; None is all.
            upsert_kwargs: For "upsert", such as `{"join_cols": ...}` in place of the table's keys.
            overwrite_kwargs: For "overwrite", more arguments of the table's `overwrite`.
            ray_remote_args: Without effect: one process writes.
            concurrency: Without effect, likewise.

        Raises:
            ValueError: If an argument belongs to another mode, or a value is missing where the
                table wants one.
        """
        warn_without_ids(self._context, "write_iceberg, which makes one version")
        chosen = _mode(mode, "append", "overwrite", "upsert")
        _check_only_for_mode(chosen, "upsert", upsert_kwargs=upsert_kwargs)
        _check_only_for_mode(
            chosen,
            "overwrite",
            overwrite_kwargs=overwrite_kwargs,
            overwrite_filter=overwrite_filter,
        )
        which = iceberg_filter(overwrite_filter)
        table = iceberg_table(table_identifier, catalog_kwargs)
        rows = without_extensions(table_of(self._bundles()))
        rows = as_required(rows, table.schema())
        noted = {"snapshot_properties": snapshot_properties} if snapshot_properties else {}
        with table.transaction() as version:
            with version.update_schema() as update:
                update.union_by_name(rows.schema)
            if chosen == "append":
                version.append(rows, **noted)
            elif chosen == "upsert":
                version.upsert(rows, **noted, **(upsert_kwargs or {}))
            else:
                given = {} if which is None else {"overwrite_filter": which}
                version.overwrite(rows, **given, **noted, **(overwrite_kwargs or {}))

    def write_lance(
        self,
        path: PathLike,
        *,
        schema: pa.Schema | None = None,
        mode: SaveMode | str = SaveMode.CREATE,
        min_rows_per_file: int = 1024 * 1024,
        max_rows_per_file: int = 64 * 1024 * 1024,
        data_storage_version: str | None = None,
        storage_options: dict[str, Any] | None = None,
        ray_remote_args: dict[str, Any] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Write into a table of Lance, which is made if there is none and the rows have columns.

        Tensors of one dimension become lists of one length, which Lance can index.

        Args:
            path: The table.
            schema: The columns and types that it gets; None is those of the rows.
            mode: "create" (or "error"), which wants that there is no table yet, "append" or
                "overwrite".
            min_rows_per_file: Without effect: as one process writes, each file but the last is
                filled.
            max_rows_per_file: How many rows a file gets at the most.
            data_storage_version: The version of the format, as Lance takes it.
            storage_options: Credentials and the like of the storage.
            ray_remote_args: Without effect: one process writes.
            concurrency: Without effect, likewise.

        Raises:
            OutputExistsError: If the table is there with mode "create".
            ValueError: If the mode is another one, or a number of rows is not positive.
        """
        check_least("max_rows_per_file", max_rows_per_file, 1)
        warn_without_ids(self._context, "write_lance, which makes one version")
        lance = try_import("lance", EXTRA)
        chosen = _mode(mode, "append", "overwrite", "error")
        with self._reader(schema, _with_vectors) as rows:
            if not rows.schema.names:
                return
            try:
                lance.write_dataset(
                    rows,
                    os.fspath(path),
                    schema=rows.schema,
                    mode="create" if chosen == "error" else chosen,
                    max_rows_per_file=max_rows_per_file,
                    data_storage_version=data_storage_version,
                    storage_options=storage_options,
                )
            except OSError as error:
                if chosen != "error" or "already exists" not in str(error):
                    raise
                raise OutputExistsError(
                    f"the table {os.fspath(path)} is there already, which mode='create' does not "
                    "allow; 'append' adds to it, 'overwrite' replaces its rows"
                ) from error

    @contextmanager
    def _reader(
        self,
        wanted: pa.Schema | None = None,
        plain: Callable[[Block], Block] = without_extensions,
    ) -> Iterator[pa.RecordBatchReader]:
        """Give the rows as a stream of one schema: the wanted one, or their own, `plain`.

        An error on the way to a row is raised as it is, not as the library's that reads the rows.
        """
        arrow = self._plain_schema(plain) if wanted is None else wanted
        failures: list[Exception] = []

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for block in self._blocks():
                    yield from _fitted(plain(block), arrow).to_batches()
            except Exception as error:
                failures.append(error)
                raise

        try:
            yield pa.RecordBatchReader.from_batches(arrow, batches())
        except Exception:
            if failures:
                raise failures[0] from None
            raise

    def _plain_schema(self, plain: Callable[[Block], Block]) -> pa.Schema:
        schema = self.schema()
        empty = pa.schema([]) if schema is None else schema.base_schema
        for field in empty:
            if is_object(field.type):
                raise TypeError(
                    f"column {field.name!r} has Python objects, which such a table cannot keep; "
                    "map makes numbers, text, lists or dictionaries of them, and drop_columns "
                    "leaves them out"
                )
        return plain(empty.empty_table()).schema


def _with_vectors(block: Block) -> Block:
    """Turn tensors into lists; those of one dimension into lists of one length, which Lance makes
    its indexes of."""
    for number, field in enumerate(block.schema):
        if is_fixed_tensor(field.type) and len(field.type.shape) == 1:
            storage = [chunk.storage for chunk in block.column(number).chunks]
            column = pa.chunked_array(storage, field.type.storage_type)
            block = block.set_column(number, field.name, column)
    return without_extensions(block)


def _fitted(block: Block, schema: pa.Schema) -> Block:
    """Return the rows in this schema; what they lack is missing.

    Raises:
        ValueError: If they have a column that the schema has not.
    """
    new = [name for name in block.column_names if name not in schema.names]
    if new:
        raise ValueError(
            f"some rows have the columns {new}, and the first ones only {schema.names}: "
            "select_columns([...]) leaves them out"
        )
    for field in schema:
        if field.name not in block.column_names:
            block = block.append_column(field, pa.nulls(block.num_rows, field.type))
    return block.select(schema.names).cast(schema)


def _mode(given: SaveMode | str, *allowed: str) -> str:
    mode = "error" if given == SaveMode.CREATE else str(SaveMode(given).value)
    if mode not in allowed:
        raise ValueError(f"mode takes {', '.join(map(repr, allowed))} here; got {given!r}")
    return mode


def _check_fits_table(
    table: Any, rows: pa.Schema, mode: str, partition_by: list[str] | None, schema_mode: str | None
) -> None:
    """Raise if rows are not to be written into a table of Delta Lake that is there."""
    if mode == "error":
        raise OutputExistsError(
            f"the table {table.table_uri} is there already, which mode='error' does not allow; "
            "'append' adds to it, 'overwrite' replaces its rows"
        )
    if mode != "append":
        return
    there = list(table.metadata().partition_columns)
    if partition_by is not None and list(partition_by) != there:
        raise ValueError(
            f"the table is partitioned by {there}; got partition_by={partition_by!r}: leave it "
            "out, or write another table"
        )
    new = [name for name in rows.names if name not in {f.name for f in table.schema().fields}]
    if schema_mode == "error" and new:
        raise ValueError(
            f"the table has no columns {new}, and schema_mode='error' adds none; 'merge' does"
        )


def _check_only_for_mode(mode: str, only: str, **given: object) -> None:
    """Raise if an argument was given that only another mode heeds."""
    for name, value in given.items():
        empty = value is None or (isinstance(value, dict) and not value)
        if mode != only and not empty:
            raise ValueError(f"{name} is for mode={only!r} only; got it with mode={mode!r}")
