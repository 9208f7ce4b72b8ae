"""Files: bad ones are named or left out, and tasks travel light."""

import json

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, orc

import skate
import skate.data
from skate.data import DataContext

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]


@pytest.fixture
def small_blocks():
    """Blocks of a few thousand bytes, so that small files are large ones."""
    context = DataContext.get_current().copy()
    context.target_max_block_size = 2000
    with DataContext.current(context):
        yield


def notes(caught):
    return "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


class TestBadFiles:
    GOOD = pa.table({"a": [1, 2]})

    def write(self, kind, path):
        if kind == "parquet":
            pq.write_table(self.GOOD, path)
        elif kind == "orc":
            orc.write_table(self.GOOD, path)
        elif kind == "csv":
            csv.write_csv(self.GOOD, path)
        elif kind == "json":
            path.write_text('{"a": 1}\n{"a": 2}\n')
        elif kind == "numpy":
            np.save(path, np.array([1, 2]))
        else:
            folder = path.parent / "out"
            dataset = skate.data.from_items([{"a": 1}, {"a": 2}], override_num_blocks=1)
            getattr(dataset, f"write_{kind}")(folder)
            next(folder.iterdir()).rename(path)
            folder.rmdir()

    @pytest.mark.parametrize(
        ("kind", "junk"),
        [
            ("parquet", b"PAR1 but no more"), ("orc", b"junk"), ("json", b'{"a": 1}\n{"a":'),
            ("csv", b"a,b\n1\n"), ("numpy", b"junk"), ("tfrecords", b"junk that is long enough"),
            ("webdataset", b"junk"),
        ],
    )  # fmt: skip
    def test_are_named_or_left_out(self, kind, junk, tmp_path):
        ending = {"numpy": "npy"}.get(kind, kind)
        self.write(kind, tmp_path / f"good.{ending}")
        (tmp_path / f"bad.{ending}").write_bytes(junk)
        read = getattr(skate.data, f"read_{kind}")
        with pytest.raises(Exception, match=r"\w") as caught:
            read(tmp_path).take_all()
        assert f"bad.{ending}" in notes(caught)
        assert len(read(tmp_path, on_bad_files="skip").take_all()) == 2
        with pytest.warns(UserWarning, match=rf"bad\.{ending} is left out"):
            read(tmp_path, on_bad_files="warn").take_all()

    def test_large_parquet_files(self, tmp_path, small_blocks):
        pq.write_table(pa.table({"a": range(3000)}), tmp_path / "a.parquet", row_group_size=100)
        (tmp_path / "b.parquet").write_bytes(b"PAR1" + b"x" * 30_000)
        with pytest.raises(pa.ArrowInvalid) as caught:
            skate.data.read_parquet(tmp_path).take_all()
        assert "b.parquet" in notes(caught)
        assert len(skate.data.read_parquet(tmp_path, on_bad_files="skip").take_all()) == 3000

    def test_a_broken_line_of_json_is_named(self, tmp_path):
        lines = [json.dumps({"a": n}) for n in range(100)]
        lines[56] = '{"a": 1} }'
        (tmp_path / "x.jsonl").write_text("\n".join(lines))
        for options in ({}, {"lines": True}):
            with pytest.raises(ValueError, match=r"line 57 .*'\{\"a\": 1\} \}'"):
                skate.data.read_json(tmp_path / "x.jsonl", **options).take_all()


def write_numbers(folder, files=4, rows=10):
    for n in range(files):
        table = pa.table({"a": range(n * rows, n * rows + rows), "b": ["x"] * rows})
        pq.write_table(table, folder / f"{n}.parquet", row_group_size=5)


class TestTasks:
    def test_know_only_their_own_files(self, tmp_path):
        write_numbers(tmp_path, files=64, rows=1)
        paths = [str(path) for path in sorted(tmp_path.iterdir())]
        for source in (skate.data.read_parquet(paths), skate.data.read_binary_files(paths)):
            tasks = source._plan.source.read_tasks(64)
            assert len(tasks) == 64
            texts = [cloudpickle.dumps(task) for task in tasks]
            assert all(text.count(str(tmp_path).encode()) <= 4 for text in texts)
