"""Datasets without rows still have columns, as far as these are known without a function of the
user's being called."""

import pandas as pd
import pytest

import skate.data

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]

EMPTY_FRAME = pd.DataFrame({"id": pd.Series([], dtype="int64"), "name": pd.Series([], dtype=str)})
MAKERS = {
    "filtered": lambda: skate.data.range(10).filter(lambda row: False),
    "filtered by an expression": lambda: skate.data.range(10).filter(expr="id > 10"),
    "limited": lambda: skate.data.range(10).limit(0),
    "an empty range": lambda: skate.data.range(0),
    "an empty frame": lambda: skate.data.from_pandas(EMPTY_FRAME),
    "an empty part": lambda: skate.data.range(10).split_at_indices([0])[0],
}
COLUMNS = {
    "itself": lambda ds: (ds, ds.columns()),
    "kept": lambda ds: (ds.materialize(), ds.columns()),
    "a part": lambda ds: (ds.split(2)[1], ds.columns()),
    "sorted": lambda ds: (ds.sort("id"), ds.columns()),
    "shuffled": lambda ds: (ds.random_shuffle(), ds.columns()),
    "repartitioned": lambda ds: (ds.repartition(3), ds.columns()),
    "selected": lambda ds: (ds.select_columns(["id"]), ["id"]),
    "counted": lambda ds: (ds.groupby("id").count(), ["id", "count()"]),
    "united": lambda ds: (ds.union(ds), ds.columns()),
    "joined": lambda ds: (ds.join(skate.data.range(3), "inner", 1, on=("id",)), ds.columns()),
}


@pytest.mark.parametrize("operation", COLUMNS)
@pytest.mark.parametrize("maker", MAKERS)
def test_columns(maker, operation):
    dataset, columns = COLUMNS[operation](MAKERS[maker]())
    frame = dataset.to_pandas()
    assert len(frame) == 0
    assert list(frame.columns) == columns
    assert frame["id"].dtype == "int64"


@pytest.mark.parametrize("maker", MAKERS)
def test_functions_are_not_called(maker):
    def fail(_):
        raise AssertionError

    empty = MAKERS[maker]()
    for mapped in (empty.map(fail), empty.map_batches(fail), empty.flat_map(fail)):
        assert mapped.take_all() == []
    assert empty.count() == 0
    assert list(empty.iter_batches()) == []
    assert empty.sum("id") is None
