"""What programs rely on that were written for Ray."""

import gzip
import io
import json
import tarfile

import pandas as pd
import pyarrow as pa
import pytest

import skate.data
from skate.data import aggregate
from skate.data.block import BlockAccessor
from skate.data.datasource import FileBasedDatasource, FilenameProvider, Partitioning
from skate.data.exceptions import UserCodeException
from skate.data.expressions import col
from skate.exceptions import TaskError

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]

NAN = float("nan")


class TestRows:
    def test_plain_values_under_item(self):
        numbers = skate.data.from_items([1, 2])
        assert numbers.take() == [1, 2]
        numbers.context.plain_rows = False
        assert numbers.take() == list(numbers.iter_rows()) == [{"item": 1}, {"item": 2}]

    def test_that_is_how_it_is_where_ray_is_imported(self, monkeypatch):
        numbers = skate.data.from_items([1])
        monkeypatch.setenv("SKATE_AS_RAY", "1")
        assert numbers.take() == [{"item": 1}]
        monkeypatch.delenv("SKATE_AS_RAY")
        assert numbers.take() == [1]

    def test_an_error_of_user_code(self):
        def fail(row):
            raise KeyError("mine")

        with pytest.raises(UserCodeException) as caught:
            skate.data.range(1).map(fail).take()
        assert isinstance(caught.value, TaskError)
        assert isinstance(caught.value, KeyError)

    def test_no_batch_of_nothing(self):
        with pytest.raises(ValueError, match="empty"):
            skate.data.range(0).take_batch()

    def test_names_with_dots(self):
        ds = skate.data.from_items([{"sepal.length": 4.8}, {"sepal.length": 5.1}])
        assert ds.filter(expr="sepal.length > 5.0").count() == 1

    def test_a_function_that_is_none(self):
        with pytest.raises(ValueError, match="function"):
            skate.data.range(1).filter(fn="id > 0")

    def test_options_by_a_function(self):
        ds = skate.data.range(2).map(lambda row: row, ray_remote_args_fn=lambda: {"num_cpus": 0.5})
        assert ds.count() == 2
        with pytest.raises(ValueError, match="num_cups"):
            skate.data.range(2).map(lambda row: row, ray_remote_args_fn=lambda: {"num_cups": 1})

    def test_a_promise_to_keep_the_number_of_rows(self):
        seen = []

        def look(batch):
            seen.extend(batch["id"].tolist())
            return batch

        ds = skate.data.range(100).map_batches(look, udf_modifying_row_count=False)
        assert ds.limit(3).count() == 3
        assert seen == [0, 1, 2]


class TestParts:
    def test_small_frames_are_one_block(self):
        assert skate.data.from_pandas(pd.DataFrame({"a": [1, 2, 3]})).num_blocks() == 1
        large = pd.DataFrame({"a": [0.0] * 1_000_000})
        assert skate.data.from_pandas(large).num_blocks() > 1
        two = skate.data.from_arrow(pa.table({"a": [1, 2, 3]}), override_num_blocks=2)
        assert two.num_blocks() == 2

    def test_the_schema_of_a_union(self):
        ds = skate.data.from_items([{"a": 1}]).union(skate.data.from_items([{"a": 1.5, "b": "x"}]))
        assert repr(ds.schema()).split("\n")[2:] == ["a       double", "b       string"]

    def test_no_share_is_empty(self):
        parts = skate.data.range(10).split_proportionately([0.98, 0.01])
        assert [part.count() for part in parts] == [8, 1, 1]
        with pytest.raises(ValueError, match="too few"):
            skate.data.range(2).split_proportionately([0.1, 0.1, 0.1])

    def test_keys_of_two_types(self):
        whole = skate.data.range(3)
        real = whole.map(lambda row: {"id": float(row["id"])})
        with pytest.raises(ValueError, match=r"int64.*double"):
            whole.join(real, "inner", 1, on=("id",), validate_schemas=True)

    def test_a_column_by_group(self):
        ds = skate.data.from_items([{"g": 1, "v": 1}, {"g": 2, "v": 3}])
        found = ds.groupby("g").with_column("twice", col("v") * 2).sort("g").take_all()
        assert found == [{"g": 1, "v": 1, "twice": 2}, {"g": 2, "v": 3, "twice": 6}]

    def test_groups_that_can_be_changed(self):
        def add(group):
            group["v"] += 1
            return group

        ds = skate.data.from_items([{"g": 1, "v": 1}])
        assert ds.groupby("g").map_groups(add, zero_copy_batch=False).take_all() == [
            {"g": 1, "v": 2}
        ]


