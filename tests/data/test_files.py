"""Reading and writing: what is written is read, and paths mean what they say."""

import gzip
import sqlite3

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from pyarrow import csv

import skate
import skate.data
from skate.data import SaveMode
from skate.data.datasource import Datasource, Partitioning, PathPartitionFilter, ReadTask
from skate.data.expressions import col

pytestmark = pytest.mark.usefixtures("engine")

ROWS = [{"n": n, "x": n / 2, "s": f"row {n}"} for n in range(10)]


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


def test_tensors_survive_parquet(tmp_path):
    skate.data.from_items(
        [{"fixed": torch.full((2, 2), n), "ragged": np.ones((n + 1, 2))} for n in range(3)]
    ).write_parquet(tmp_path)
    back = skate.data.read_parquet(tmp_path)
    assert str(back.schema()).splitlines()[2:] == [
        "fixed   numpy.ndarray(shape=(2, 2), dtype=int64)",
        "ragged  numpy.ndarray(ndim=2, dtype=float64)",
    ]
    assert [row["ragged"].shape for row in back.take_all()] == [(1, 2), (2, 2), (3, 2)]
    assert back.take_all()[2]["fixed"].tolist() == [[2, 2], [2, 2]]


def test_plain_values_survive_parquet(tmp_path):
    skate.data.from_items(["a", "b"]).write_parquet(tmp_path)
    assert skate.data.read_parquet(tmp_path).take_all() == ["a", "b"]


def test_numpy(tmp_path):
    skate.data.range_tensor(4, shape=(2, 2)).write_numpy(tmp_path, column="data")
    assert skate.data.read_numpy(tmp_path).take_batch(4)["data"].shape == (4, 2, 2)


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


def test_webdataset(tmp_path):
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    rows = [{"__key__": f"k{n}", "txt": f"t{n}", "cls": n, "png": image} for n in range(3)]
    skate.data.from_items(rows).write_webdataset(tmp_path)
    back = skate.data.read_webdataset(tmp_path).take_all()
    assert [(row["__key__"], row["txt"], row["cls"]) for row in back] == [
        ("k0", "t0", 0), ("k1", "t1", 1), ("k2", "t2", 2),
    ]  # fmt: skip
    np.testing.assert_array_equal(back[0]["png"], image)


def test_sql(tmp_path):
    def connect():
        return sqlite3.connect(tmp_path / "x.db")

    connection = connect()
    connection.execute("create table t (n integer, x real, s text)")
    connection.close()
    skate.data.from_items(ROWS).write_sql("insert into t values (?, ?, ?)", connect)
    assert skate.data.read_sql("select * from t order by n", connect).take_all() == ROWS
    few = skate.data.read_sql("select n from t where n > ?", connect, sql_params=(7,))
    assert few.take_all() == [{"n": 8}, {"n": 9}]


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


class TestPaths:
    @pytest.fixture
    def folder(self, tmp_path):
        for name in ("a.csv", "b.csv", "c.txt", "_hidden.csv", "sub/d.csv"):
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"name\n{name}\n")
        return tmp_path

    def names(self, paths, **options):
        return [row["name"] for row in skate.data.read_csv(paths, **options).take_all()]

    def test_a_folder_with_everything_in_it(self, folder):
        assert self.names(folder) == ["a.csv", "b.csv", "c.txt", "sub/d.csv"]
        assert self.names(folder, file_extensions=["csv"]) == ["a.csv", "b.csv", "sub/d.csv"]

    def test_files_and_lists_and_globs(self, folder):
        assert self.names(str(folder / "b.csv")) == ["b.csv"]
        assert self.names([folder / "b.csv", folder / "a.csv"]) == ["b.csv", "a.csv"]
        assert self.names(str(folder / "*.csv")) == ["_hidden.csv", "a.csv", "b.csv"][1:]

    def test_what_is_not_there(self, folder):
        with pytest.raises(FileNotFoundError, match=r"nothing\.csv"):
            skate.data.read_csv(folder / "nothing.csv")
        paths = [folder / "nothing.csv", folder / "a.csv"]
        assert self.names(paths, ignore_missing_paths=True) == ["a.csv"]

    def test_a_file_system_of_ones_own(self):
        import fsspec

        memory = fsspec.filesystem("memory")
        with memory.open("/data/a.csv", "w") as file:
            file.write("name\nhere\n")
        assert self.names("/data/a.csv", filesystem=memory) == ["here"]
        assert self.names("memory://data/a.csv") == ["here"]

    def test_include_paths_and_input_files(self, folder):
        dataset = skate.data.read_csv(folder / "a.csv", include_paths=True)
        assert dataset.take()[0]["path"] == str(folder / "a.csv")
        assert dataset.input_files() == [str(folder / "a.csv")]

    def test_an_unknown_example_lists_those_there_are(self):
        with pytest.raises(FileNotFoundError, match=r"iris\.csv"):
            skate.data.read_csv("example://nothing.csv")

    def test_file_shuffle(self, folder):
        config = skate.data.FileShuffleConfig(seed=1)
        found = self.names(folder, shuffle=config)
        assert sorted(found) == ["a.csv", "b.csv", "c.txt", "sub/d.csv"]
        assert found == self.names(folder, shuffle=config)


