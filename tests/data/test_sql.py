"""SQL: read from a database, and asked of datasets."""

from __future__ import annotations

import sqlite3

import pytest

import skate
import skate.data
from skate import data

pytestmark = pytest.mark.usefixtures("engine")

ROWS = [{"n": n, "x": n / 2, "s": f"row {n}"} for n in range(10)]


def test_sql(tmp_path):
    def connect():
        return sqlite3.connect(tmp_path / "x.db")

    connection = connect()
    connection.execute("create table t (n integer, x real, s text)")
    connection.close()
    skate.data.from_items(ROWS).write_sql("insert into t values (?, ?, ?)", connect)
    assert skate.data.read_sql("select * from t order by n", connect).take_all() == ROWS
    few = skate.data.read_sql("select n from t where n > ?", connect, sql_params=(7,))
    assert few.take_all() == [{"n": 8}, {"n": 9}]


@pytest.mark.engines("inline")
class TestOfDatasets:
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
        with pytest.raises(ValueError, match=r"nowhere.*The tables are self"):
            rows.take_all()

    def test_a_word_of_sql_as_a_column(self) -> None:
        rows = data.from_items([{"user": 1}, {"user": 2}])
        with pytest.raises(
            ValueError, match=r'(?s)the query.*double quotes, as in t\."user"'
        ) as caught:
            rows.sql("select t.user from self t").take_all()
        assert "plan" not in str(caught.value)
        assert rows.sql('select max(t."user") as last from self t').take_all() == [{"last": 2}]

    def test_what_is_no_query(self) -> None:
        with pytest.raises(TypeError, match="query as text"):
            data.range(3).sql(3)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="needs datasets"):
            data.sql("select 1")
        with pytest.raises(TypeError, match="is a dataset"):
            data.sql("select * from t", t=[1])  # type: ignore[arg-type]
