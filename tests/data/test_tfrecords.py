"""TFRecords."""

import pytest

import skate
import skate.data

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