class TestPartitions:
    def test_written_and_read(self, tmp_path):
        rows = [{"n": n, "k": "ab"[n % 2]} for n in range(6)]
        skate.data.from_items(rows).write_parquet(tmp_path, partition_cols=["k"])
        assert {path.name for path in tmp_path.iterdir()} == {"k=a", "k=b"}
        back = skate.data.read_parquet(str(tmp_path))
        assert sorted(back.take_all(), key=lambda row: row["n"]) == rows
        assert back.select_columns(["k"]).count() == 6
        assert {row["k"] for row in back.select_columns(["k"]).take_all()} == {"a", "b"}

    def test_folders_by_position_and_a_filter(self, tmp_path):
        for year in ("2020", "2021"):
            (tmp_path / year).mkdir()
            (tmp_path / year / "x.csv").write_text("v\n1\n")
        by_year = Partitioning("dir", field_names=["year"], field_types={"year": int})
        found = skate.data.read_csv(tmp_path, partitioning=by_year).take_all()
        assert found == [{"v": 1, "year": 2020}, {"v": 1, "year": 2021}]
        later = PathPartitionFilter(by_year, lambda values: values["year"] > 2020)
        found = skate.data.read_csv(tmp_path, partitioning=by_year, partition_filter=later)
        assert found.take_all() == [{"v": 1, "year": 2021}]


class TestParquet:
    @pytest.fixture
    def path(self, tmp_path):
        table = pa.table({"a": range(1000), "b": range(1000), "c": ["x"] * 1000})
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=100)
        return tmp_path / "t.parquet"

    def test_columns_and_filters_are_pushed_into_the_read(self, path, capsys):
        dataset = skate.data.read_parquet(path).filter(expr=col("a") >= 998).select_columns("b")
        assert dataset.take_all() == [{"b": 998}, {"b": 999}]
        selected = skate.data.read_parquet(path).select_columns(["c"])
        selected.explain()
        optimised = capsys.readouterr().out.split("Optimised plan --------")[1]
        assert "SelectColumns" not in optimised
        assert selected.columns() == ["c"]

    def test_count_and_schema_need_no_rows(self, path):
        dataset = skate.data.read_parquet(path)
        assert dataset.count() == 1000
        assert dataset.schema(fetch_if_missing=False).names == ["a", "b", "c"]

    def test_large_files_are_cut_at_row_groups(self, path):
        context = skate.data.DataContext.get_current()
        before = context.target_max_block_size
        context.target_max_block_size = 2000
        try:
            dataset = skate.data.read_parquet(path)
            blocks = list(dataset.iter_batches(batch_size=None))
            assert len(blocks) > 1
            assert dataset.sum("a") == sum(range(1000))
        finally:
            context.target_max_block_size = before

    def test_wrong_columns(self, path):
        with pytest.raises(KeyError, match=r"'d'.*\['a', 'b', 'c'\]"):
            skate.data.read_parquet(path, columns=["d"]).take_all()


