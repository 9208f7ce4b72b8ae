"""Rows from and for Polars, DuckDB and whatever speaks Arrow's protocol, and SQL."""

from __future__ import annotations

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pytest

from skate import data

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]


class TestPolars:
    def test_there_and_back(self) -> None:
        frame = polars.DataFrame(
            {"n": [1, None], "s": ["a", "ä"], "l": [[1], []]}, schema_overrides={"n": polars.Int8}
        )
        rows = data.from_polars(frame)
        assert rows.schema().base_schema.types == [  # type: ignore[union-attr]
            pa.int8(), pa.large_string(), pa.large_list(pa.int64())
        ]  # fmt: skip
        assert rows.to_polars().equals(frame)

    def test_several_frames_and_lazy_ones(self) -> None:
        frame = polars.DataFrame({"n": [1, 2]})
        rows = data.from_polars([frame, frame.lazy().filter(polars.col("n") > 1)])
        assert [row["n"] for row in rows.take_all()] == [1, 2, 2]

    def test_categories_are_text(self) -> None:
        frame = polars.DataFrame({"c": ["a", "b", "a"]}).cast(polars.Categorical)
        assert data.from_polars(frame).take_all() == [{"c": "a"}, {"c": "b"}, {"c": "a"}]

    def test_tensors_are_lists(self) -> None:
        tensors = data.from_numpy(np.arange(8).reshape(2, 2, 2))
        assert tensors.to_polars()["data"].to_list() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]

    def test_a_frame_does_not_share_the_memory_of_a_dataset(self) -> None:
        kept = data.from_items([{"x": 1}, {"x": 2}]).materialize()
        kept.to_polars()["x"].to_numpy()
        assert kept.take_all() == [{"x": 1}, {"x": 2}]

    def test_what_is_no_frame(self) -> None:
        with pytest.raises(TypeError, match="DataFrame or LazyFrame"):
            data.from_polars([[1, 2]])


class TestArrowStream:
    def test_blocks_go_one_by_one(self) -> None:
        rows = data.range(10, override_num_blocks=4)
        reader = pa.RecordBatchReader.from_stream(rows)
        assert [batch.num_rows for batch in reader] == list(rows._block_num_rows())
        assert pa.table(rows)["id"].to_pylist() == list(range(10))

    def test_blocks_of_other_columns_and_types(self) -> None:
        both = data.from_items([{"a": 1}]).union(data.from_items([{"a": 2.5, "b": "x"}]))
        assert pa.table(both).to_pydict() == {"a": [1.0, 2.5], "b": [None, "x"]}

    def test_no_rows(self) -> None:
        assert pa.table(data.from_items([{"a": 1}]).filter(expr="a > 1")).num_rows == 0


class TestNumpy:
    def test_columns_by_name(self) -> None:
        x = np.arange(3)
        rows = data.from_numpy({"x": x, "y": np.ones((3, 2))})
        x[:] = 0
        assert [row["x"] for row in rows.take_all()] == [0, 1, 2]
        assert rows.take(1)[0]["y"].tolist() == [1, 1]

    def test_columns_of_other_lengths(self) -> None:
        with pytest.raises(ValueError, match="differ in length"):
            data.from_numpy({"x": np.arange(3), "y": np.arange(2)})


class TestDuckDB:
    def test_in_and_out(self) -> None:
        relation = duckdb.sql("select range as n, 'a' || range as s from range(3)")
        rows = data.from_duckdb(relation)
        assert rows.take(1) == [{"n": 0, "s": "a0"}]
        total = duckdb.sql("select sum(n) from rows")
        assert total is not None
        assert total.fetchall() == [(3,)]

    def test_what_is_no_relation(self) -> None:
        with pytest.raises(TypeError, match="relation"):
            data.from_duckdb("select 1")


class TestSql:
    def test_one_dataset(self) -> None:
        rows = data.range(6).sql("select id % 2 as odd, count(*) as n from self group by odd")
        assert sorted(row["n"] for row in rows.take_all()) == [3, 3]

    def test_several(self) -> None:
        people = data.from_items([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
        bills = data.from_items([{"id": 2, "sum": 5.0}, {"id": 2, "sum": 1.0}])
        query = "select name, sum(b.sum) as total from p join b on p.id = b.id group by name"
        assert data.sql(query, p=people, b=bills).take_all() == [{"name": "b", "total": 6.0}]
        assert people.sql("select count(*) as n from self, b", b=bills).take_all() == [{"n": 4}]

    def test_it_is_lazy(self) -> None:
        rows = data.range(3).sql("select * from nowhere")
        with pytest.raises(ValueError, match=r"nowhere.*the tables are self"):
            rows.take_all()

    def test_what_is_no_query(self) -> None:
        with pytest.raises(TypeError, match="query as text"):
            data.range(3).sql(3)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="needs datasets"):
            data.sql("select 1")
        with pytest.raises(TypeError, match="is a dataset"):
            data.sql("select * from t", t=[1])  # type: ignore[arg-type]
