"""Files: only what is wanted is read, bad ones are named or left out, tasks travel light."""

import json

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import skate
import skate.data
from skate.data import DataContext
from skate.data._io import paths
from skate.data.datasource import Partitioning, PathPartitionFilter
from skate.data.expressions import col
from skate.data.sources.parquet import ParquetSource

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]


@pytest.fixture
def small_blocks():
    """Blocks of a few thousand bytes, so that small files are large ones."""
    context = DataContext.get_current().copy()
    context.target_max_block_size = 2000
    with DataContext.current(context):
        yield


@pytest.fixture
def opened(monkeypatch):
    """The files that are opened."""
    found = []

    class Watched(pa.fs.FSSpecHandler):
        def open_input_file(self, path):
            found.append(path)
            return super().open_input_file(path)

    import fsspec

    files = pa.fs.PyFileSystem(Watched(fsspec.filesystem("file")))
    monkeypatch.setattr(paths, "resolve", lambda path, filesystem=None: (files, str(path)))
    return found


def notes(caught):
    return "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])


def write_numbers(folder, files=4, rows=10):
    for n in range(files):
        table = pa.table({"a": range(n * rows, n * rows + rows), "b": ["x"] * rows})
        pq.write_table(table, folder / f"{n}.parquet", row_group_size=5)


class TestPushDown:
    def test_a_filter_reads_no_other_columns_and_row_groups(self, tmp_path, monkeypatch):
        write_numbers(tmp_path)
        dataset = skate.data.read_parquet(tmp_path).filter(expr=col("a") >= 38)
        read = []
        completed = ParquetSource.completed

        def watch(self, block, file):
            read.append((block.num_rows, block.column_names))
            return completed(self, block, file)

        monkeypatch.setattr(ParquetSource, "completed", watch)
        assert dataset.select_columns("b").take_all() == [{"b": "x"}] * 2
        assert [entry for entry in read if entry[0]] == [(2, ["b"])]

    def test_a_filter_of_pyarrow_on_what_is_not_wanted(self, tmp_path):
        write_numbers(tmp_path)
        wanted = pyarrow.dataset.field("a") >= 38
        (all_columns,) = {len(row) for row in skate.data.read_parquet(tmp_path).take_all()}
        found = skate.data.read_parquet(tmp_path, columns=["b"], filter=wanted)
        assert found.columns() == ["b"]
        assert (
            found.count() == skate.data.read_parquet(tmp_path).filter(expr=col("a") >= 38).count()
        )
        assert len(skate.data.read_parquet(tmp_path, filter=wanted).columns()) == all_columns
        changed = skate.data.read_parquet(
            tmp_path, columns=["b"], filter=wanted, include_row_hash=True,
            _block_udf=lambda table: table.rename_columns([n.upper() for n in table.column_names]),
        )  # fmt: skip
        assert changed.columns() == ["B", "ROW_HASH"]

    def test_a_filter_on_what_was_not_selected(self, tmp_path):
        write_numbers(tmp_path)
        for dataset in (
            skate.data.read_parquet(tmp_path),
            skate.data.read_csv("example://iris.csv"),
        ):
            name, other = dataset.columns()[:2]
            with pytest.raises(KeyError, match=f"there is no column {other!r}"):
                dataset.select_columns([name]).filter(expr=col(other) > 5).take_all()
            with pytest.raises(KeyError, match="there is no column 'zz'"):
                dataset.filter(expr=col("zz") > 5).take_all()

    def test_files_that_differ(self, tmp_path):
        pq.write_table(pa.table({"a": [1, 2], "d": pa.array(["x", "y"]).dictionary_encode()}),
                       tmp_path / "1.parquet")  # fmt: skip
        pq.write_table(pa.table({"a": [2.5, 3.5], "c": [1, 2]}), tmp_path / "2.parquet")
        found = skate.data.read_parquet(tmp_path).filter(expr=col("a") >= 2).take_all()
        assert found == [
            {"a": 2.0, "d": "y", "c": None},
            {"a": 2.5, "d": None, "c": 1},
            {"a": 3.5, "d": None, "c": 2},
        ]

    def test_tensors_pass_a_filter(self, tmp_path):
        rows = [{"n": n, "t": np.full((2, 2), n), "r": np.ones(n + 1)} for n in range(3)]
        skate.data.from_items(rows).write_parquet(tmp_path)
        (row,) = skate.data.read_parquet(tmp_path).filter(expr=col("n") == 2).take_all()
        assert row["t"].tolist() == [[2, 2], [2, 2]]
        assert row["r"].tolist() == [1, 1, 1]

    def test_a_random_order_of_files_lasts_over_push_downs(self, tmp_path):
        write_numbers(tmp_path, files=8, rows=1)
        config = skate.data.FileShuffleConfig(seed=5)
        dataset = skate.data.read_parquet(tmp_path, shuffle=config).select_columns(["a"])
        first, second = ([row["a"] for row in dataset.take_all()] for _ in range(2))
        assert sorted(first) == sorted(second)
        assert first != second


