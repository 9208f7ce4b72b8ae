"""TFRecords."""

import contextlib
import random
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import skate
import skate.data
from skate._core.record_files import record_of
from skate.data.sources.tf_examples import block_of_examples

pytestmark = pytest.mark.usefixtures("engine")


def test_tfrecords(tmp_path):
    rows = [{"i": -3, "f": [0.5, 1.5], "b": b"x"}, {"i": 2**40, "f": [2.0, 2.5], "b": b""}]
    skate.data.from_items(rows).write_tfrecords(tmp_path)
    assert skate.data.read_tfrecords(tmp_path).take_all() == rows


def test_a_damaged_tfrecord_names_its_file(tmp_path):
    skate.data.from_items([{"i": 1}]).write_tfrecords(tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(ValueError, match="cut off") as caught:
        skate.data.read_tfrecords(tmp_path).take_all()
    assert path.name in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


def test_a_damaged_tfrecord_is_the_error_of_ray_too(tmp_path):
    path = tmp_path / "no-records.json"
    path.write_text('{"number": 0, "text": "something else"}')
    with pytest.raises(RuntimeError, match="Failed to read TFRecord file"):
        skate.data.read_tfrecords(path).schema()


NO_EXAMPLES = {
    "a number for the features": b"\x08\x01",
    "a number among bytes": b"\x0a\x0b\x0a\x09\x0a\x01a\x12\x04\x0a\x02\x08\x01",
    "a float of three bytes": b"\x0a\x0e\x0a\x0c\x0a\x01a\x12\x07\x12\x05\x0a\x03abc",
}


@pytest.mark.parametrize("body", NO_EXAMPLES.values(), ids=NO_EXAMPLES)
def test_a_record_that_is_no_example_is_a_damaged_file(tmp_path, body):
    (tmp_path / "a.tfrecords").write_bytes(record_of(body))
    with pytest.raises(RuntimeError, match=r"of a record|a record has") as caught:
        skate.data.read_tfrecords(tmp_path).take_all()
    assert isinstance(caught.value, ValueError)


def field(number, content):
    return bytes([number << 3 | 2, len(content)]) + content


def test_a_record_that_is_no_example_is_named(tmp_path):
    path = tmp_path / "wrong.tfrecords"
    path.write_bytes(record_of(b"\x08\x05"))  # a number in the place of the features
    with pytest.raises(RuntimeError, match=r"the number 5 where bytes should be") as caught:
        skate.data.read_tfrecords(path).take_all()
    assert path.name in "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


def test_damaged_examples_are_wrong_values_whatever_the_damage():
    numbers = field(3, field(1, b"\xff" * 9 + b"\x7f"))
    values = [field(1, field(1, b"xyz")), field(2, field(1, bytes(8))), numbers]
    entries = [field(1, field(1, b"abc"[n : n + 1]) + field(2, v)) for n, v in enumerate(values)]
    good, chance = field(1, b"".join(entries)), random.Random(7)
    assert block_of_examples([good], None).to_pylist() == [{"a": b"xyz", "b": [0, 0], "c": -1}]
    for _ in range(2000):
        damaged = bytearray(good)
        for _ in range(chance.randrange(1, 5)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        with contextlib.suppress(ValueError):
            block_of_examples([bytes(damaged)], None)


def read_back(rows, folder, **options):
    skate.data.from_items(rows, override_num_blocks=1).write_tfrecords(folder, **options)
    return skate.data.read_tfrecords(folder, **options)


def test_missing_values_and_empty_lists_are_features_without_values(tmp_path):
    rows = [{"one": None, "many": []}, {"one": 1.5, "many": [9, 2]}]
    found = read_back(rows, tmp_path)
    assert found.take_all() == rows
    assert found.schema().types == [pa.float32(), pa.list_(pa.int64())]


def test_a_column_with_one_list_of_several_is_one_of_lists(tmp_path):
    found = read_back([{"n": [1]}, {"n": [2, 3]}], tmp_path)
    assert found.take_all() == [{"n": [1]}, {"n": [2, 3]}]


def test_files_with_no_value_of_a_feature_fit_to_those_that_have_some(tmp_path):
    for name, value in (("a", None), ("b", 7)):
        ds = skate.data.from_arrow(pa.table({"n": pa.array([value], pa.int64())}))
        ds.write_tfrecords(tmp_path / name)
    found = skate.data.read_tfrecords([tmp_path / "a", tmp_path / "b"]).to_pandas()
    assert [None if np.isnan(n) else n for n in found["n"]] == [None, 7]


def test_tensors_are_what_tensorflow_parses(tmp_path):
    read = read_back([{"t": np.array([[1, -2]], np.int16)}], tmp_path).take(1)[0]["t"]
    shape = b"\x12\x02\x08\x01" + b"\x12\x02\x08\x02"
    assert read == b"\x08\x05" + b"\x12\x08" + shape + b"\x22\x04" + b"\x01\x00\xfe\xff"


@pytest.mark.parametrize("value", [None, [], {"a": 1}])
def test_what_no_feature_can_hold_is_an_error(tmp_path, value):
    with pytest.raises(ValueError, match="'x'"):
        skate.data.from_items([{"x": value}]).write_tfrecords(tmp_path)


def schema_of(**types):
    features = [SimpleNamespace(name=name, type=number) for name, number in types.items()]
    return SimpleNamespace(feature=features)


def test_a_schema_says_what_empty_columns_hold_and_keeps_lists(tmp_path):
    found = read_back([{"n": 1, "x": []}], tmp_path, tf_schema=schema_of(n=2, x=3))
    assert found.take_all() == [{"n": [1], "x": []}]
    assert found.schema().types == [pa.list_(pa.int64()), pa.list_(pa.float32())]


def test_a_schema_that_does_not_fit_is_an_error(tmp_path):
    ds = skate.data.from_items([{"n": b"text"}])
    ds.write_tfrecords(tmp_path / "ok")
    for schema, words in ((schema_of(m=1), "extra unexpected"), (schema_of(n=2), "mismatch")):
        with pytest.raises(ValueError, match=words):
            ds.write_tfrecords(tmp_path / "bad", tf_schema=schema)
        with pytest.raises(ValueError, match=words):
            skate.data.read_tfrecords(tmp_path / "ok", tf_schema=schema).take_all()
    with pytest.raises(TypeError, match="tf_schema"):
        skate.data.read_tfrecords(tmp_path / "ok", tf_schema={"n": 1})
