"""Functions of users on rows and batches, and operations on columns."""

import asyncio
import weakref

import numpy as np
import pyarrow.compute as pc
import pytest
import torch

import skate
import skate.data
from skate.data import ActorPoolStrategy
from skate.data.expressions import col, lit, udf, unnest

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("local")
class TestNamesOfColumns:
    @pytest.mark.parametrize(
        ("names", "error"),
        [
            (42, TypeError),
            ([], ValueError),
            (["a", 1], ValueError),
            (["a", "a"], ValueError),
            ({1: "a"}, ValueError),
        ],
    )
    def test_names_of_columns(self, names, error):
        with pytest.raises(error, match="rename_columns"):
            skate.data.range(1).rename_columns(names)

    def test_as_many_names_as_columns(self):
        with pytest.raises(ValueError, match="2 names for the 1 columns"):
            skate.data.range(1).rename_columns(["a", "b"])

    def test_columns_are_named(self):
        with pytest.raises(TypeError, match="select_columns requires 'cols'"):
            skate.data.range(1).select_columns(None)
        with pytest.raises(ValueError, match="drop_columns expects unique"):
            skate.data.range(1).drop_columns(["id", "id"])
        with pytest.raises(ValueError, match="given by a string; got 5"):
            skate.data.range(1).mean(5)


def pairs(count=20):
    return skate.data.from_items([{"x": n, "y": n} for n in range(count)])


def test_renaming_onto_another_column_is_refused():
    with pytest.raises(ValueError, match="several columns are called 'y'"):
        pairs().rename_columns({"x": "y"}).take_all()
    assert pairs(1).rename_columns({"x": "y", "y": "x"}).take_all() == [{"y": 0, "x": 0}]


@pytest.mark.engines("inline")
def test_a_promise_to_keep_the_number_of_rows():
    seen = []

    def look(batch):
        seen.extend(batch["id"].tolist())
        return batch

    ds = skate.data.range(100).map_batches(look, udf_modifying_row_count=False)
    assert ds.limit(3).count() == 3
    assert seen == [0, 1, 2]


def ids(dataset):
    return [row["id"] for row in dataset.take_all()]


