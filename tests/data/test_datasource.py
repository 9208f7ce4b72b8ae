"""Sources of users: read tasks, files by their own code, pushed-down columns."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skate
import skate.data
from skate.data.block import BlockMetadata
from skate.data.datasource import (
    Datasource,
    FileBasedDatasource,
    Partitioning,
    RandomIntRowDatasource,
    ReadTask,
)

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("local")
def test_what_is_set_after_the_constructor_of_the_base(tmp_path):
    from skate.data.datasource import FileBasedDatasource

    class Repeated(FileBasedDatasource):
        def __init__(self, paths, times):
            super().__init__(paths)
            self.times = times

        def _read_file(self, f, path):
            return {"text": [f.readall().decode()] * self.times}

    (tmp_path / "a.txt").write_text("hello")
    dataset = skate.data.read_datasource(Repeated(str(tmp_path / "a.txt"), 2), num_cpus=0.5)
    assert dataset.take_all() == [{"text": "hello"}] * 2


def test_a_source_that_skips_columns():
    class Wide(Datasource):
        def supports_projection_pushdown(self):
            return True

        def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
            names = list(self.get_projection_map() or ["a", "b"])
            return [ReadTask(lambda: [{name: [len(names)] for name in names}])]

    assert skate.data.read_datasource(Wide()).take_all() == [{"a": 2, "b": 2}]
    assert skate.data.read_datasource(Wide()).select_columns(["b"]).take_all() == [{"b": 1}]


def test_a_reader_of_older_versions():
    class Old(Datasource):
        def prepare_read(self, parallelism, start=0):
            return [ReadTask(lambda: [pd.DataFrame({"n": [start, start + 1]})])]

    assert skate.data.read_datasource(Old()).sum("n") == 1
    assert skate.data.read_datasource(Old(), start=3, parallelism=1).sum("n") == 7


def test_what_is_known_of_a_piece_as_in_older_versions():
    known = BlockMetadata(
        num_rows=2,
        size_bytes=16,
        schema=pa.schema({"n": pa.int64()}),
        input_files=None,
        exec_stats=None,
    )

    class Old(Datasource):
        def get_read_tasks(self, parallelism):
            return [ReadTask(lambda: [{"n": [1, 2]}], known)]

    assert skate.data.read_datasource(Old()).schema().names == ["n"]
    assert ReadTask(list, known).schema == known.schema
    assert ReadTask(list, known, pa.schema([])).schema == pa.schema([])


class Whole(FileBasedDatasource):
    def _read_stream(self, f, path):
        yield {"data": [f.readall()]}


@pytest.mark.engines("inline")
def test_files_read_by_ones_own_code(tmp_path):
    for country in ("jp", "us"):
        folder = tmp_path / f"country={country}"
        folder.mkdir()
        (folder / "f.txt").write_bytes(country.encode())
    source = Whole(str(tmp_path), partitioning=Partitioning("hive"), include_paths=True)
    ds = skate.data.read_datasource(source)
    assert ds.select_columns(["data", "country"]).take_all() == [
        {"data": b"jp", "country": "jp"},
        {"data": b"us", "country": "us"},
    ]
    assert [row["path"] for row in ds.take_all()] == ds.input_files()
    with pytest.raises(TypeError, match="unknown arguments"):
        Whole(str(tmp_path), include_path=True)


def test_a_source_of_ones_own():
    class Letters(Datasource):
        def get_read_tasks(self, parallelism):
            return [ReadTask(lambda c=c: [{"c": [c]}]) for c in "abc"]

    assert [row["c"] for row in skate.data.read_datasource(Letters()).take_all()] == list("abc")


@pytest.mark.parametrize("make", [pd.DataFrame, pa.table, dict], ids=["pandas", "arrow", "numpy"])
@pytest.mark.parametrize(
    ("limit", "parts"), [(None, [3, 3, 3]), (4, [3, 1]), (6, [3, 3]), (0, [0])]
)
def test_a_task_gives_blocks_as_they_were_made(make, limit, parts):
    blocks = [make({"n": np.arange(3) + 3 * part}) for part in range(3)]
    read = list(ReadTask(lambda: blocks, per_task_row_limit=limit)())
    assert [type(block) for block in read] == [type(blocks[0])] * len(parts)
    assert [len(block["n"]) for block in read] == parts
    numbers = [int(number) for block in read for number in np.asarray(block["n"])]
    assert numbers == list(range(sum(parts)))


@pytest.mark.engines("inline")
def test_files_of_the_drivers_machine_are_read_by_the_driver(tmp_path):
    place = tmp_path / "a.txt"
    place.write_text("hello")
    assert FileBasedDatasource(place).supports_distributed_reads
    assert not FileBasedDatasource(f"local://{place}").supports_distributed_reads


@pytest.mark.engines("inline")
def test_no_file_with_such_an_ending(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"No input files found .* extensions: \['csv'\]"):
        FileBasedDatasource(tmp_path, file_extensions=["csv"])


def test_random_integers():
    dataset = skate.data.read_datasource(RandomIntRowDatasource(10, 2), override_num_blocks=3)
    rows = dataset.take_all()
    assert (len(rows), dataset.count(), dataset.columns()) == (10, 10, ["c_0", "c_1"])
    assert len({number for row in rows for number in row.values()}) == 20
