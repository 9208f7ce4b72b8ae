"""Avro files."""

import fastavro
import pytest

import skate.data

pytestmark = pytest.mark.usefixtures("engine")


def test_avro(tmp_path):
    kind = {"type": "record", "name": "r"} | {
        "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": ["null", "string"]}]
    }
    for number in range(2):
        with open(tmp_path / f"{number}.avro", "wb") as file:
            fastavro.writer(file, kind, [{"n": number, "s": "x"}, {"n": number + 10, "s": None}])
    dataset = skate.data.read_avro(tmp_path)
    assert [row["n"] for row in dataset.take_all()] == [0, 10, 1, 11]
    assert dataset.map(lambda row: {"missing": row["s"] is None}).sum("missing") == 2
    assert set(skate.data.read_avro(tmp_path, include_paths=True).columns()) == {"n", "s", "path"}