class TestFunctions:
    def test_map_keeps_the_order(self):
        dataset = skate.data.range(100).map(lambda row: {"x": row["id"] * 2})
        assert [row["x"] for row in dataset.take_all()] == list(range(0, 200, 2))

    def test_map_to_plain_values(self):
        assert skate.data.range(3).map(lambda row: row["id"]).take_all() == [0, 1, 2]

    def test_map_that_returns_nothing_says_so(self):
        with pytest.raises(ValueError, match="returned None"):
            skate.data.range(3).map(lambda row: None).take_all()

    @pytest.mark.parametrize("batch_format", ["numpy", "pandas", "pyarrow", "polars"])
    def test_map_batches_in_each_format(self, batch_format):
        dataset = skate.data.range(10).map_batches(lambda b: b, batch_format=batch_format)
        assert ids(dataset) == list(range(10))

    def test_batches_have_the_size_asked_for(self):
        dataset = skate.data.range(10).map_batches(lambda b: {"n": [len(b["id"])]}, batch_size=4)
        assert [row["n"] for row in dataset.take_all()] == [4, 4, 2]

    def test_map_batches_to_a_list(self):
        dataset = skate.data.range(4).map_batches(
            lambda frame: [f"#{n}" for n in frame["id"]], batch_format="pandas"
        )
        assert dataset.take_all() == ["#0", "#1", "#2", "#3"]

    def test_map_batches_that_yields(self):
        def twice(batch):
            yield batch
            yield batch

        assert skate.data.range(3, override_num_blocks=1).map_batches(twice).count() == 6

    def test_batches_are_views_unless_copies_are_asked_for(self):
        def change(batch):
            batch["id"] += 1
            return batch

        with pytest.raises(ValueError, match="read-only"):
            skate.data.range(3).map_batches(change).take_all()
        assert ids(skate.data.range(3).map_batches(change, zero_copy_batch=False)) == [1, 2, 3]

    @pytest.mark.parametrize("how", ["map_batches", "map_groups"])
    def test_types_that_pandas_lacks_are_kept(self, how):
        rows = [
            {"words": ["a"], "numbers": [1], "parts": [{"a": 1}], "gaps": None, "id": 0},
            {"words": [], "numbers": [2, 3], "parts": [], "gaps": 7, "id": 0},
        ]
        ds = skate.data.from_items(rows, override_num_blocks=1)
        if how == "map_batches":
            same = ds.map_batches(lambda frame: frame.copy(), batch_format="pandas")
        else:
            same = ds.groupby("id").map_groups(lambda frame: frame.copy(), batch_format="pandas")
        assert same.take_all() == rows
        assert same.materialize().schema() == ds.schema()

    def test_new_values_in_a_frame_have_types_of_their_own(self):
        ds = skate.data.from_items([{"l": [1, 2], "n": None}, {"l": [3], "n": 4}])

        def changed(frame):
            return frame.assign(l=[np.ones(2, np.int8) for _ in frame["l"]], n=frame["n"] / 8)

        found = ds.repartition(1).map_batches(changed, batch_format="pandas").take_all()
        assert [row["l"].dtype for row in found] == [np.int8, np.int8]
        assert [row["n"] for row in found] == [None, 0.5]

    def test_arguments(self):
        def add(batch, a, b):
            return {"id": batch["id"] + a + b}

        dataset = skate.data.range(2).map_batches(add, fn_args=[10], fn_kwargs={"b": 100})
        assert ids(dataset) == [110, 111]

    def test_flat_map_and_filter(self):
        dataset = skate.data.range(4).flat_map(lambda row: [row, row])
        assert ids(dataset.filter(lambda row: row["id"] > 1)) == [2, 2, 3, 3]

    def test_async_functions_overlap(self):
        async def slow(row):
            await asyncio.sleep(0.05)
            return row

        assert ids(skate.data.range(100, override_num_blocks=1).map(slow)) == list(range(100))

    def test_a_class_is_made_once_per_actor(self, tally):
        class Adder:
            def __init__(self, amount):
                tally.add()
                self.amount = amount

            def __call__(self, batch):
                return {"id": batch["id"] + self.amount}

        dataset = skate.data.range(100, override_num_blocks=10).map_batches(
            Adder, fn_constructor_args=[5], compute=ActorPoolStrategy(size=2)
        )
        assert ids(dataset) == list(range(5, 105))
        assert len(tally.words()) == 2

    def test_functions_after_a_class(self):
        class Same:
            def __call__(self, row):
                return row

        dataset = skate.data.range(20).map(Same, concurrency=1).map(lambda row: row)
        assert ids(dataset.filter(expr="id < 5")) == [0, 1, 2, 3, 4]

    def test_tensors_from_functions_are_arrays_for_the_next(self):
        def check(row):
            assert isinstance(row["t"], np.ndarray)
            return row

        dataset = skate.data.range(3).map(lambda row: {"t": torch.ones(2, 2)}).map(check)
        assert dataset.take(1)[0]["t"].shape == (2, 2)

    @pytest.mark.parametrize(
        "call",
        [
            lambda ds: ds.map(3),
            lambda ds: ds.map_batches(lambda b: b, batch_size=0),
            lambda ds: ds.map_batches(lambda b: b, batch_format="excel"),
            lambda ds: ds.map_batches(lambda b: b, compute="threads"),
            lambda ds: ds.map_batches(lambda b: b, num_cpu=1),
            lambda ds: ds.map(lambda r: r, fn_constructor_args=[1]),
            lambda ds: ds.filter(),
            lambda ds: ds.limit(-1),
            lambda ds: ds.repartition(target_num_rows_per_block=2, shuffle=True),
            lambda ds: ds.random_sample(2),
        ],
    )
    def test_mistakes_are_found_where_they_are_written(self, call):
        with pytest.raises((TypeError, ValueError)):
            call(skate.data.range(3))


