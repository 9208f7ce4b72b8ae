"""Dataset: into tables with versions. What is written is one new version, or nothing at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skate._core.optional_imports import try_import
from skate.data._api.consuming import Consuming
from skate.data._arrow.blocks import without_extensions
from skate.data._execution.bundles import table_of
from skate.data._io.row_checkpoints import warn_without_ids
from skate.data._io.sinks import SaveMode
from skate.data.sources.lakes import EXTRA, iceberg_table

if TYPE_CHECKING:
    from skate.data._io.paths import PathLike


class WritingLakes(Consuming):
    """One process writes each of them, so that there is nothing for `ray_remote_args` and
    `concurrency` to do. Tensors become lists."""

    def write_delta(
        self,
        path: PathLike,
        *,
        mode: SaveMode | str = SaveMode.APPEND,
        partition_by: list[str] | None = None,
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
            partition_by: Columns by whose values the table is partitioned.
            storage_options: Credentials and the like of the storage.
            schema_mode: "merge" adds new columns to the table, "overwrite" replaces its schema.
            name: The name of a new table.
            description: What a new table says of itself.
            ray_remote_args: Without effect: one process writes.
            concurrency: Without effect, likewise.
        """
        warn_without_ids(self._context, "write_delta, which makes one version")
        tables = try_import("deltalake", EXTRA)
        chosen = _mode(mode, "append", "overwrite", "error", "ignore")
        tables.write_deltalake(
            os.fspath(path),
            self._reader(),
            mode=chosen,
            partition_by=partition_by,
            storage_options=storage_options,
            schema_mode=schema_mode if chosen in ("append", "overwrite") else None,
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
        overwrite_filter: object = None,
        upsert_kwargs: dict[str, object] | None = None,
        overwrite_kwargs: dict[str, object] | None = None,
        ray_remote_args: dict[str, object] | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Write into a table of Iceberg that exists; all rows are held in memory on the way.

        Args:
            table_identifier: The table, as "namespace.name".
            catalog_kwargs: What `pyiceberg.catalog.load_catalog` needs to find it.
            snapshot_properties: Notes that are kept with the snapshot.
            mode: "append", "overwrite" or "upsert".
            overwrite_filter: Which rows are overwritten; None is all.
            upsert_kwargs: For "upsert", such as `{"join_cols": ...}` in place of the table's keys.
            overwrite_kwargs: More arguments of the table's `overwrite`.
            ray_remote_args: Without effect: one process writes.
            concurrency: Without effect, likewise.
        """
        warn_without_ids(self._context, "write_iceberg, which makes one version")
        chosen = _mode(mode, "append", "overwrite", "upsert")
        table = iceberg_table(table_identifier, catalog_kwargs)
        rows = without_extensions(table_of(self._bundles()))
        noted = {"snapshot_properties": snapshot_properties} if snapshot_properties else {}
        if chosen == "append":
            table.append(rows, **noted)
        elif chosen == "upsert":
            table.upsert(rows, **noted, **(upsert_kwargs or {}))
        else:
            which = {} if overwrite_filter is None else {"overwrite_filter": overwrite_filter}
            table.overwrite(rows, **which, **noted, **(overwrite_kwargs or {}))

    def _reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of one schema."""
        schema = self.schema()
        empty = pa.schema([]) if schema is None else schema.base_schema
        arrow = without_extensions(empty.empty_table()).schema

        def batches() -> Iterator[pa.RecordBatch]:
            for block in self._blocks():
                yield from without_extensions(block).cast(arrow).to_batches()

        return pa.RecordBatchReader.from_batches(arrow, batches())


def _mode(given: SaveMode | str, *allowed: str) -> str:
    mode = "error" if given == SaveMode.CREATE else str(SaveMode(given).value)
    if mode not in allowed:
        raise ValueError(f"mode takes {', '.join(map(repr, allowed))} here; got {given!r}")
    return mode
