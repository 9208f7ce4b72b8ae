"""CSV, JSON and ORC: what is written is read, in all its forms."""

import gzip

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")

ROWS = [{"n": n, "x": n / 2, "s": f"row {n}"} for n in range(10)]


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


@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "orc"])
def test_tables_come_back_in_order(kind, tmp_path):
    dataset = skate.data.from_items(ROWS)
    getattr(dataset, f"write_{kind}")(tmp_path)
    assert getattr(skate.data, f"read_{kind}")(tmp_path).take_all() == ROWS


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_missing_text_in_csv_does_not_depend_on_the_file(tmp_path, blocks):
    rows = [{"s": "x", "n": 1}, {"s": None, "n": None}, {"s": "", "n": 2}, {"s": "y", "n": 3}]
    skate.data.from_items(rows, override_num_blocks=blocks).write_csv(tmp_path)
    assert len(list(tmp_path.iterdir())) == blocks
    expected = [{"s": row["s"] or "", "n": row["n"]} for row in rows]
    assert skate.data.read_csv(tmp_path).take_all() == expected
    nullable = csv.ConvertOptions(strings_can_be_null=True)
    found = skate.data.read_csv(tmp_path, convert_options=nullable).take_all()
    assert found == [{"s": row["s"] or None, "n": row["n"]} for row in rows]


def test_json_in_other_forms(tmp_path):
    (tmp_path / "list.json").write_text('[{"a": 1}, {"a": 2}]')
    (tmp_path / "mixed.json").write_text('{"a": 1}\n{"a": "x"}\n')
    assert skate.data.read_json(tmp_path / "list.json").take_all() == [{"a": 1}, {"a": 2}]
    assert skate.data.read_json(tmp_path / "mixed.json").take_all() == [{"a": 1}, {"a": "x"}]


@pytest.mark.engines("inline")
def test_a_column_of_csv_may_change_its_type_late(tmp_path):
    values = [*["1"] * 600_000, "1.5", "x"]
    (tmp_path / "numbers.csv").write_text("\n".join(["v", *values[:-1]]))
    (tmp_path / "words.csv").write_text("\n".join(["v", *values]))
    assert skate.data.read_csv(tmp_path / "numbers.csv").sum("v") == 600_001.5
    assert skate.data.read_csv(tmp_path / "words.csv").schema().types == [pa.string()]


@pytest.mark.engines("inline")
def test_a_file_that_is_no_csv_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3\n")
    with pytest.raises(ValueError, match=r"Failed to read CSV file .*a\.csv"):
        skate.data.read_csv(tmp_path).take_all()