class TestOpenedFiles:
    def test_footers_are_read_once(self, tmp_path, opened):
        write_numbers(tmp_path)
        dataset = skate.data.read_parquet(tmp_path)
        assert dataset.count() == 40
        assert len(opened) == 4
        dataset.select_columns(["a"]).schema()
        dataset.filter(expr=col("a") > 100).schema()
        assert len(opened) == 4

    def test_text_about_a_dataset_counts_no_rows(self, tmp_path, opened):
        write_numbers(tmp_path, files=3)
        dataset = skate.data.read_parquet(tmp_path)
        dataset._plan.source._footers.of([str(tmp_path / "0.parquet")])
        assert dataset._plan.source.known_count() is None
        assert dataset.count() == 30
        assert "num_rows=30" in repr(dataset)

    def test_a_pattern_looks_only_where_it_can_match(self, tmp_path):
        for name in ("a/x.csv", "b/x.csv", "b/deep/er/x.csv"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text("v\n1\n")
        looked = []

        class Files(pa.fs.FSSpecHandler):
            def get_file_info_selector(self, selector):
                looked.append((selector.base_dir, selector.recursive))
                return super().get_file_info_selector(selector)

        import fsspec

        files = pa.fs.PyFileSystem(Files(fsspec.filesystem("file")))
        found = paths.find(f"{tmp_path}/*/x.csv", files).files
        assert [file.path for file in found] == [f"{tmp_path}/a/x.csv", f"{tmp_path}/b/x.csv"]
        assert {place for place, _ in looked} == {str(tmp_path), f"{tmp_path}/a", f"{tmp_path}/b"}
        assert not any(recursive for _, recursive in looked)
        assert len(paths.find(f"{tmp_path}/**/x.csv", files).files) == 3


class TestLargeFiles:
    @pytest.fixture
    def folder(self, tmp_path, small_blocks):
        for n in range(3):
            table = pa.table({"a": range(n * 1000, n * 1000 + 1000)})
            pq.write_table(table, tmp_path / f"{n}.parquet", row_group_size=100)
        return tmp_path

    def tasks(self, folder, parallelism=None, **options):
        return skate.data.read_parquet(folder, **options)._plan.source.read_tasks(parallelism)

    def test_they_keep_to_the_wanted_number_of_blocks(self, folder):
        assert len(self.tasks(folder)) > 6
        assert len(self.tasks(folder, 6)) == 6
        assert skate.data.read_parquet(folder, override_num_blocks=6).sum("a") == sum(range(3000))

    def test_their_order_is_random_if_wanted(self, folder):
        config = skate.data.FileShuffleConfig(seed=3, reseed_after_execution=False)
        rows = [row["a"] for row in skate.data.read_parquet(folder, shuffle=config).take_all()]
        assert rows != sorted(rows)
        assert sorted(rows) == list(range(3000))

    def test_a_large_row_group_is_read_piece_by_piece(self, tmp_path, small_blocks):
        rows = 200_000
        pq.write_table(pa.table({"a": range(rows)}), tmp_path / "x.parquet", row_group_size=rows)
        for dataset in (
            skate.data.read_parquet(tmp_path),
            skate.data.read_parquet(tmp_path).filter(expr=col("a") >= 0),
        ):
            (task,) = skate.data._plan.optimizer.optimise(dataset._plan).source.read_tasks(None)
            sizes = [block.num_rows for block in task.read()]
            assert len(sizes) > 1
            assert sum(sizes) == rows


class TestBadFiles:
    GOOD = pa.table({"a": [1, 2]})

    def write(self, kind, path):
        if kind == "parquet":
            pq.write_table(self.GOOD, path)
        elif kind == "orc":
            pa.orc.write_table(self.GOOD, path)
        elif kind == "csv":
            pa.csv.write_csv(self.GOOD, path)
        elif kind == "json":
            path.write_text('{"a": 1}\n{"a": 2}\n')
        elif kind == "numpy":
            np.save(path, np.array([1, 2]))
        else:
            folder = path.parent / "out"
            dataset = skate.data.from_items([{"a": 1}, {"a": 2}], override_num_blocks=1)
            getattr(dataset, f"write_{kind}")(folder)
            next(folder.iterdir()).rename(path)
            folder.rmdir()

    @pytest.mark.parametrize(
        ("kind", "junk"),
        [
            ("parquet", b"PAR1 but no more"), ("orc", b"junk"), ("json", b'{"a": 1}\n{"a":'),
            ("csv", b"a,b\n1\n"), ("numpy", b"junk"), ("tfrecords", b"junk that is long enough"),
            ("webdataset", b"junk"),
        ],
    )  # fmt: skip
    def test_are_named_or_left_out(self, kind, junk, tmp_path):
        ending = {"numpy": "npy"}.get(kind, kind)
        self.write(kind, tmp_path / f"good.{ending}")
        (tmp_path / f"bad.{ending}").write_bytes(junk)
        read = getattr(skate.data, f"read_{kind}")
        with pytest.raises(Exception, match=r"\w") as caught:
            read(tmp_path).take_all()
        assert f"bad.{ending}" in notes(caught)
        assert len(read(tmp_path, on_bad_files="skip").take_all()) == 2
        with pytest.warns(UserWarning, match=rf"bad\.{ending} is left out"):
            read(tmp_path, on_bad_files="warn").take_all()

    def test_large_parquet_files(self, tmp_path, small_blocks):
        pq.write_table(pa.table({"a": range(3000)}), tmp_path / "a.parquet", row_group_size=100)
        (tmp_path / "b.parquet").write_bytes(b"PAR1" + b"x" * 30_000)
        with pytest.raises(pa.ArrowInvalid) as caught:
            skate.data.read_parquet(tmp_path).take_all()
        assert "b.parquet" in notes(caught)
        assert len(skate.data.read_parquet(tmp_path, on_bad_files="skip").take_all()) == 3000

    def test_a_broken_line_of_json_is_named(self, tmp_path):
        lines = [json.dumps({"a": n}) for n in range(100)]
        lines[56] = '{"a": 1} }'
        (tmp_path / "x.jsonl").write_text("\n".join(lines))
        for options in ({}, {"lines": True}):
            with pytest.raises(ValueError, match=r"line 57 .*'\{\"a\": 1\} \}'"):
                skate.data.read_json(tmp_path / "x.jsonl", **options).take_all()


def test_a_column_of_csv_may_change_its_type_late(tmp_path):
    values = [*["1"] * 600_000, "1.5", "x"]
    (tmp_path / "numbers.csv").write_text("\n".join(["v", *values[:-1]]))
    (tmp_path / "words.csv").write_text("\n".join(["v", *values]))
    assert skate.data.read_csv(tmp_path / "numbers.csv").sum("v") == 600_001.5
    assert skate.data.read_csv(tmp_path / "words.csv").schema().types == [pa.string()]


class TestTasks:
    def test_know_only_their_own_files(self, tmp_path):
        write_numbers(tmp_path, files=64, rows=1)
        paths = [str(path) for path in sorted(tmp_path.iterdir())]
        for source in (skate.data.read_parquet(paths), skate.data.read_binary_files(paths)):
            tasks = source._plan.source.read_tasks(64)
            assert len(tasks) == 64
            texts = [cloudpickle.dumps(task) for task in tasks]
            assert all(text.count(str(tmp_path).encode()) <= 4 for text in texts)


class TestPlaces:
    def test_each_path_has_its_own_partitions(self, tmp_path):
        for name in ("one/2020/x.csv", "two/2021/x.csv"):
            (tmp_path / name).parent.mkdir(parents=True)
            (tmp_path / name).write_text("v\n1\n")
        by_year = Partitioning("dir", field_names=["year"])
        later = PathPartitionFilter(by_year, lambda values: values["year"] > "2020")
        found = skate.data.read_csv(
            [tmp_path / "one", tmp_path / "two"], partitioning=by_year, partition_filter=later
        )
        assert found.take_all() == [{"v": 1, "year": "2021"}]

    def test_one_file_system_at_a_time(self, tmp_path):
        import fsspec

        (tmp_path / "x.csv").write_text("v\n1\n")
        with fsspec.filesystem("memory").open("/x.csv", "w") as file:
            file.write("v\n1\n")
        with pytest.raises(ValueError, match=r"memory://x\.csv.*union"):
            skate.data.read_csv([str(tmp_path / "x.csv"), "memory://x.csv"])


class TestConsuming:
    def test_a_limit_of_rows_runs_the_plan_once(self):
        seen = []
        dataset = skate.data.range(10).map(lambda row: seen.append(row["id"]) or row)
        assert len(dataset.to_pandas(limit=10)) == 10
        assert len(seen) == 10
        with pytest.raises(ValueError, match="limit, 3"):
            dataset.to_pandas(limit=3)

    def test_references_to_arrays(self):
        refs = skate.data.range(10, override_num_blocks=2).to_numpy_refs(column="id")
        assert [skate.get(ref).tolist() for ref in refs] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
