"""Avro files."""

import gzip

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


def chains(path, *depths):
    """A file with a chain of records of each of these lengths."""
    link = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]}
    rows = []
    for depth in depths:
        chain = None
        for _ in range(depth):
            chain = {"a": chain}
        rows.append(chain)
    with open(path, "wb") as file:
        fastavro.writer(file, link, rows)


@pytest.mark.parametrize("name", ["a.avro", "a.avro.gz"])
def test_records_inside_of_their_own_kind(tmp_path, name):
    chains(tmp_path / "a.avro", 2, 100)
    if name.endswith(".gz"):
        (tmp_path / name).write_bytes(gzip.compress((tmp_path / "a.avro").read_bytes()))
    rows = skate.data.read_avro(str(tmp_path / name), file_extensions=None).take_all()
    assert rows[0]["a"]["a"] is None
    assert str(rows[1]).count("{") == 100
