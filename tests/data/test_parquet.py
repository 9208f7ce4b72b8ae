"""Parquet: what is read of it and what is not, tensors, hashes of rows."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("local")
def test_a_single_file_in_several_blocks(tmp_path):
    skate.data.range(10, override_num_blocks=1).write_parquet(tmp_path)
    dataset = skate.data.read_parquet(tmp_path, override_num_blocks=3)
    assert dataset._block_num_rows() == [3, 3, 4]
    assert dataset._plan.initial_num_blocks() == 3
    sizes = dataset.map_batches(lambda batch: {"n": [len(batch["id"])]}, batch_size=None)
    assert [row["n"] for row in sizes.take_all()] == [3, 3, 4]


class TestReadParquet:
    @pytest.fixture
    def files(self, tmp_path: Path) -> Path:
        for number in range(3):
            (tmp_path / f"d{number}").mkdir()
            table = pa.table({"a": [number], "b": [str(number)]})
            pq.write_table(table, tmp_path / f"d{number}" / "f.parquet")
        return tmp_path

    def test_columns_and_paths(self, files: Path) -> None:
        rows = skate.data.read_parquet(str(files), columns=["a"], include_paths=True)
        assert rows.columns() == ["a", "path"]
        found = {row["a"]: row["path"] for row in rows.take_all()}
        assert found == {n: str(files / f"d{n}" / "f.parquet") for n in range(3)}

    @pytest.mark.parametrize("columns", [None, ["a"], ["a", "path"], ["path"]])
    def test_paths_of_files_that_have_such_a_column(
        self, tmp_path: Path, columns: list[str] | None
    ) -> None:
        file = tmp_path / "f.parquet"
        pq.write_table(pa.table({"path": ["mine"], "a": [1], "b": [2]}), file)
        rows = skate.data.read_parquet(str(file), columns=columns, include_paths=True)
        (row,) = rows.take_all()
        assert row["path"] == str(file)
        assert set(row) == {"path", *(columns or ["a", "b"])}
        assert set(rows.columns()) == set(row)

    def test_skipped_paths(self, files: Path) -> None:
        skipped = [str(files / "d0"), str(files / "d1" / "f.parquet"), str(files / "none")]
        rows = skate.data.read_parquet(str(files), skip_paths=skipped)
        assert [row["a"] for row in rows.take_all()] == [2]
        named = [str(files / "d2"), str(files / "missing.parquet")]
        rows = skate.data.read_parquet(named, skip_paths=str(files / "missing.parquet"))
        assert rows.count() == 1

    @pytest.mark.parametrize(
        "expr", ["d > 2", "d >= 3.5", "d * 2 > 3 and i == 2", "d > f and i > 1"]
    )
    def test_filters_by_decimals(self, tmp_path: Path, expr: str) -> None:
        numbers = pa.array([Decimal("1.25"), Decimal("3.50"), None])
        table = pa.table({"d": numbers, "i": [1, 2, 3], "f": [0.5, 1.5, 2.5]})
        pq.write_table(table, tmp_path / "a.parquet")
        for rows in (skate.data.from_arrow(table), skate.data.read_parquet(str(tmp_path))):
            assert [row["i"] for row in rows.filter(expr=expr).take_all()] == [2]


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3)], ids=["fixed", "ragged"])
def test_tensors_that_are_missing_survive_parquet(sizes, tmp_path):
    first, last = (np.arange(size * 2.0).reshape(size, 2) for size in sizes)
    skate.data.from_items([{"t": first}, {"t": None}, {"t": last}]).write_parquet(tmp_path)
    rows = [row["t"] for row in skate.data.read_parquet(tmp_path).take_all()]
    assert rows[1] is None
    np.testing.assert_array_equal(rows[0], first)
    np.testing.assert_array_equal(rows[2], last)


@pytest.mark.engines("inline")
class TestMadeColumns:
    def test_hashes_of_rows(self, tmp_path):
        skate.data.range(6, override_num_blocks=2).write_parquet(tmp_path)
        dataset = skate.data.read_parquet(tmp_path, include_row_hash=True)
        assert dataset.schema().names == ["id", "row_hash"]
        first, second = dataset.take_all(), dataset.take_all()
        assert first == second
        assert len({row["row_hash"] for row in first}) == 6
        chosen = skate.data.read_parquet(tmp_path, columns=["id"], include_row_hash=True)
        assert chosen.filter(expr="id == 4").take_all() == [first[4]]
        assert dataset.select_columns(["id"]).take(1) == [{"id": 0}]

    def test_tensors_of_bytes(self, tmp_path):
        arrays = np.arange(12).reshape(3, 2, 2)
        frame = pd.DataFrame({"n": range(3), "t": [array.tobytes() for array in arrays]})
        skate.data.from_pandas(frame).write_parquet(tmp_path)
        kinds = {"t": (np.int64, (2, 2))}
        dataset = skate.data.read_parquet(tmp_path, tensor_column_schema=kinds)
        assert dataset.schema().types[1].shape == [2, 2]
        np.testing.assert_array_equal(dataset.take_batch()["t"], arrays)
