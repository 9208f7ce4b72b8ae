"""Files of text, bytes, arrays and images."""

import gzip

import pytest
from PIL import Image

import skate
import skate.data
from skate.data.sources import documents

pytestmark = pytest.mark.usefixtures("engine")


def test_numpy(tmp_path):
    skate.data.range_tensor(4, shape=(2, 2)).write_numpy(tmp_path, column="data")
    assert skate.data.read_numpy(tmp_path).take_batch(4)["data"].shape == (4, 2, 2)


def test_text_and_bytes(tmp_path):
    (tmp_path / "a.txt").write_text("one\n\ntwo\n")
    with gzip.open(tmp_path / "b.txt.gz", "wt") as file:
        file.write("three\n")
    texts = [row["text"] for row in skate.data.read_text(tmp_path).take_all()]
    assert texts == ["one", "two", "three"]
    all_lines = skate.data.read_text(tmp_path / "a.txt", drop_empty_lines=False)
    assert all_lines.count() == 3
    assert skate.data.read_binary_files(tmp_path / "a.txt").take() == [{"bytes": b"one\n\ntwo\n"}]


class TestImages:
    @pytest.mark.engines("inline")
    @pytest.mark.parametrize(("tasks", "rows"), [(2, [64, 6]), (3, [23, 23, 24])])
    def test_tasks_of_many_are_whole_batches_of_the_usual_sizes(
        self, tmp_path, monkeypatch, tasks, rows
    ):
        for number in range(70):
            Image.new("L", (2, 2), number).save(tmp_path / f"{number:02}.png")
        monkeypatch.setattr(documents.ImageSource, "_wanted", lambda self, pieces: tasks)
        images = skate.data.read_images(tmp_path)
        assert sorted(task.rows for task in images._plan.source.read_tasks(None)) == sorted(rows)
        assert [row["image"][0, 0] for row in images.take_all()] == list(range(70))

    @pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.tga", "a.ico", "a.webp", "a.tiff"])
    def test_formats_that_are_common_and_rare(self, tmp_path, name):
        Image.new("RGB", (16, 16), (255, 255, 255)).save(tmp_path / name)
        [row] = skate.data.read_images(tmp_path, mode="L", file_extensions=None).take_all()
        assert row["image"].shape == (16, 16)
        assert row["image"].min() > 250

    def test_they_are_read_in_tasks_of_whole_batches(self, tmp_path):
        for number in range(30):
            Image.new("L", (2, 2), number).save(tmp_path / f"{number:02}.png")
        images = skate.data.read_images(tmp_path).map_batches(
            lambda batch: {"rows": [len(batch["image"])], "last": batch["image"][-1:, 0, 0]},
            batch_size=4,
        )
        rows = images.take_all()
        assert [row["rows"] for row in rows] == [4] * 7 + [2]
        assert [row["last"] for row in rows] == [3, 7, 11, 15, 19, 23, 27, 29]

    def test_many_pixels_make_many_tasks(self, tmp_path, monkeypatch):
        for number in range(60):
            Image.new("L", (2, 2)).save(tmp_path / f"{number}.png")
        images = skate.data.read_images(tmp_path)._plan.source
        few = len(images.read_tasks(None))
        monkeypatch.setattr(documents, "_TASK_BYTES", images.size_bytes() // 60)
        assert few < len(images.read_tasks(None)) == 60

    def test_the_example(self):
        dataset = skate.data.read_images("example://image-datasets/simple")
        assert dataset.count() == 3
        assert "image   numpy.ndarray(shape=(32, 32, 3), dtype=uint8)" in str(dataset.schema())

    def test_size_mode_and_paths(self, tmp_path):
        for number, size in enumerate([(5, 4), (9, 8)]):
            Image.new("RGB", size, (number, 0, 0)).save(tmp_path / f"{number}.png")
        raw = skate.data.read_images(tmp_path)
        assert [row["image"].shape for row in raw.take_all()] == [(4, 5, 3), (8, 9, 3)]
        rows = skate.data.read_images(
            tmp_path, size=(6, 7), mode="L", include_paths=True
        ).take_all()
        assert [row["image"].shape for row in rows] == [(6, 7), (6, 7)]
        assert rows[1]["path"].endswith("1.png")

    def test_write(self, tmp_path):
        skate.data.read_images("example://image-datasets/simple").write_images(tmp_path, "image")
        assert skate.data.read_images(tmp_path).count() == 3

    def test_a_bad_file_names_itself_or_is_left_out(self, tmp_path):
        Image.new("RGB", (2, 2)).save(tmp_path / "good.png")
        (tmp_path / "bad.png").write_bytes(b"not an image")
        with pytest.raises(Exception, match="is no image") as caught:
            skate.data.read_images(tmp_path).take_all()
        text = "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        assert "bad.png" in text
        assert skate.data.read_images(tmp_path, on_bad_files="skip").count() == 2
        assert len(skate.data.read_images(tmp_path, on_bad_files="skip").take_all()) == 1
