"""Expressions: kinds of columns, functions, and values, and where they run."""

import datetime
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skate
import skate.data
from skate.data.datatype import DataType
from skate.data.expressions import (
    col,
    download,
    lit,
    monotonically_increasing_id,
    pyarrow_udf,
    random,
    star,
    udf,
    unnest,
    uuid,
)

WHEN = datetime.datetime(2024, 2, 29, 13, 40)
TABLE = pa.table(
    {
        "s": ["  aB c ", None],
        "t": pa.array([WHEN, WHEN], pa.timestamp("s")),
        "l": [[3, None, 1], None],
        "n": [[[1], [2, 3]], [[], [4]]],
        "d": [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}],
        "m": pa.array([[("k", 1)], [("p", 2), ("q", 3)]], pa.map_(pa.string(), pa.int64())),
        "i": [7, -7],
    }
)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (col("s").str.strip().str.upper(), "AB C"),
        (col("s").str.lstrip(" a"), "B c "),
        (col("s").str.strip().str.pad(6, "-", "left"), "--aB c"),
        (col("s").str.strip().str.center(6, "*"), "*aB c*"),
        (col("s").str.byte_len(), 7),
        (col("s").str.count("a"), 1),
        (col("s").str.replace_regex(" +", ""), "aBc"),
        (col("s").str.split_whitespace().list.len(), 4),
        (col("t").dt.year(), 2024),
        (col("t").dt.strftime("%d.%m."), "29.02."),
        (col("t").dt.floor("day"), WHEN.replace(hour=0, minute=0)),
        (col("l").list[0], 3),
        (col("l").list[0:1], [3]),
        (col("l").list.sort(), [1, 3, None]),
        (col("l").list.sort("descending", "at_start"), [None, 3, 1]),
        (col("n").list.flatten(), [1, 2, 3]),
        (col("d").struct["y"], "a"),
        (col("m").map.keys(), ["k"]),
        (col("m").map.values(), [1]),
        (col("i") // 2, 3),
        (10 // col("i"), 1),
        (col("i") % 4, 3),
        (col("i") / 2, 3),
        (col("i") / 2.0, 3.5),
        (col("i").cast(DataType.string()), "7"),
        (col("i").power(2), 49),
        (col("i").is_in(lit([7, 8])), True),
        (col("i").not_in([7, 8]), False),
    ],
    ids=str,
)
def test_values(expression, expected):
    assert expression.evaluate(TABLE)[0].as_py() == expected


def test_missing_values_stay_missing():
    assert col("l").list.sort().evaluate(TABLE)[1].as_py() is None
    assert col("s").str.upper().evaluate(TABLE)[1].as_py() is None


def test_tensors_as_lists():
    dataset = skate.data.from_numpy(np.arange(4).reshape(2, 2))
    block = next(dataset._blocks())
    assert col("data").arr.to_list().evaluate(block)[0].as_py() == [0, 1]


def test_what_there_is_not_is_named():
    with pytest.raises(AttributeError, match=r"\.str has no 'shout'.*upper"):
        col("s").str.shout()
    with pytest.raises(ValueError, match="'ascending' or 'descending'; got 'up'"):
        col("l").list.sort("up")
    with pytest.raises(TypeError, match=r"join conditions with &"):
        bool(col("i") > 1)
    with pytest.raises(ValueError, match="Invalid syntax in the expression 'id >'"):
        skate.data.range(3).filter(expr="id >")


def test_conditions_as_text():
    rows = skate.data.from_items([{"a": 1}, {"a": None}, {"a": -3}])
    kept = [row["a"] for row in rows.filter(expr="is_valid(a) and abs(a) > 2").take_all()]
    assert kept == [-3]
    assert rows.filter(expr="is_null(a) or a not in [1, 2]").count() == 2


def test_the_same_computation():
    assert (col("a") + 1).structurally_equals(col("a") + 1)
    assert not (col("a") + 1).structurally_equals(col("a") + 2)
    assert (col("i") + 0.5).get_type(TABLE.schema) == pa.float64()


