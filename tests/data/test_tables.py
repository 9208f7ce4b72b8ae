"""CSV, JSON and ORC: what is written is read, in all its forms."""

import gzip

import numpy as np
import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.parametrize("kind", ["json", "orc"])
def test_tensors_are_nested_lists_in(kind, tmp_path):
    rows = [{"t": np.arange(8).reshape(2, 2, 2) + n} for n in range(3)]
    getattr(skate.data.from_items(rows), f"write_{kind}")(tmp_path)
    found = getattr(skate.data, f"read_{kind}")(tmp_path).take_all()
    assert found == [{"t": row["t"].tolist()} for row in rows]


@pytest.mark.engines("inline")
def test_compression_by_argument(tmp_path):
    (tmp_path / "rows").write_bytes(gzip.compress(b"a\n1\n"))
    given = {"compression": "gzip"}
    ds = skate.data.read_csv(tmp_path / "rows", arrow_open_stream_args=given)
    assert ds.take_all() == [{"a": 1}]
    bytes_ = skate.data.read_binary_files(tmp_path / "rows", arrow_open_stream_args=given)
    assert bytes_.take_all() == [{"bytes": b"a\n1\n"}]


@pytest.mark.engines("inline")
def test_lines_that_are_lists(tmp_path):
    (tmp_path / "x.jsonl").write_text('["a", "b"]\n["c"]\n')
    found = skate.data.read_json(tmp_path / "x.jsonl", lines=True).take_all()
    assert found == [{"0": "a", "1": "b"}, {"0": "c", "1": None}]
