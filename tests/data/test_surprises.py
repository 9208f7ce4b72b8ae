"""What a newcomer tries first: it works, or the error says what to do instead."""

import pickle
import threading
from typing import Any, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from torch.utils.data import DataLoader

import skate
import skate.data
from skate.data import DataContext, iterator
from skate.data.preprocessors import StandardScaler
from tests.support import local_only

inline_only = pytest.mark.engines("inline")
pytestmark = pytest.mark.usefixtures("engine")


def pairs(count=20):
    return skate.data.from_items([{"x": n, "y": n} for n in range(count)])


# -- a DataLoader with workers ------------------------------------------------------------------


def test_workers_of_a_data_loader_share_the_rows():
    dataset = pairs().to_torch(label_column="y", batch_size=5)
    loader = DataLoader(dataset, batch_size=None, num_workers=2)
    assert sorted(n for _, labels in loader for n in labels.ravel().tolist()) == [*range(20)]


def test_workers_of_a_data_loader_cannot_share_a_random_order():
    dataset = pairs().random_shuffle().to_torch(label_column="y", batch_size=5)
    with pytest.raises(ValueError, match="shuffled without a seed"):
        next(iter(DataLoader(dataset, batch_size=None, num_workers=2)))


def test_to_torch_names_the_label_that_is_not_there():
    with pytest.raises(KeyError, match="there is no column 'zz'; the columns are"):
        next(iter(pairs().to_torch(label_column="zz")))


# -- tensors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(2, 2), (2, 3)], ids=["fixed", "ragged"])
def test_tensors_that_are_missing_survive_parquet(sizes, tmp_path):
    first, last = (np.arange(size * 2.0).reshape(size, 2) for size in sizes)
    skate.data.from_items([{"t": first}, {"t": None}, {"t": last}]).write_parquet(tmp_path)
    rows = [row["t"] for row in skate.data.read_parquet(tmp_path).take_all()]
    assert rows[1] is None
    np.testing.assert_array_equal(rows[0], first)
    np.testing.assert_array_equal(rows[2], last)


def test_bfloat16_becomes_float32():
    (row,) = skate.data.from_items([{"t": torch.ones(2, dtype=torch.bfloat16)}]).take_all()
    assert row["t"].dtype == np.float32
    assert row["t"].tolist() == [1, 1]


# -- columns of the same name -------------------------------------------------------------------


def test_renaming_onto_another_column_is_refused():
    with pytest.raises(ValueError, match="several columns are called 'y'"):
        pairs().rename_columns({"x": "y"}).take_all()
    assert pairs(1).rename_columns({"x": "y", "y": "x"}).take_all() == [{"y": 0, "x": 0}]


def test_columns_of_the_same_name_are_refused(tmp_path):
    (tmp_path / "twice.csv").write_text("a,a,b\n1,2,3\n")
    frame = pd.DataFrame([[1, 2]], columns=["a", "a"])
    for make in (
        lambda: skate.data.from_arrow(pa.table([[1], [2]], names=["a", "a"])),
        lambda: skate.data.from_pandas(frame),
        lambda: skate.data.read_csv(tmp_path).take_all(),
    ):
        with pytest.raises(ValueError, match="several columns are called 'a'"):
            make()


# -- the caller's memory ------------------------------------------------------------------------


def test_datasets_do_not_change_with_what_they_were_made_of():
    array, frame = np.arange(3.0), pd.DataFrame({"data": np.arange(3.0)})
    datasets = skate.data.from_numpy(array), skate.data.from_pandas(frame)
    array[0] = frame.loc[0, "data"] = 55
    assert [dataset.take(1) for dataset in datasets] == [[{"data": 0.0}]] * 2


