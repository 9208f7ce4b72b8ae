"""Pipelines as programs of older versions of Ray use them."""

import numpy as np
import pytest

import skate
import skate.data
from skate.data import DatasetPipeline

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def numbers():
    return skate.data.range(10, override_num_blocks=5)


def ids(rows):
    return [row["id"] for row in rows]


def test_windows(numbers):
    pipeline = numbers.window(blocks_per_window=2)
    assert [ids(window.take_all()) for window in pipeline.iter_datasets()] == [
        [0, 1, 2, 3], [4, 5, 6, 7], [8, 9],
    ]  # fmt: skip
    assert ids(pipeline.take_all()) == list(range(10))
    assert ids(pipeline.take(3)) == [0, 1, 2]
    assert pipeline.count() == 10
    assert pipeline.schema().names == ["id"]
    assert pipeline.map(lambda row: {"id": row["id"] * 2}).sum() == 90


def test_windows_are_computed_as_they_are_asked_for(tmp_path):
    def note(row):
        (tmp_path / str(row["id"])).touch()
        return row

    noted = skate.data.range(50, override_num_blocks=50).map(note)
    next(noted.window(blocks_per_window=1).iter_datasets())
    assert len(list(tmp_path.iterdir())) < 50


def test_windows_by_bytes(numbers):
    windows = numbers.window(bytes_per_window=32).iter_datasets()
    assert [window.count() for window in windows] == [4, 4, 2]


def test_epochs(numbers):
    pipeline = numbers.window(blocks_per_window=3).repeat(3)
    assert ids(pipeline.iter_rows()) == list(range(10)) * 3
    assert [ids(epoch.iter_rows()) for epoch in pipeline.iter_epochs()] == [list(range(10))] * 3
    assert len(list(pipeline.iter_epochs(2))) == 2
    batches = list(numbers.repeat(2).iter_batches(batch_size=4))
    assert [len(batch["id"]) for batch in batches] == [4] * 5


def test_without_end(numbers):
    endless = numbers.repeat()
    assert ids(endless.take(25)) == [*range(10), *range(10), *range(5)]
    with pytest.raises(ValueError, match=r"without end has no count; give repeat\(\) a number"):
        endless.count()
    with pytest.raises(ValueError, match="repeated already, endless"):
        endless.repeat(2)


def test_a_dataset_that_is_repeated_is_computed_once(numbers, tmp_path):
    def note(row):
        with open(tmp_path / "calls", "a") as calls:
            calls.write("x")
        return row

    assert numbers.map(note).repeat(3).count() == 30
    assert (tmp_path / "calls").stat().st_size == 10


def test_operations_see_one_window(numbers):
    pipeline = numbers.window(blocks_per_window=1).repeat(2)
    turned = pipeline.sort_each_window("id", descending=True)
    assert ids(turned.take(4)) == [1, 0, 3, 2]
    assert ids(pipeline.repartition(1).sort("id", descending=True).take(4)) == [1, 0, 3, 2]
    shuffled = pipeline.random_shuffle_each_window(seed=1).map_batches(lambda batch: batch)
    assert sorted(ids(shuffled.take(4))) == [0, 1, 2, 3]
    counted = pipeline.foreach_window(lambda ds: skate.data.from_items([{"n": ds.count()}]))
    assert [row["n"] for row in counted.iter_rows()] == [2] * 10
    wide = pipeline.rewindow(blocks_per_window=5)
    assert [window.count() for window in wide.iter_datasets()] == [10, 10]


def test_of_functions_that_make_datasets():
    makers = [lambda n=n: skate.data.range(n) for n in (1, 2)]
    assert ids(DatasetPipeline.from_iterable(makers).repeat(2).iter_rows()) == [0, 0, 1] * 2


def test_torch_and_files(numbers, tmp_path):
    epoch = next(numbers.repeat().iter_epochs())
    total = sum(int(batch["id"].sum()) for batch in epoch.iter_torch_batches(batch_size=3))
    assert total == 45
    numbers.window(blocks_per_window=2).write_parquet(tmp_path)
    assert skate.data.read_parquet(tmp_path).count() == 10


@pytest.mark.engines("local")
def test_parts_for_several_consumers(numbers):
    @skate.remote
    def consume(part):
        return [[ids(epoch.iter_rows())] for epoch in part.iter_epochs(2)]

    parts = numbers.window(blocks_per_window=2).repeat().split(2, equal=True)
    epochs = [[], []]
    for found in skate.get([consume.remote(part) for part in parts]):
        for number, (rows,) in enumerate(found):
            epochs[number] += rows
    assert [sorted(rows) for rows in epochs] == [list(range(10))] * 2


def test_an_iterator_gives_epochs_as_well(numbers):
    sums = [
        sum(np.sum(batch["id"]) for batch in epoch.iter_batches())
        for epoch in numbers.iterator().iter_epochs(2)
    ]
    assert sums == [45, 45]


def test_wrong_use(numbers):
    with pytest.raises(ValueError, match="not both"):
        numbers.window(blocks_per_window=1, bytes_per_window=1)
    with pytest.raises(ValueError, match="blocks_per_window takes a number of at least 1; got 0"):
        numbers.window(blocks_per_window=0)
    with pytest.raises(AttributeError, match=r"no 'groupby'; foreach_window\(\)"):
        numbers.window().groupby("id")
