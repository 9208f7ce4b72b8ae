"""Archives of WebDataset."""

import io
import json
import tarfile

import numpy as np
import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def archive(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as file:
        for name in ("0.txt", "0.test.txt", "0.cls", "0.json"):
            data = json.dumps({"a": 1}).encode() if name.endswith("json") else b"7"
            member = tarfile.TarInfo(name)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
    return tmp_path


@pytest.mark.engines("inline")
class TestWebDataset:
    @pytest.mark.parametrize(
        ("options", "columns"),
        [
            ({"suffixes": ["txt", "cls"]}, {"txt", "cls"}),
            ({"suffixes": ["*.txt"]}, {"txt", "test.txt"}),
            ({"suffixes": lambda name: name.endswith("txt")}, {"txt", "test.txt"}),
            ({"fileselect": ["*.cls"]}, {"cls"}),
            ({"suffixes": ["text"], "filerename": lambda n: n.replace("txt", "text")}, {"text"}),
            ({"suffixes": ["x"], "filerename": [("0.cls", "0.x")]}, {"x"}),
        ],
    )
    def test_what_is_read(self, archive, options, columns):
        (row,) = skate.data.read_webdataset(archive, **options).take_all()
        assert set(row) == {"__key__", "__url__"} | columns

    def test_json_as_columns(self, archive):
        (row,) = skate.data.read_webdataset(archive, expand_json=True).take_all()
        assert row["a"] == 1

    def test_several_decoders(self, archive):
        def more(sample):
            return {**sample, "cls": sample["cls"] + 1}

        (row,) = skate.data.read_webdataset(archive, decoder=[True, more]).take_all()
        assert row["cls"] == 8


def test_webdataset(tmp_path):
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    rows = [{"__key__": f"k{n}", "txt": f"t{n}", "cls": n, "png": image} for n in range(3)]
    skate.data.from_items(rows).write_webdataset(tmp_path)
    back = skate.data.read_webdataset(tmp_path).take_all()
    assert [(row["__key__"], row["txt"], row["cls"]) for row in back] == [
        ("k0", "t0", 0), ("k1", "t1", 1), ("k2", "t2", 2),
    ]  # fmt: skip
    np.testing.assert_array_equal(back[0]["png"], image)


def test_arrays_as_torch_files_come_back_without_unpickling(tmp_path):
    rows = [{"__key__": "a", "pt": np.array([1, 2, 3])}]
    skate.data.from_items(rows).write_webdataset(tmp_path)
    (row,) = skate.data.read_webdataset(tmp_path).take_all()
    assert row["pt"].tolist() == [1, 2, 3]


def shouted(sample):
    return {**sample, "txt": sample["txt"].upper()}


@pytest.mark.parametrize(
    ("encoder", "txt", "cls"),
    [
        (True, b"hello", b"3"),
        (shouted, b"HELLO", b"4"),
        ([shouted, True], b"HELLO", b"3"),
        ([True, lambda sample: {**sample, "cls": "5"}], b"hello", b"5"),
    ],
)
def test_samples_are_written_as_the_encoder_makes_them(tmp_path, encoder, txt, cls):
    value = "4" if encoder is shouted else 3
    rows = [{"__key__": "a", "txt": "hello", "cls": value}]
    skate.data.from_items(rows).write_webdataset(tmp_path, encoder=encoder)
    (row,) = skate.data.read_webdataset(tmp_path, decoder=None).take_all()
    assert (row["txt"], row["cls"]) == (txt, cls)


def test_what_no_encoder_made_bytes_of_is_not_written(tmp_path):
    rows = [{"__key__": "a", "cls": 3}]
    with pytest.raises(TypeError, match=r"cannot write a int as \.cls.*encoder="):
        skate.data.from_items(rows).write_webdataset(tmp_path, encoder=None)
    assert not list(tmp_path.glob("*.tar"))