# -- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: skate.data.from_items(cast("Any", 5)), "from_items takes a list of rows.* got 5"),
        (lambda: skate.data.from_items({"a": 1}), "from_items takes a list of rows"),
        (lambda: skate.data.from_items([{}, {}]), "the 2 rows have no columns"),
        (lambda: skate.data.from_pandas([1, 2]), "from_pandas takes a DataFrame.* got 1"),
        (lambda: skate.data.range(cast("Any", "5")), "range takes a whole number; got '5'"),
        (
            lambda: skate.data.range_tensor(2, shape=cast("Any", 2)),
            r"range_tensor takes a shape.* shape=2",
        ),
        (lambda: skate.data.range(3).take(-1), "take takes a number of at least 0; got -1"),
        (lambda: skate.data.range(3).repartition(0), "num_blocks takes a number of at least 1"),
        (lambda: skate.data.range(3).random_shuffle(seeed=1), "'seeed': did you mean seed"),
        (lambda: skate.data.range(3).random_shuffle(num_cpu=1), "'num_cpu'.*Did you mean num_c"),
        (
            lambda: skate.data.range(3).streaming_train_test_split(0.5, hash_colum="id"),
            "'hash_colum': did you mean hash_column",
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


# -- types that do not fit ----------------------------------------------------------------------


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
        (lambda ds, path: skate.data.read_csv(path, parse_dates=["x"]), "unknown .*parse_dates"),
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


def test_the_values_of_partition_folders_are_text(tmp_path):
    skate.data.from_items([{"a": 1, "b": 2}]).write_parquet(tmp_path, partition_cols=["a"])
    with pytest.raises(TypeError, match=r"col\('a'\) is string.*Partitioning\(field_types"):
        skate.data.read_parquet(tmp_path).filter(expr="a == 1").take_all()


def test_a_filter_without_columns():
    assert skate.data.range(2).filter(expr="1 == 1").count() == 2
    assert skate.data.range(2).filter(expr="1 == 2").count() == 0


def test_expressions_can_be_pickled():
    dataset = skate.data.range(5).filter(expr="id > 1 and id in (1, 3)")
    assert pickle.loads(pickle.dumps(dataset)).take_all() == [{"id": 3}]


# -- files --------------------------------------------------------------------------------------


def test_a_failed_write_leaves_no_files(tmp_path):
    def fail(row):
        return {"x": 1 // (row["id"] - 9)}

    dataset = skate.data.range(20, override_num_blocks=20).map(fail)
    with pytest.raises(ZeroDivisionError):
        dataset.write_parquet(tmp_path)
    assert list(tmp_path.iterdir()) == []


@local_only
def test_the_memory_of_another_process_is_named():
    import fsspec

    fsspec.filesystem("memory").pipe("/surprise/a.csv", b"x\n1\n")
    dataset = skate.data.read_csv("memory://surprise/a.csv")
    assert dataset.take_all() == [{"x": 1}]
    with pytest.raises(FileNotFoundError, match="memory of one process"):
        dataset.map(lambda row: row).take_all()


@pytest.mark.parametrize("kind", ["json", "orc"])
def test_tensors_are_nested_lists_in(kind, tmp_path):
    rows = [{"t": np.arange(8).reshape(2, 2, 2) + n} for n in range(3)]
    getattr(skate.data.from_items(rows), f"write_{kind}")(tmp_path)
    found = getattr(skate.data, f"read_{kind}")(tmp_path).take_all()
    assert found == [{"t": row["t"].tolist()} for row in rows]


# -- torch --------------------------------------------------------------------------------------


def test_dictionaries_of_a_torch_dataset_are_rows():
    elements = [{"x": torch.full((2,), n), "y": n} for n in range(3)]
    rows = skate.data.from_torch(elements).take_all()
    assert [(row["x"].tolist(), row["y"]) for row in rows] == [
        ([0, 0], 0),
        ([1, 1], 1),
        ([2, 2], 2),
    ]


def test_a_collate_function_cannot_change_the_dataset():
    def clear(batch):
        return torch.as_tensor(batch["data"]).zero_()

    dataset = skate.data.from_numpy(np.ones((4, 2)))
    assert sum(b.sum() for b in dataset.iter_torch_batches(batch_size=2, collate_fn=clear)) == 0
    assert dataset.take_batch(4)["data"].sum() == 8


# -- parts that wait for each other -------------------------------------------------------------


@inline_only
def test_parts_that_cannot_be_read_side_by_side(monkeypatch):
    monkeypatch.setattr(iterator, "PATIENCE", 0.2)
    first, _ = skate.data.range(10).streaming_split(2, equal=True)
    read = skate.remote(lambda part: [row["id"] for row in part.iter_rows()])
    with pytest.raises(RuntimeError, match=r"part 1 .* the inline engine runs one task after"):
        skate.get(read.remote(first))


@inline_only
def test_parts_that_one_thread_reads_one_after_the_other(monkeypatch):
    monkeypatch.setattr(iterator, "PATIENCE", 0.2)
    first, _ = skate.data.range(10).streaming_split(2)
    with pytest.raises(RuntimeError, match=r"part 1 .* is not read, and cannot be"):
        list(first.iter_rows())


@inline_only
def test_a_part_that_is_not_read_is_named(monkeypatch):
    monkeypatch.setattr(iterator, "PATIENCE", 0.2)
    warned = threading.Event()
    texts = []

    def show(text, **options):
        texts.append(text)
        warned.set()

    monkeypatch.setattr(iterator.warnings, "warn", show)
    first, second = skate.data.range(10).streaming_split(2, equal=True)
    counts = []
    thread = threading.Thread(target=lambda: counts.append(len(list(first.iter_rows()))))
    thread.start()
    assert warned.wait(60)
    assert len(list(second.iter_rows())) == 5
    thread.join(60)
    assert counts == [5]
    assert texts == ["part 1 of a split in 2 is not read, and others wait for it"]


# -- what a dataset says about itself -----------------------------------------------------------


def test_stats_before_anything_has_run():
    assert "nothing has run yet" in skate.data.range(3).stats()


def test_explain_shows_the_stages_and_what_is_read(tmp_path, capsys):
    skate.data.from_items([{"a": n, "b": n} for n in range(4)]).write_parquet(tmp_path)
    dataset = skate.data.read_parquet(tmp_path).filter(expr="a > 1").select_columns(["b"])
    dataset.map(lambda row: row).explain()
    optimised, stages = capsys.readouterr().out.split("Optimised plan")[1].split("Stages")
    assert "ReadParquet[columns=['b'], filter=(a > 1)]" in optimised
    assert "ReadParquet->Map(<lambda>) (tasks)" in stages


def test_a_misspelt_setting_is_refused():
    with pytest.raises(AttributeError, match="did you mean 'max_errored_blocks'"):
        DataContext().max_errored_block = 5
