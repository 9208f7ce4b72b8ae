"""Tables of Lance."""

from __future__ import annotations

import contextlib
import pickle

import lance
import numpy as np
import pyarrow as pa
import pytest

import skate
from skate.data import SaveMode
from skate.data._arrow.foreign import UntrustedPickleError
from skate.data._io.file_writers import OutputExistsError
from tests.data.hostile_files import Payload

pytestmark = pytest.mark.usefixtures("engine")

# Lance's own threads begin with its first use, and stay: before any session looks what is there.
with contextlib.suppress(ValueError):
    lance.dataset("no such table")

ROWS = [{"n": n, "s": "abcdefghij"[n]} for n in range(10)]


@pytest.fixture
def table(tmp_path):
    place = str(tmp_path / "table.lance")
    lance.write_dataset(pa.Table.from_pylist(ROWS), place, max_rows_per_file=4)
    return place


def test_rows_come_in_order(table):
    dataset = skate.data.read_lance(table)
    assert dataset.take_all() == ROWS
    assert dataset.count() == 10
    assert dataset.columns() == ["n", "s"]


def test_columns_and_conditions(table):
    assert skate.data.read_lance(table, columns=["s"]).take(1) == [{"s": "a"}]
    assert skate.data.read_lance(table, filter="n > 7").take_all() == ROWS[8:]
    assert skate.data.read_lance(table, columns=["s"], filter="n = 3").take_all() == [{"s": "d"}]
    assert skate.data.read_lance(table, filter="n > 7").count() == 2
    assert skate.data.read_lance(table).select_columns(["n"]).sum("n") == 45
    some = skate.data.read_lance(table, scanner_options={"batch_size": 2})
    assert some.take_all() == ROWS


def test_versions(table):
    before = skate.data.read_lance(table)
    lance.dataset(table).delete("n < 5")
    assert before.take_all() == ROWS
    assert skate.data.read_lance(table).take_all() == ROWS[5:]
    assert skate.data.read_lance(table, version=1).take_all() == ROWS
    lance.dataset(table).tags.create("whole", 1)
    assert skate.data.read_lance(table, version="whole").take_all() == ROWS


def test_several_tables(table, tmp_path):
    other = str(tmp_path / "other.lance")
    lance.write_dataset(pa.table({"n": [11], "more": [0.5]}), other)
    rows = skate.data.read_lance([table, other]).take_all()
    assert rows[:1] == [{"n": 0, "s": "a", "more": None}]
    assert rows[10:] == [{"n": 11, "s": None, "more": 0.5}]


def test_what_cannot_be_read(table, tmp_path):
    with pytest.raises(ValueError, match="none"):
        skate.data.read_lance(str(tmp_path / "none"))
    with pytest.raises(ValueError, match="empty list"):
        skate.data.read_lance([])
    with pytest.raises(ValueError, match="'fragments'"):
        skate.data.read_lance(table, scanner_options={"fragments": [0]})
    with pytest.raises(ValueError, match="'m'"):
        skate.data.read_lance(table).select_columns(["m"]).take_all()


def test_pickles_of_others_are_refused(tmp_path):
    marker = tmp_path / "code-was-run"
    place = str(tmp_path / "hostile.lance")
    named = {b"ARROW:extension:name": b"skate.object", b"ARROW:extension:metadata": b""}
    schema = pa.schema([pa.field("x", pa.binary(), metadata=named)])
    lance.write_dataset(pa.table([[pickle.dumps(Payload(marker))]], schema=schema), place)
    with pytest.raises(UntrustedPickleError, match="allow_pickle"):
        skate.data.read_lance(place).take_all()
    assert not marker.exists()