class TestNumbers:
    @pytest.mark.parametrize("kind", ["Sum", "Mean", "Std"])
    def test_nan_is_missing_unless_nulls_count(self, kind):
        ds = skate.data.from_arrow(pa.table({"k": [1, 1, 1], "a": [1.0, NAN, 3.0]}))
        function = getattr(aggregate, kind)
        for ignore, expected in ((True, None), (False, NAN)):
            one = function("a", ignore_nulls=ignore, alias_name="x")
            (row,) = ds.groupby("k").aggregate(one).take_all()
            assert row["x"] == pytest.approx(expected, nan_ok=True)
            assert ds.aggregate(one)["x"] == pytest.approx(expected, nan_ok=True)

    @pytest.mark.parametrize(("kind", "expected"), [("Min", 1.0), ("Max", 3.0), ("AbsMax", 3.0)])
    def test_nan_is_no_extreme(self, kind, expected):
        tables = [pa.table({"a": [NAN]}), pa.table({"a": [1.0, 3.0]}), pa.table({"a": [NAN]})]
        ds = skate.data.from_arrow(tables)
        assert ds.aggregate(getattr(aggregate, kind)("a", alias_name="x")) == {"x": expected}

    def test_quantiles_leave_nan_out(self):
        ds = skate.data.from_arrow(pa.table({"a": [1.0, NAN, 3.0]}))
        assert ds.aggregate(aggregate.Quantile("a")) == {"quantile(a)": 2.0}

    def test_zeros_are_counted_together(self):
        ds = skate.data.from_arrow(pa.table({"a": [0.0, -0.0]}))
        found = ds.aggregate(aggregate.ValueCounter("a"))["value_counter(a)"]
        assert found == {"values": [0.0], "counts": [2]}

    def test_blocks_have_numbers_for_aggregations_of_ones_own(self):
        block = BlockAccessor.for_block(pa.table({"a": [1, None, 3]}))
        assert (block.sum("a", True), block.min("a", True), block.max("a", True)) == (4, 1, 3)
        assert (block.mean("a", True), block.mean("a", False)) == (2, None)
        assert (block.count("a"), block.count("a", ignore_nulls=True)) == (3, 2)


class Whole(FileBasedDatasource):
    def _read_stream(self, f, path):
        yield {"data": [f.readall()]}


class TestFiles:
    def test_compression_by_argument(self, tmp_path):
        (tmp_path / "rows").write_bytes(gzip.compress(b"a\n1\n"))
        given = {"compression": "gzip"}
        ds = skate.data.read_csv(tmp_path / "rows", arrow_open_stream_args=given)
        assert ds.take_all() == [{"a": 1}]
        bytes_ = skate.data.read_binary_files(tmp_path / "rows", arrow_open_stream_args=given)
        assert bytes_.take_all() == [{"bytes": b"a\n1\n"}]

    def test_lines_that_are_lists(self, tmp_path):
        (tmp_path / "x.jsonl").write_text('["a", "b"]\n["c"]\n')
        found = skate.data.read_json(tmp_path / "x.jsonl", lines=True).take_all()
        assert found == [{"0": "a", "1": "b"}, {"0": "c", "1": None}]

    def test_files_read_by_ones_own_code(self, tmp_path):
        for country in ("jp", "us"):
            folder = tmp_path / f"country={country}"
            folder.mkdir()
            (folder / "f.txt").write_bytes(country.encode())
        source = Whole(str(tmp_path), partitioning=Partitioning("hive"), include_paths=True)
        ds = skate.data.read_datasource(source)
        assert ds.select_columns(["data", "country"]).take_all() == [
            {"data": b"jp", "country": "jp"},
            {"data": b"us", "country": "us"},
        ]
        assert [row["path"] for row in ds.take_all()] == ds.input_files()
        with pytest.raises(TypeError, match="unknown arguments"):
            Whole(str(tmp_path), include_path=True)

    def test_names_by_block_and_by_row(self, tmp_path):
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


@pytest.fixture
def archive(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as file:
        for name in ("0.txt", "0.test.txt", "0.cls", "0.json"):
            data = json.dumps({"a": 1}).encode() if name.endswith("json") else b"7"
            member = tarfile.TarInfo(name)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))
    return tmp_path


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