class TestWriting:
    def test_rows_per_file(self, tmp_path):
        dataset = skate.data.range(10, override_num_blocks=10)
        dataset.write_csv(tmp_path, num_rows_per_file=4)
        assert len(list(tmp_path.iterdir())) == 3

    def test_modes(self, tmp_path):
        def write(mode):
            skate.data.range(3, override_num_blocks=1).write_csv(tmp_path, mode=mode)
            return len(list(tmp_path.iterdir()))

        assert write("append") == 1
        assert write(SaveMode.APPEND) == 2
        assert write("overwrite") == 1
        assert write("ignore") == 1
        with pytest.raises(FileExistsError, match="overwrite"):
            write("error")

    def test_a_sink_of_ones_own(self):
        from skate.data import Datasink

        class Counter(Datasink):
            total = None

            def write(self, blocks, ctx):
                return sum(block.num_rows for block in blocks)

            def on_write_complete(self, write_result):
                self.total = sum(write_result.write_returns)

        sink = Counter()
        skate.data.range(7).write_datasink(sink)
        assert sink.total == 7


def test_a_source_of_ones_own():
    class Letters(Datasource):
        def get_read_tasks(self, parallelism):
            return [ReadTask(lambda c=c: [{"c": [c]}]) for c in "abc"]

    assert [row["c"] for row in skate.data.read_datasource(Letters()).take_all()] == list("abc")


def test_json_in_other_forms(tmp_path):
    (tmp_path / "list.json").write_text('[{"a": 1}, {"a": 2}]')
    (tmp_path / "mixed.json").write_text('{"a": 1}\n{"a": "x"}\n')
    assert skate.data.read_json(tmp_path / "list.json").take_all() == [{"a": 1}, {"a": 2}]
    assert skate.data.read_json(tmp_path / "mixed.json").take_all() == [{"a": 1}, {"a": "x"}]


def test_unknown_keywords_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(TypeError, match="encodin"):
        skate.data.read_text(tmp_path / "a.txt", encodin="utf-8")


class TestParquetFiles:
    def test_files_that_differ_are_brought_together(self, tmp_path):
        pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
        pq.write_table(pa.table({"a": [2.5], "b": ["x"]}), tmp_path / "2.parquet")
        dataset = skate.data.read_parquet(str(tmp_path))
        assert dataset.columns() == ["a", "b"]
        assert dataset.take_all() == [{"a": 1.0, "b": None}, {"a": 2.5, "b": "x"}]
        assert dataset.select_columns(["b"]).take_all() == [{"b": None}, {"b": "x"}]

    def test_a_schema_may_be_given(self, tmp_path):
        pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
        wanted = pa.schema([("a", pa.float32()), ("b", pa.string())])
        dataset = skate.data.read_parquet(str(tmp_path), schema=wanted)
        assert dataset.schema().types == [pa.float32(), pa.string()]
        assert dataset.take_all() == [{"a": 1.0, "b": None}]

    def test_sizes_of_files_and_options_of_the_writer(self, tmp_path):
        skate.data.range(10, override_num_blocks=1).write_parquet(
            str(tmp_path),
            max_rows_per_file=4,
            arrow_parquet_args_fn=lambda: {"compression": "gzip"},
        )
        files = sorted(tmp_path.iterdir())
        assert [pq.read_metadata(file).num_rows for file in files] == [4, 4, 2]
        assert pq.read_metadata(files[0]).row_group(0).column(0).compression == "GZIP"

    def test_a_random_order_of_files(self, tmp_path):
        for number in range(8):
            pq.write_table(pa.table({"a": [number]}), tmp_path / f"{number}.parquet")

        def orders(**options):
            config = skate.data.FileShuffleConfig(seed=5, **options)
            dataset = skate.data.read_parquet(str(tmp_path), shuffle=config)
            return [[row["a"] for row in dataset.take_all()] for _ in range(2)]

        first, second = orders()
        assert sorted(first) == list(range(8))
        assert first != second
        assert orders() == [first, second]
        fixed = orders(reseed_after_execution=False)
        assert fixed[0] == fixed[1]


def test_folders_of_keys_and_values_become_columns(tmp_path):
    (tmp_path / "k=1").mkdir()
    (tmp_path / "k=1" / "a.csv").write_text("a\n1\n")
    assert skate.data.read_csv(str(tmp_path)).take_all() == [{"a": 1, "k": "1"}]
    assert skate.data.read_csv(str(tmp_path), partitioning=None).take_all() == [{"a": 1}]
