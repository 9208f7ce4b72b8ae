"""Writing files: what is there stays until what replaces it is complete."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skate
import skate.data
from skate.data import Datasink, SaveMode
from skate.data.datasource import BlockBasedFileDatasink, FilenameProvider, Partitioning

pytestmark = pytest.mark.usefixtures("engine")


class SameNames(FilenameProvider):
    def get_filename_for_task(self, write_uuid, task_index):
        return f"{task_index}.parquet"


@pytest.fixture
def folder(tmp_path):
    skate.data.range(10, override_num_blocks=2).write_parquet(
        tmp_path, mode="overwrite", filename_provider=SameNames()
    )
    return tmp_path


def ids(folder):
    return [row["id"] for row in skate.data.read_parquet(folder).take_all()]


@pytest.mark.engines("inline")
class TestOverwrite:
    @pytest.mark.parametrize("names", [None, SameNames()], ids=["new names", "same names"])
    def test_ones_own_input(self, folder, names):
        dataset = skate.data.read_parquet(folder).map(lambda row: {"id": row["id"] + 1})
        dataset.write_parquet(folder, mode="overwrite", filename_provider=names)
        assert ids(folder) == list(range(1, 11))

    def test_a_write_that_fails_leaves_the_old_files_alone(self, folder):
        before = sorted(folder.iterdir())

        def fail(row):
            if row["id"] == 7:
                raise ArithmeticError
            return row

        with pytest.raises(ArithmeticError):
            skate.data.read_parquet(folder).map(fail).write_parquet(folder, mode="overwrite")
        with pytest.raises(TypeError, match="compresion"):
            skate.data.range(3).write_parquet(folder, mode="overwrite", compresion="gzip")
        assert sorted(folder.iterdir()) == before
        assert ids(folder) == list(range(10))

    def test_images_of_ones_own(self, tmp_path):
        images = skate.data.from_numpy(np.zeros((2, 4, 4, 3), np.uint8))
        images.write_images(tmp_path, "data")
        skate.data.read_images(tmp_path).write_images(tmp_path, "image", mode="overwrite")
        assert len(list(tmp_path.iterdir())) == 2

    def test_folders_that_are_empty_then_go(self, tmp_path):
        skate.data.from_items([{"k": 1, "v": 1}]).write_parquet(tmp_path, partition_cols=["k"])
        skate.data.from_items([{"k": 2, "v": 2}]).write_parquet(
            tmp_path, partition_cols=["k"], mode="overwrite"
        )
        assert [path.name for path in tmp_path.iterdir()] == ["k=2"]

    def test_a_sink_of_files(self, folder):
        class Texts(BlockBasedFileDatasink):
            def write_block_to_file(self, block, file):
                file.write(b"%d" % block.num_rows())

            def on_write_complete(self, write_result):
                """Does not need to know."""

        skate.data.read_parquet(folder).write_datasink(
            Texts(str(folder), mode="overwrite", file_format="txt", min_rows_per_file=10)
        )
        assert [(path.suffix, path.read_text()) for path in folder.iterdir()] == [(".txt", "10")]


@pytest.mark.engines("inline")
class TestSizes:
    def rows_of_files(self, folder):
        return [pq.read_metadata(path).num_rows for path in sorted(folder.iterdir())]

    @pytest.mark.parametrize(("least", "expected"), [(1, [5, 5, 5, 5]), (7, [10, 10])])
    def test_files_have_at_least_so_many_rows(self, tmp_path, least, expected):
        dataset = skate.data.range(20, override_num_blocks=4)
        dataset.write_parquet(tmp_path, min_rows_per_file=least)
        assert self.rows_of_files(tmp_path) == expected

    def test_writes_have_at_least_so_many_bytes(self):
        class Sink(Datasink):
            min_bytes_per_write = 100

            def __init__(self):
                self.sizes = []

            def write(self, blocks, ctx):
                self.sizes.append(sum(block.nbytes for block in blocks))

        sink = Sink()
        skate.data.range(40, override_num_blocks=20).write_datasink(sink, concurrency=1)
        assert sink.sizes == [112, 112, 96]


@pytest.mark.engines("inline")
class TestPartitions:
    def test_values_come_back_as_they_were(self, tmp_path):
        rows = [{"k": k, "n": n} for n, k in enumerate(["a/b", None, "x=y", "a b%2F", ""])]
        skate.data.from_items(rows).write_parquet(tmp_path, partition_cols=["k"])
        back = skate.data.read_parquet(tmp_path).take_all()
        assert {row["n"]: row["k"] for row in back} == {row["n"]: row["k"] for row in rows}

    def test_numbers_and_missing_ones(self, tmp_path):
        rows = [{"k": 1, "n": 0}, {"k": None, "n": 1}]
        skate.data.from_items(rows).write_parquet(tmp_path, partition_cols=["k"])
        typed = Partitioning("hive", field_types={"k": int})
        back = skate.data.read_parquet(tmp_path, partitioning=typed)
        assert sorted(back.take_all(), key=lambda row: row["n"]) == [
            {"n": 0, "k": 1}, {"n": 1, "k": None},
        ]  # fmt: skip

    def test_arrow_reads_them(self, tmp_path):
        rows = [{"k": "a/b", "n": 0}, {"k": None, "n": 1}]
        skate.data.from_items(rows).write_parquet(tmp_path, partition_cols=["k"])
        back = pq.read_table(tmp_path, partitioning="hive").to_pylist()
        assert {row["n"]: row["k"] for row in back} == {0: "a/b", 1: None}

    def test_a_single_file_has_them_too(self, tmp_path):
        skate.data.from_items([{"k": "a", "n": 0}]).write_parquet(tmp_path, partition_cols=["k"])
        (path,) = tmp_path.glob("k=a/*")
        assert skate.data.read_parquet(path).take_all() == [{"n": 0, "k": "a"}]


@pytest.mark.engines("local")
@pytest.mark.parametrize("mode", ["ignore", "error"])
def test_a_folder_is_there_already(tmp_path, mode):
    folder = tmp_path / "there"
    folder.mkdir()
    if mode == "error":
        with pytest.raises(ValueError, match="already"):
            skate.data.range(1).write_parquet(folder, mode=mode)
    else:
        skate.data.range(1).write_parquet(folder, mode=mode)
    assert list(folder.iterdir()) == []
    folder.rmdir()
    skate.data.range(1).write_parquet(folder, mode=mode)
    assert skate.data.read_parquet(folder).count() == 1


@pytest.mark.engines("local")
def test_no_rows_no_folder(tmp_path):
    skate.data.from_items([]).write_parquet(tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.engines("local")
def test_names_that_would_lose_rows(tmp_path):
    from skate.data.datasource import FilenameProvider

    class OneName(FilenameProvider):
        def get_filename_for_task(self, write_uuid, task_index):
            return "rows.csv"

    dataset = skate.data.range(4, override_num_blocks=2)
    with pytest.raises(ValueError, match="rows of one be lost"):
        dataset.write_csv(tmp_path, filename_provider=OneName())
    dataset.repartition(1).write_csv(tmp_path, filename_provider=OneName())
    with pytest.raises(ValueError, match=r"rows\.csv"):
        dataset.repartition(1).write_csv(tmp_path, filename_provider=OneName())
    assert skate.data.read_csv(tmp_path).count() == 4


@pytest.mark.engines("inline")
def test_parquet_files_that_are_added_say_of_which_write_they_are(tmp_path):
    rows = skate.data.range(4)
    with pytest.raises(ValueError, match=r"UUID .* is missing .*'0\.parquet'"):
        rows.write_parquet(tmp_path, filename_provider=SameNames())
    assert list(tmp_path.iterdir()) == []
    rows.write_parquet(tmp_path, mode="overwrite", filename_provider=SameNames())
    assert ids(tmp_path) == [0, 1, 2, 3]


@pytest.mark.engines("local")
def test_types_and_rows_of_files(tmp_path):
    import pyarrow.parquet as pq

    schema = pa.schema({"id": pa.float32()})
    skate.data.range(1).write_parquet(tmp_path / "a", schema=schema)
    assert pq.read_table(tmp_path / "a").schema == schema
    with pytest.raises(ValueError, match="max_rows_per_file must be a positive integer"):
        skate.data.range(1).write_parquet(tmp_path, max_rows_per_file=0)
    with pytest.raises(ValueError, match=r"\(3\) cannot be greater than max_rows_per_file"):
        skate.data.range(1).write_csv(tmp_path, min_rows_per_file=3, max_rows_per_file=2)


def test_a_failed_write_leaves_no_files(tmp_path):
    def fail(row):
        return {"x": 1 // (row["id"] - 9)}

    dataset = skate.data.range(20, override_num_blocks=20).map(fail)
    with pytest.raises(ZeroDivisionError):
        dataset.write_parquet(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.engines("inline")
def test_names_by_block_and_by_row(tmp_path):
    class ByBlock(FilenameProvider):
        def get_filename_for_block(self, block, write_uuid, task_index, block_index):
            return f"rows{block.num_rows}_{task_index}.csv"

    class ByTask(FilenameProvider):
        def get_filename_for_task(self, write_uuid, task_index):
            return f"image{task_index}.png"

    skate.data.range(4, override_num_blocks=2).write_csv(
        tmp_path / "a", filename_provider=ByBlock()
    )
    assert {p.name for p in (tmp_path / "a").iterdir()} == {"rows2_0.csv", "rows2_1.csv"}
    images = skate.data.read_images("example://image-datasets/simple").repartition(1)
    images.write_images(tmp_path / "b", "image", filename_provider=ByTask())
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == [
        f"image0_000000_00000{n}.png" for n in range(3)
    ]


@pytest.mark.engines("inline")
@pytest.mark.parametrize("write", ["write_csv", "write_parquet"])
def test_names_by_a_class_of_its_own(tmp_path, write):
    class ByBlock:
        def get_filename_for_block(self, block, write_uuid, task_index, block_index):
            return f"rows{block.num_rows}_{write_uuid}"

    class ByTask:
        def get_filename_for_task(self, write_uuid, task_index):
            return f"task{task_index}_{write_uuid}"

    rows = skate.data.range(4, override_num_blocks=1)
    for names in (ByBlock(), ByTask()):
        getattr(rows, write)(tmp_path, filename_provider=names)
    assert [p.name.split("_")[0] for p in sorted(tmp_path.iterdir())] == ["rows4", "task0"]


@pytest.mark.engines("inline")
def test_names_of_tasks_go_before_those_of_older_versions(tmp_path):
    class Both(FilenameProvider):
        def get_filename_for_task(self, write_uuid, task_index):
            return f"now_{write_uuid}_{task_index}.txt"

        def get_filename_for_block(self, block, write_uuid, task_index, block_index):
            return f"then_{write_uuid}_{task_index}.txt"

        def get_filename_for_row(self, row, write_uuid, task_index, block_index, row_index):
            return f"then_{write_uuid}_{task_index}_{row_index}.txt"

    class ToFile(BlockBasedFileDatasink):
        def write_block_to_file(self, block, file):
            file.write(b"rows")

    rows = skate.data.range(2, override_num_blocks=1)
    rows.write_csv(tmp_path / "a", filename_provider=Both())
    rows.write_parquet(tmp_path / "b", filename_provider=Both())
    rows.write_datasink(ToFile(str(tmp_path / "c"), filename_provider=Both()))
    images = skate.data.read_images("example://image-datasets/simple")
    images.write_images(tmp_path / "d", "image", filename_provider=Both())
    names = [path.name.partition("_")[0] for path in tmp_path.glob("*/*")]
    assert names == ["now"] * 6


@pytest.mark.engines("inline")
def test_files_that_are_compressed_inside_are_not_compressed_as_a_whole(tmp_path):
    rows = skate.data.range(3, override_num_blocks=1)
    stream = {"compression": "gzip"}
    rows.write_parquet(tmp_path / "a", arrow_open_stream_args=stream)
    assert stream == {"compression": "gzip"}
    (file,) = (tmp_path / "a").iterdir()
    assert pq.read_metadata(file).row_group(0).column(0).compression == "GZIP"
    with pytest.raises(ValueError, match=r"no ORC file.*gzip.*compression='zstd'"):
        rows.write_orc(tmp_path / "b", arrow_open_stream_args=stream)
    rows.write_csv(tmp_path / "c", arrow_open_stream_args=stream)
    (file,) = (tmp_path / "c").iterdir()
    assert file.read_bytes()[:2] == b"\x1f\x8b"


def test_rows_per_file(tmp_path):
    dataset = skate.data.range(10, override_num_blocks=10)
    dataset.write_csv(tmp_path, num_rows_per_file=4)
    assert len(list(tmp_path.iterdir())) == 3


def test_modes(tmp_path):
    def write(mode):
        skate.data.range(3, override_num_blocks=1).write_csv(tmp_path, mode=mode)
        return len(list(tmp_path.iterdir()))

    assert write("append") == 1
    assert write(SaveMode.APPEND) == 2
    assert write("overwrite") == 1
    assert write("ignore") == 1
    with pytest.raises(FileExistsError, match="overwrite"):
        write("error")
