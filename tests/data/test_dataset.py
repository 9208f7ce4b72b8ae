"""A dataset as an object: what it says of itself, and how it travels."""

import asyncio

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

import skate
import skate.data
from skate.data import ActorPoolStrategy
from skate.data.expressions import col, lit, udf

pytestmark = pytest.mark.usefixtures("engine")


def ids(dataset):
    return [row["id"] for row in dataset.take_all()]


class TestSources:
    def test_range(self):
        dataset = skate.data.range(5)
        assert ids(dataset) == [0, 1, 2, 3, 4]
        assert dataset.count() == 5

    def test_range_tensor(self):
        batch = skate.data.range_tensor(3, shape=(2, 2)).take_batch(3)
        np.testing.assert_array_equal(batch["data"][2], [[2, 2], [2, 2]])

    def test_plain_values_come_back_plain(self):
        dataset = skate.data.from_items([1, 2, 3])
        assert dataset.take(2) == [1, 2]
        assert dataset.take_all() == [1, 2, 3]
        assert list(dataset.iter_rows()) == [1, 2, 3]
        assert dataset.take_batch(2)["item"].tolist() == [1, 2]

    def test_functions_see_plain_values_under_item(self):
        dataset = skate.data.from_items([1, 2]).map(lambda row: {"y": row["item"] + 1})
        assert dataset.take_all() == [{"y": 2}, {"y": 3}]

    def test_items_called_item_are_not_plain(self):
        assert skate.data.from_items([{"item": 1}]).take() == [{"item": 1}]

    def test_torch_tensors_as_items(self):
        dataset = skate.data.from_items([torch.full((2,), float(n)) for n in range(3)])
        assert dataset.take_batch(3)["item"].shape == (3, 2)

    def test_from_numpy(self):
        dataset = skate.data.from_numpy([np.ones((2, 3)), np.zeros((1, 3))])
        assert dataset.count() == 3
        assert dataset.take_batch(3)["data"].shape == (3, 3)

    def test_from_pandas_and_arrow(self):
        frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
        rows = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
        assert skate.data.from_pandas(frame).take_all() == rows
        assert skate.data.from_arrow(pa.Table.from_pandas(frame)).take_all() == rows

    def test_references(self):
        ref = skate.put(pa.table({"a": [1, 2]}))
        assert skate.data.from_arrow_refs([ref]).sum("a") == 3
        assert skate.data.from_numpy_refs([skate.put(np.arange(3))]).count() == 3

    def test_from_torch(self):
        class Squares(torch.utils.data.Dataset):
            def __len__(self):
                return 6

            def __getitem__(self, number):
                return number**2

        assert skate.data.from_torch(Squares()).take_all() == [0, 1, 4, 9, 16, 25]
        assert skate.data.from_torch(Squares(), local_read=True).count() == 6

    def test_from_torch_iterable(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(range(3))

        assert skate.data.from_torch(Stream()).take_all() == [0, 1, 2]

    def test_an_empty_dataset(self):
        dataset = skate.data.from_items([])
        assert dataset.take_all() == []
        assert dataset.count() == 0
        assert dataset.schema() is None
        assert skate.data.range(0).sum("id") is None


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


class TestErrors:
    def test_the_users_own_error_names_operator_and_row(self):
        with pytest.raises(ZeroDivisionError) as caught:
            skate.data.range(5).map(lambda row: {"x": 1 // (row["id"] - 3)}).take_all()
        text = "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        assert "Map(<lambda>)" in text
        assert "{'id': 3}" in text

    def test_a_constructor_that_fails(self):
        class Broken:
            def __init__(self):
                raise LookupError("no model")

            def __call__(self, batch):
                return batch

        with pytest.raises((LookupError, skate.exceptions.ActorDiedError), match="no model"):
            skate.data.range(3).map_batches(Broken, concurrency=1).take_all()

    def test_some_blocks_may_fail_if_allowed(self):
        context = skate.data.DataContext.get_current()
        context.max_errored_blocks = 1
        try:
            dataset = skate.data.range(4, override_num_blocks=4)
            dataset = dataset.map(lambda row: {"x": 1 // row["id"]})
            with pytest.warns(UserWarning, match="left out"):
                rows = dataset.take_all()
            assert len(rows) == 3
        finally:
            context.max_errored_blocks = 0

    def test_a_wrong_column_lists_those_there_are(self):
        with pytest.raises(KeyError, match=r"'idx'.*\['id'\].*did you mean 'id'"):
            skate.data.range(3).select_columns(["idx"]).take()


class TestColumns:
    def test_select_drop_rename_add(self):
        dataset = skate.data.range(2).add_column("b", lambda frame: frame["id"] * 2)
        assert dataset.columns() == ["id", "b"]
        assert dataset.select_columns("b").take_all() == [{"b": 0}, {"b": 2}]
        assert dataset.drop_columns(["id"]).columns() == ["b"]
        assert dataset.rename_columns({"b": "c"}).columns() == ["id", "c"]
        assert dataset.rename_columns(["x", "y"]).columns() == ["x", "y"]

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

    def test_constant_column(self):
        assert skate.data.range(2).with_column("k", lit("x")).take_all()[1]["k"] == "x"


class TestConsumption:
    def test_limit_computes_no_more_than_needed(self, tally):
        def count(row):
            tally.add()
            return row

        assert len(skate.data.range(1000).map(count).take(5)) == 5
        assert len(tally.words()) == 5

    def test_take_all_with_a_limit(self):
        with pytest.raises(ValueError, match="more rows than the limit, 2"):
            skate.data.range(3).take_all(limit=2)

    def test_show(self, capsys):
        skate.data.from_items([{"a": 1}, {"a": 2}]).show(limit=1)
        assert capsys.readouterr().out == "{'a': 1}\n"

    def test_the_printed_schema(self):
        dataset = skate.data.range_tensor(2, shape=(32, 32, 3)).map_batches(
            lambda batch: {"tensor": batch["data"].astype("uint8")}
        )
        assert str(dataset.schema()) == (
            "Column  Type\n------  ----\ntensor  numpy.ndarray(shape=(32, 32, 3), dtype=uint8)"
        )

    def test_schema_without_running(self):
        dataset = skate.data.range(3).map(lambda row: row)
        assert dataset.schema(fetch_if_missing=False) is None
        assert skate.data.range(3).schema(fetch_if_missing=False).names == ["id"]

    def test_materialize_runs_once(self, tally):
        def count(row):
            tally.add()
            return row

        done = skate.data.range(3).map(count).materialize()
        assert done.take_all() == done.take_all()
        assert len(tally.words()) == 3
        assert done.num_blocks() >= 1

    def test_to_pandas(self):
        frame = skate.data.range(3).to_pandas()
        assert frame["id"].tolist() == [0, 1, 2]
        with pytest.raises(ValueError, match="limit, 2"):
            skate.data.range(3).to_pandas(limit=2)

    def test_references_out(self):
        tables = skate.get(skate.data.range(4).to_arrow_refs())
        assert pa.concat_tables(tables)["id"].to_pylist() == [0, 1, 2, 3]
        arrays = skate.get(skate.data.range(4).to_numpy_refs(column="id"))
        assert np.concatenate(arrays).tolist() == [0, 1, 2, 3]

    def test_stats_and_plans_name_the_operators(self, capsys):
        dataset = skate.data.range(5).map(lambda row: row)
        dataset.take_all()
        assert "ReadRange->Map(<lambda>)" in dataset.stats()
        assert "5 rows" in dataset.stats()
        dataset.explain()
        assert "Map(<lambda>)\n +- ReadRange" in capsys.readouterr().out
        assert repr(dataset) == "Map(<lambda>)\n+- Dataset(num_rows=5, schema={id: int64})"
        assert "Map" in dataset._repr_html_()

    def test_a_dataset_travels(self):
        dataset = skate.data.from_items([1, 2, 3])

        @skate.remote
        def total(given):
            return given.sum("item")

        assert skate.get(total.remote(dataset)) == 6


class TestAggregations:
    def test_all_of_them(self):
        dataset = skate.data.range(10)
        assert dataset.sum("id") == 45
        assert dataset.min("id") == 0
        assert dataset.max("id") == 9
        assert dataset.mean("id") == 4.5
        assert dataset.std("id") == pytest.approx(np.std(np.arange(10), ddof=1))
        assert dataset.std("id", ddof=0) == pytest.approx(np.std(np.arange(10)))

    def test_several_columns_give_a_dictionary(self):
        dataset = skate.data.from_items([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
        assert dataset.mean() == {"mean(a)": 2.0, "mean(b)": 3.0}
        assert dataset.sum(["a", "b"]) == {"sum(a)": 4, "sum(b)": 6}

    def test_none(self):
        dataset = skate.data.from_items([{"x": 1}, {"x": None}, {"x": 3}])
        assert dataset.sum("x") == 4
        assert dataset.mean("x") == 2
        assert dataset.sum("x", ignore_nulls=False) is None
        assert dataset.mean("x", ignore_nulls=False) is None

    def test_aggregate(self):
        from skate.data import aggregate as agg

        found = skate.data.range(5).aggregate(
            agg.Count(),
            agg.Quantile("id", q=0.5, alias_name="median"),
            agg.AbsMax("id"),
            agg.AggregateFn(
                init=lambda key: 1,
                accumulate_row=lambda a, row: a * max(row["id"], 1),
                merge=lambda a, b: a * b,
                name="product",
            ),
        )
        assert found == {"count()": 5, "median": 2.0, "abs_max(id)": 4, "product": 24}

    def test_unique(self):
        assert sorted(skate.data.from_items([1, 2, 1, 3]).unique("item")) == [1, 2, 3]

    def test_the_deviation_of_large_numbers_is_exact(self):
        values = 1e9 + np.arange(1000) % 7
        dataset = skate.data.from_numpy([values[:300], values[300:]])
        assert dataset.std("data") == pytest.approx(values.std(ddof=1), rel=1e-9)


@pytest.mark.engines("local")
def test_no_length():
    for kind in (TypeError, AttributeError):
        with pytest.raises(kind, match="count"):
            len(skate.data.range(1))


def test_a_dataset_is_always_true() -> None:
    assert skate.data.range(0)
    assert bool(skate.data.from_items([1]))


def test_lineage():
    dataset = skate.data.range(4).map(lambda row: {"x": row["id"] + 1})
    again = skate.data.Dataset.deserialize_lineage(dataset.serialize_lineage())
    assert again.get_dataset_id() == dataset.get_dataset_id()
    assert [row["x"] for row in again.take_all()] == [1, 2, 3, 4]
    kept = skate.data.from_items([1]).union(skate.data.from_items([2]))
    assert not kept.has_serializable_lineage()
    with pytest.raises(ValueError, match="rows in memory"):
        kept.serialize_lineage()


def test_html():
    page = skate.data.from_items([{"<a>": 1}])._repr_html_()
    assert "&lt;a&gt;" in page
    assert "<table>" in page