@pytest.mark.usefixtures("engine")
class TestDatasets:
    def test_a_function_of_columns_runs_elsewhere_and_has_a_type(self):
        @udf(return_dtype=DataType.float64())
        def double(column):
            return pc.multiply(column, 2)

        dataset = skate.data.range(3).with_column("x", double(col("id")) + 1)
        assert [row["x"] for row in dataset.take_all()] == [1.0, 3.0, 5.0]
        assert "tasks" in dataset.stats()

    def test_a_class_keeps_what_it_was_made_with(self):
        @pyarrow_udf(return_dtype=DataType.int64())
        class Shift:
            def __init__(self, amount):
                self.amount = amount

            def __call__(self, column):
                return pc.add(column, self.amount)

        dataset = skate.data.range(2).with_column("x", Shift(5)(col("id")))
        assert [row["x"] for row in dataset.take_all()] == [5, 6]

    def test_row_numbers_go_on_from_block_to_block(self):
        dataset = skate.data.range(10, override_num_blocks=4)
        numbered = dataset.with_column("n", monotonically_increasing_id())
        assert [row["n"] for row in numbered.take_all()] == list(range(10))

    def test_random_numbers(self):
        def draw(**options):
            dataset = skate.data.range(20).with_column("r", random(**options))
            return [[row["r"] for row in dataset.take_all()] for _ in range(2)]

        first, second = draw(seed=1, reseed_after_execution=False)
        assert first == second == draw(seed=1, reseed_after_execution=False)[0]
        first, second = draw(seed=1)
        assert first != second
        assert [first, second] == draw(seed=1)
        assert all(0 <= number < 1 for number in first)

    def test_identifiers_downloads_and_columns_of_dictionaries(self, tmp_path):
        (tmp_path / "a.txt").write_bytes(b"hello")
        uris = [str(tmp_path / "a.txt"), str(tmp_path / "no.txt")]
        rows = [{"uri": uri, "d": {"x": n, "y": -n}} for n, uri in enumerate(uris)]
        dataset = skate.data.from_items(rows).with_columns(star(), unnest(col("d")))
        dataset = dataset.with_column("b", download("uri")).with_column("u", uuid())
        found = dataset.take_all()
        assert [row["b"] for row in found] == [b"hello", None]
        assert [(row["x"], row["y"]) for row in found] == [(0, 0), (1, -1)]
        assert len({row["u"] for row in found}) == 2


@pytest.mark.engines("local")
@pytest.mark.usefixtures("engine")
def test_texts_are_joined():
    table = pa.table({"a": ["x", None], "b": pa.array(["y", "z"]).dictionary_encode()})
    dataset = skate.data.from_arrow(table).with_columns(
        {"c": col("a") + col("b"), "d": lit("<") + col("b") + ">"}
    )
    rows = dataset.select_columns(["c", "d"]).take_all()
    assert rows == [{"c": "xy", "d": "<y>"}, {"c": None, "d": "<z>"}]


@pytest.mark.engines("local")
@pytest.mark.usefixtures("engine")
def test_whole_numbers_stay_whole():
    dataset = skate.data.range(4).with_column("half", col("id") / 2)
    assert [row["half"] for row in dataset.take_all()] == [0, 0, 1, 1]
    exact = skate.data.range(2).with_column("half", col("id") / 2.0)
    assert exact.take_all()[1]["half"] == 0.5


@pytest.mark.usefixtures("engine")
def test_calculating_with_decimals() -> None:
    rows = skate.data.from_arrow(pa.table({"d": [Decimal("1.25"), Decimal("3.50")]}))
    for expr, wanted in (
        (col("d") + 1, [Decimal("2.25"), Decimal("4.50")]),
        (col("d") * 2.0, [2.5, 7.0]),
        (col("d") + col("d"), [Decimal("2.50"), Decimal("7.00")]),
        (col("d") - Decimal("0.25"), [Decimal("1.00"), Decimal("3.25")]),
    ):
        assert [row["x"] for row in rows.with_column("x", expr).take_all()] == wanted


@pytest.mark.usefixtures("engine")
def test_a_filter_without_columns():
    assert skate.data.range(2).filter(expr="1 == 1").count() == 2
    assert skate.data.range(2).filter(expr="1 == 2").count() == 0


@pytest.mark.usefixtures("engine")
def test_expressions_can_be_pickled():
    dataset = skate.data.range(5).filter(expr="id > 1 and id in (1, 3)")
    assert pickle.loads(pickle.dumps(dataset)).take_all() == [{"id": 3}]


@pytest.mark.engines("inline")
@pytest.mark.usefixtures("engine")
def test_names_with_dots():
    ds = skate.data.from_items([{"sepal.length": 4.8}, {"sepal.length": 5.1}])
    assert ds.filter(expr="sepal.length > 5.0").count() == 1