class TestColumns:
    def test_select_drop_rename_add(self):
        dataset = skate.data.range(2).add_column("b", lambda frame: frame["id"] * 2)
        assert dataset.columns() == ["id", "b"]
        assert dataset.select_columns("b").take_all() == [{"b": 0}, {"b": 2}]
        assert dataset.drop_columns(["id"]).columns() == ["b"]
        assert dataset.rename_columns({"b": "c"}).columns() == ["id", "c"]
        assert dataset.rename_columns(["x", "y"]).columns() == ["x", "y"]

    @pytest.mark.parametrize(
        "how", [{"fn": lambda row: True}, {"expr": "a > 1"}], ids=["fn", "expr"]
    )
    def test_filter_of_nothing_gives_nothing(self, how):
        nothing = skate.data.from_items([]).filter(**how)
        assert (nothing.count(), nothing.take_all()) == (0, [])
        assert nothing.materialize().count() == 0

    def test_filter_of_rows_without_columns(self):
        assert skate.data.range(3).select_columns([]).filter(lambda row: False).count() == 0

    def test_filter_with_text_about_numbers_that_are_none(self) -> None:
        rows = [{"id": 0, "x": 1.0}, {"id": 1, "x": float("nan")}, {"id": 2, "x": None}]
        dataset = skate.data.from_items(rows)
        assert ids(dataset.filter(expr="is_nan(x)")) == [1]
        assert ids(dataset.filter(expr="not is_nan(x)")) == [0]

    @pytest.mark.parametrize("text", ["foo(x)", "is_nan(x, y)", "is_in(x)", "is_null(x=1)"])
    def test_filter_with_a_call_that_is_none(self, text: str) -> None:
        with pytest.raises(ValueError, match=r"Unsupported function|takes"):
            skate.data.range(3).filter(expr=text)

    def test_expressions(self):
        dataset = skate.data.range(4).with_column("y", (col("id") + 1) * 2 - lit(1))
        assert [row["y"] for row in dataset.take_all()] == [1, 3, 5, 7]
        assert ids(dataset.filter(expr=(col("y") > 1) & ~(col("id") == 3))) == [1, 2]
        assert ids(dataset.filter(expr="y >= 5 or id in (0,)")) == [0, 2, 3]
        assert ids(dataset.filter(expr="is_in(id, [1, 2]) and is_valid(y)")) == [1, 2]
        assert dataset.with_column("z", col("id") / 2.0).take(2)[1]["z"] == 0.5

    def test_text_expressions_and_functions(self):
        @udf()
        def double(column):
            return pc.multiply(column, 2)

        dataset = skate.data.from_items([{"n": 1, "s": "ab"}])
        row = dataset.with_columns({"u": col("s").str.upper(), "d": double(col("n"))}).take()[0]
        assert (row["u"], row["d"]) == ("AB", 2)

    def test_columns_by_several_arguments(self):
        dataset = skate.data.from_items([{"n": 1, "d": {"x": 2}}])
        both = dataset.with_columns({"m": col("n") * 3}, unnest(col("d")), lit(0).alias("z"))
        assert both.take_all() == [{"n": 1, "d": {"x": 2}, "m": 3, "x": 2, "z": 0}]
        assert dataset.with_columns() is dataset
        assert dataset.with_columns({}) is dataset
        with pytest.raises(TypeError, match=r"mappings from column name.*got col\('n'\)"):
            dataset.with_columns(col("n"))

    def test_columns_are_computed_from_those_before(self):
        rows = skate.data.from_items([{"a": 1, "b": 2}])
        assert rows.with_columns({"a": col("b"), "b": col("a")}).take_all() == [{"a": 2, "b": 1}]
        with pytest.raises(KeyError, match="'c'"):
            rows.with_columns({"c": col("a"), "d": col("c")}).take_all()

    def test_constant_column(self):
        assert skate.data.range(2).with_column("k", lit("x")).take_all()[1]["k"] == "x"


@pytest.mark.engines("inline")
def test_lists_of_a_batch_are_gone_before_those_of_the_next_but_one():
    """As Python's numbers they take five times the memory that they take in a block."""

    class Tokens(list):
        """A list that can be watched."""

    made = []

    def tokens(batch):
        assert sum(ref() is not None for ref in made) <= 1
        found = Tokens([[int(number)] * 3 for number in batch["id"]])
        made.append(weakref.ref(found))
        return {"tokens": found, "batch": np.full(len(found), len(made))}

    rows = skate.data.range(100, override_num_blocks=1).map_batches(tokens, batch_size=10)
    assert rows.take_all()[99] == {"tokens": [99, 99, 99], "batch": 10}
