"""Columns that are known before anything runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


class TestKnownColumns:
    def test_missing_ones_are_an_error_at_once(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
        for rows in (
            skate.data.from_items([{"a": 1}]),
            skate.data.range(3).rename_columns({"id": "a"}),
            skate.data.read_parquet(str(tmp_path)),
        ):
            for use in (rows.drop_columns, rows.groupby):
                with pytest.raises(ValueError, match=r"'missing'.*'a'"):
                    use(["missing"])

    def test_what_only_a_run_can_tell_comes_later(self) -> None:
        rows = skate.data.range(3).map(lambda row: {"b": row["id"]})
        later = rows.drop_columns(["missing"])
        with pytest.raises(ValueError, match="missing"):
            later.take_all()