class TestWriting:
    def test_modes(self, tmp_path):
        place = tmp_path / "table.lance"
        dataset = skate.data.from_items(ROWS, override_num_blocks=3)
        dataset.write_lance(place)
        assert skate.data.read_lance(str(place)).take_all() == ROWS
        with pytest.raises(OutputExistsError, match="'overwrite'"):
            dataset.write_lance(place)
        dataset.write_lance(place, mode=SaveMode.APPEND)
        assert skate.data.read_lance(str(place)).count() == 20
        dataset.write_lance(place, mode="overwrite")
        assert lance.dataset(str(place)).to_table().to_pylist() == ROWS
        with pytest.raises(ValueError, match="mode takes"):
            dataset.write_lance(place, mode="ignore")

    def test_rows_per_file_and_schema(self, tmp_path):
        place = str(tmp_path / "table.lance")
        schema = pa.schema([("n", pa.int32()), ("s", pa.large_string())])
        skate.data.from_items(ROWS).write_lance(place, schema=schema, max_rows_per_file=5)
        written = lance.dataset(place)
        assert len(written.get_fragments()) == 2
        assert written.schema.field("n").type == pa.int32()
        with pytest.raises(ValueError, match="max_rows_per_file"):
            skate.data.from_items(ROWS).write_lance(place, max_rows_per_file=0)

    def test_a_write_that_fails_leaves_no_table(self, tmp_path):
        def fail(row):
            raise RuntimeError("no such row")

        with pytest.raises(Exception, match="no such row"):
            skate.data.from_items(ROWS).map(fail).write_lance(tmp_path / "table.lance")
        with pytest.raises(ValueError, match=r"table\.lance"):
            skate.data.read_lance(str(tmp_path / "table.lance"))

    def test_an_error_between_rows_is_raised_as_it_is(self, tmp_path):
        def fail_late(row):
            if row["id"] == 90:
                raise ZeroDivisionError("the ninetieth row")
            return row

        rows = skate.data.range(100, override_num_blocks=10).map(fail_late)
        with pytest.raises(ZeroDivisionError, match="the ninetieth row"):
            rows.write_lance(tmp_path / "table.lance")

    def test_vectors_become_lists_of_one_length(self, tmp_path):
        place = tmp_path / "table.lance"
        skate.data.from_numpy(np.ones((3, 2))).write_lance(place)
        assert skate.data.read_lance(place).take(1) == [{"data": [1.0, 1.0]}]
        assert lance.dataset(str(place)).schema.field("data").type == pa.list_(pa.float64(), 2)

    def test_other_tensors_become_lists(self, tmp_path):
        pictures = np.arange(12).reshape(2, 2, 3)
        skate.data.from_numpy(pictures).write_lance(tmp_path / "fixed.lance")
        rows = skate.data.read_lance(tmp_path / "fixed.lance").take_all()
        assert [row["data"] for row in rows] == pictures.tolist()
        ragged = [{"x": np.ones((2, 3))}, {"x": np.ones((1, 2))}]
        skate.data.from_items(ragged).write_lance(tmp_path / "ragged.lance")
        rows = skate.data.read_lance(tmp_path / "ragged.lance").take_all()
        assert [row["x"] for row in rows] == [[[1.0] * 3] * 2, [[1.0] * 2]]

    def test_objects_are_refused_by_name(self, tmp_path):
        objects = skate.data.from_items([{"n": 1, "o": Payload(tmp_path / "code-was-run")}])
        with pytest.raises(TypeError, match="'o' has Python objects"):
            objects.write_lance(tmp_path / "table.lance")
        assert not (tmp_path / "table.lance").exists()

    def test_blocks_that_lack_columns(self, tmp_path):
        parts = [pa.table({"a": [1], "b": ["x"]}), pa.table({"b": ["y"]}), pa.table({"c": [1]})]
        skate.data.from_arrow(parts[:2]).write_lance(tmp_path / "table.lance")
        rows = [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]
        assert skate.data.read_lance(tmp_path / "table.lance").take_all() == rows
        with pytest.raises(ValueError, match=r"columns \['c'\]"):
            skate.data.from_arrow(parts).write_lance(tmp_path / "other.lance")

    def test_nothing_makes_no_table(self, tmp_path):
        skate.data.from_items([]).write_lance(tmp_path / "none.lance")
        assert not (tmp_path / "none.lance").exists()
        skate.data.range(0).write_lance(tmp_path / "empty.lance")
        assert skate.data.read_lance(tmp_path / "empty.lance").columns() == ["id"]
