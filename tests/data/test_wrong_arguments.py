"""Arguments that cannot be are named where they are written."""

from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from pyarrow.json import ReadOptions

import skate
import skate.data
from skate.data.expressions import col
from skate.data.preprocessors import StandardScaler

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("local")
def test_a_misspelt_argument_of_a_write_is_named(tmp_path):
    rows = skate.data.range(3)
    with pytest.raises(TypeError, match="no parameter 'resum'; did you mean resume"):
        rows.write_parquet(str(tmp_path / "out"), resum=True)
    rows.write_parquet(str(tmp_path / "out"), compression="zstd")  # is for the format


@pytest.mark.engines("local")
def test_arguments_that_do_not_fit_are_named_at_once():
    ds = skate.data.from_items([{"a": 1, "b": 2}])
    with pytest.raises(TypeError, match=r"rename_columns.*got 'a'"):
        ds.rename_columns("a")
    with pytest.raises(ValueError, match="takes no arguments"):
        ds.filter(expr="a > 0", fn_args=[1])
    with pytest.raises(ValueError, match="sort takes a column"):
        ds.sort(lambda row: row["a"])
    with pytest.raises(ValueError, match=r"'a is None'.* is_null\(x\)"):
        ds.filter(expr="a is None or b > 0")
    with pytest.raises(TypeError, match="name of a column is text; got 5"):
        ds.with_column(cast(Any, 5), col("a"))
    with pytest.raises(TypeError, match="`name` must be a string; got 1"):
        skate.data.aggregate.AggregateFn(
            init=lambda key: 0, accumulate_row=lambda a, r: a, merge=lambda a, b: a, name=1
        )


@pytest.mark.engines("local")
def test_words_that_programs_of_ray_look_for(tmp_path):
    ds = skate.data.range(3)
    asked = {
        "no such column in the dataset: 'zz'": lambda: ds.groupby("zz").count().take_all(),
        "Length of `descending` does not match": lambda: ds.sort("id", descending=[True, False]),
        "Cannot zip datasets of different": lambda: ds.zip(skate.data.range(4)).take_all(),
        "Invalid join type: 'outer'": lambda: ds.join(ds, "outer", 2, on=("id",)),
        "Cannot sample from an empty": lambda: skate.data.range(0).random_sample(0.5),
        "Exactly one of accumulate_row": lambda: skate.data.aggregate.AggregateFn(
            init=lambda key: 0, merge=lambda a, b: a, name="x"
        ),
        "already exists": lambda: ds.write_csv(tmp_path, mode="error"),
        "expected unique column names": lambda: ds.select_columns(["id", "id"]),
        "drop_columns expects unique column names": lambda: ds.drop_columns(["id", "id"]),
        "all elements of 'cols' to be strings": lambda: ds.select_columns([1]),
        "Fraction must be between 0 and 1": lambda: ds.random_sample(2),
        "indices must be sorted": lambda: ds.split_at_indices([2, 1]),
        "less than 1": lambda: ds.split_proportionately([0.5, 0.6]),
        "both 'shuffle=True' and 'stratify'": lambda: ds.train_test_split(
            0.5, shuffle=True, stratify="id"
        ),
        "hash_column is required for hash split": lambda: ds.streaming_train_test_split(
            0.5, split_type="hash"
        ),
        "seed is not supported for hash split": lambda: ds.streaming_train_test_split(
            0.5, split_type="hash", hash_column="id", seed=1
        ),
        "Invalid split type: other": lambda: ds.streaming_train_test_split(
            0.5, split_type="other"
        ),
        "num_rows_per_file is min_rows": lambda: ds.write_csv(
            tmp_path, min_rows_per_file=1, num_rows_per_file=1
        ),
    }
    for words, ask in asked.items():
        with pytest.raises(ValueError, match=words):
            ask()
    with pytest.raises(TypeError, match="'cols' to be a string or a list of strings"):
        ds.select_columns(None)


@pytest.mark.engines("local")
@pytest.mark.parametrize("argument", ["parallelism", "override_num_blocks", "concurrency"])
def test_readers_need_a_block_and_a_task(argument):
    words = f"{argument} takes a (whole )?number of at least 1; got "
    for read in (skate.data.range, skate.data.range_tensor):
        with pytest.raises(ValueError, match=words + "-5"):
            read(3, **{argument: -5})
        assert read(3, **{argument: 1}).count() == 3
    with pytest.raises(ValueError, match=words + "0"):
        skate.data.read_csv(__file__, **{argument: 0})


@pytest.mark.engines("local")
def test_a_batch_for_a_gpu_needs_a_size():
    ds = skate.data.range(2)
    with pytest.raises(ValueError, match="needs a `batch_size`"):
        ds.map_batches(lambda batch: batch, num_gpus=1)
    ds.map_batches(lambda batch: batch, num_gpus=1, batch_size=1)
    ds.add_column("x", lambda frame: 1, num_gpus=1)
    assert ds.map_batches(lambda batch: batch, num_gpus=0).count() == 2


