"""Datasets of tables that are kept with their versions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skate._core.plain_errors import failing_plainly
from skate._core.signature import showing_keywords
from skate.data._arrow.foreign import allows_pickle
from skate.data._io.read import dataset_of
from skate.data._io.read_keywords import SourceKeywords, meanings
from skate.data.dataset import Dataset
from skate.data.sources.lakes import delta_source, iceberg_source, iceberg_table
from skate.data.sources.lance import lance_source

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from skate.data._io.paths import PathLike


@showing_keywords(meanings(SourceKeywords))
@failing_plainly
def read_delta(
    path: PathLike,
    version: Any = None,
    *,
    storage_options: dict[str, str] | None = None,
    columns: Sequence[str] | None = None,
    allow_pickle: bool = False,
    **options: Unpack[SourceKeywords],
) -> Dataset:
    """Read a table of Delta Lake.

    Args:
        path: The table.
        version: The version, as a number or a time; None is the newest.
        storage_options: Credentials and the like, as the deltalake package takes them.
        columns: The columns that are read; None is all.
        allow_pickle: As in `read_parquet`.
        **options: `override_num_blocks`, `concurrency` and options of tasks, as in `read_csv`.

    Returns:
        A dataset of the rows, which are read when they are used.
    """
    given = dict(options)
    source = delta_source(
        os.fspath(path), version, storage_options, columns, allows_pickle(allow_pickle)
    )
    return dataset_of(source, given)


@showing_keywords(meanings(SourceKeywords))
@failing_plainly
def read_iceberg(
    *,
    table_identifier: str,
    row_filter: object = None,
    selected_fields: Sequence[str] = ("*",),
    snapshot_id: int | None = None,
    scan_kwargs: Mapping[str, object] | None = None,
    catalog_kwargs: Mapping[str, object] | None = None,
    allow_pickle: bool = False,
    **options: Unpack[SourceKeywords],
) -> Dataset:
    """Read a table of Iceberg.

    Args:
        table_identifier: The table, as "namespace.name".
        row_filter: Which rows are read: an expression of pyiceberg, or text such as "price > 3".
        selected_fields: The columns that are read; "*" is all.
        snapshot_id: The snapshot; None is the newest.
        scan_kwargs: More arguments of pyiceberg's Table.scan.
        catalog_kwargs: For pyiceberg's load_catalog, with the name of the catalog as `name`.
        allow_pickle: As in `read_parquet`.
        **options: `override_num_blocks`, `concurrency` and options of tasks, as in `read_csv`.

    Returns:
        A dataset of the rows, which are read when they are used.
    """
    given = dict(options)
    table = iceberg_table(table_identifier, catalog_kwargs)
    trusted = allows_pickle(allow_pickle)
    source = iceberg_source(table, row_filter, selected_fields, snapshot_id, scan_kwargs, trusted)
    return dataset_of(source, given)


@showing_keywords(meanings(SourceKeywords))
@failing_plainly
def read_lance(
    uri: PathLike | Sequence[PathLike],
    *,
    version: int | str | None = None,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    scanner_options: Mapping[str, Any] | None = None,
    allow_pickle: bool = False,
    **options: Unpack[SourceKeywords],
) -> Dataset:
    """Read a table of Lance, or several, one after the other.

    Args:
        uri: The table, or several; where one lacks a column of another, its values are missing.
        version: The version, as a number or a tag; None is the newest.
        columns: The columns that are read; None is all.
        filter: Which rows are read, as a condition in SQL such as "price > 3".
        storage_options: Credentials and the like of the storage.
        scanner_options: More arguments of Lance's `scanner`, which each task calls for its
            fragments.
        allow_pickle: As in `read_parquet`.
        **options: `override_num_blocks`, `concurrency` and options of tasks, as in `read_csv`.

    Returns:
        A dataset of the rows, which are read when they are used.

    Raises:
        ValueError: If there is no such table or version, or `scanner_options` has "fragments".
    """
    chosen = {"columns": None if columns is None else list(columns), "filter": filter}
    scan = {**(scanner_options or {}), **{k: v for k, v in chosen.items() if v is not None}}
    source = lance_source(uri, version, storage_options, scan, allows_pickle(allow_pickle))
    return dataset_of(source, dict(options))


__all__ = ["read_delta", "read_iceberg", "read_lance"]