@pytest.mark.engines("local")
@pytest.mark.parametrize(
    "ask",
    [
        lambda: skate.data.range(2**70),
        lambda: skate.data.range(5).repartition(2**31),
        lambda: skate.data.range(5).split(2**31),
        lambda: skate.data.range(5, override_num_blocks=2**31),
    ],
)
def test_counts_beyond_all_reason_are_refused_at_once(ask):
    with pytest.raises(ValueError, match="at most"):
        ask()


@pytest.mark.engines("local")
def test_an_expression_of_another_type_is_named():
    with pytest.raises(TypeError, match="expr; got int: 5"):
        skate.data.range(3).filter(expr=5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: skate.data.from_items(cast("Any", 5)), "from_items takes a list of rows.* got 5"),
        (lambda: skate.data.from_items({"a": 1}), "from_items takes a list of rows"),
        (lambda: skate.data.from_items([{}, {}]), "the 2 rows have no columns"),
        (lambda: skate.data.from_pandas([1, 2]), "from_pandas takes a DataFrame.* got 1"),
        (
            lambda: skate.data.from_pandas(pd.DataFrame({0: [1], "b": [2]})),
            r"non-str types.*\[0, 'b'\].*rename",
        ),
        (
            lambda: skate.data.read_json("a.json", read_options=ReadOptions(block_size=0)),
            r"read_options\.block_size takes a whole number of at least 1; got 0",
        ),
        (lambda: skate.data.range(cast("Any", "5")), "range takes a whole number; got '5'"),
        (
            lambda: skate.data.range_tensor(2, shape=cast("Any", 2)),
            r"range_tensor takes a shape.* shape=2",
        ),
        (lambda: skate.data.range(3).take(-1), "take takes a whole number of at least 0; got -1"),
        (
            lambda: skate.data.range(3).repartition(0),
            "num_blocks takes a whole number",
        ),
        (lambda: skate.data.range(3).random_shuffle(seeed=1), "'seeed'; did you mean seed"),
        (lambda: skate.data.range(3).random_shuffle(num_cpu=1), "'num_cpu'; did you mean num_c"),
        (
            lambda: skate.data.range(3).streaming_train_test_split(0.5, hash_colum="id"),
            "'hash_colum'; did you mean hash_column",
        ),
        (lambda: skate.data.read_csv(cast("Any", 5)), "paths takes a path, .*got 5"),
        (lambda: skate.data.read_csv(cast("Any", None)), "paths takes a path, .*got None"),
        (
            lambda: skate.data.read_csv(cast("Any", ["a.csv", 5])),
            r"paths takes .*got \['a.csv', 5",
        ),
        (
            lambda: skate.data.range(1).flat_map(lambda row: {"a": 1}).take_all(),
            "returned {'a': 1} .* must return a list of rows",
        ),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda ds, path: ds.sum("s"), r"cannot compute sum\(s\): column 's' is string"),
        (lambda ds, path: ds.groupby("s").mean("t").take_all(), "column 't' is numpy.ndarray"),
        (lambda ds, path: StandardScaler(["s"]).fit(ds), r"mean\(s\): column 's' is string"),
        (lambda ds, path: ds.sort("t").take_all(), "cannot order rows .* 't' is numpy.ndarray"),
        (lambda ds, path: ds.sort("mixed").take_all(), "cannot order rows .* 'mixed' is object"),
        (lambda ds, path: ds.write_csv(path), "column 't' is .* which CSV has no place for"),
        (
            lambda ds, path: ds.filter(expr="s > 1").take_all(),
            r"col\('s'\) is string and 1 is int64; \.cast",
        ),
        (lambda ds, path: ds.filter(expr="n + 1").take_all(), "true or false; .* is int64"),
        (lambda ds, path: ds.write_numpy(path, column="ragged"), "column 'ragged' .* one shape"),
        (
            lambda ds, path: skate.data.read_csv(path, parse_dates=["x"]),  # type: ignore[call-arg]
            "no parameter 'parse_dates'",
        ),
    ],
)
def test_columns_that_do_not_fit_are_named(run, message, tmp_path):
    (tmp_path / "there.csv").write_text("x\n1\n")
    dataset = skate.data.from_items(
        [
            {"t": np.ones(2), "s": "a", "n": 1, "mixed": 1, "ragged": np.ones(2)},
            {"t": np.ones(2), "s": "b", "n": 2, "mixed": "x", "ragged": np.ones(3)},
        ]
    )
    with pytest.raises(TypeError, match=message):
        run(dataset, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["there.csv"]


@pytest.mark.engines("inline")
def test_a_function_that_is_none():
    with pytest.raises(ValueError, match="function"):
        skate.data.range(1).filter(fn="id > 0")


def test_unknown_keywords_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(TypeError, match="encodin"):
        skate.data.read_text(tmp_path / "a.txt", encodin="utf-8")
