"""What Ray's own users rely on: retries, seeds, types of errors and of results."""

import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skate.data
from skate.data import ActorPoolStrategy, DataContext
from skate.data.exceptions import UserCodeException
from skate.data.expressions import col, lit, udf

pytestmark = [pytest.mark.engines("local"), pytest.mark.usefixtures("engine")]


@pytest.fixture
def context():
    changed = DataContext.get_current().copy()
    with DataContext.current(changed):
        yield changed


class FailsTwice:
    def __init__(self):
        self.calls = 0

    def __call__(self, batch):
        self.calls += 1
        if self.calls <= 2:
            raise ValueError("not yet")
        return batch


class FailsTwiceAsync(FailsTwice):
    async def __call__(self, batch):
        return super().__call__(batch)


class TestRetries:
    @pytest.mark.parametrize("cls", [FailsTwice, FailsTwiceAsync])
    def test_a_class_is_called_again(self, context, cls):
        context.actor_task_retry_on_errors = [ValueError]
        dataset = skate.data.range(2).map_batches(cls, concurrency=1)
        assert dataset.count() == 2

    def test_other_errors_are_raised(self, context):
        context.actor_task_retry_on_errors = [KeyError]
        with pytest.raises(ValueError, match="not yet"):
            skate.data.range(2).map_batches(FailsTwice, concurrency=1).materialize()

    @pytest.mark.parametrize(("limit", "words"), [(2, ["not"]), (2, True), (2, ["n.t yet"])])
    def test_a_function_by_the_words_of_its_error(self, context, limit, words):
        context.retried_map_errors, context.max_map_retries = words, limit
        assert skate.data.range(2).map_batches(FailsTwice, concurrency=1).count() == 2

    def test_words_that_are_no_regular_expression(self, context):
        context.retried_map_errors, context.max_map_retries = ["yet)", "(", "*not"], 2
        with pytest.raises(ValueError, match="not yet"):
            skate.data.range(2).map_batches(FailsTwice, concurrency=1).materialize()

    def test_not_more_often_than_allowed(self, context):
        context.retried_map_errors, context.max_map_retries = True, 1
        with pytest.raises(ValueError, match="not yet"):
            skate.data.range(2).map_batches(FailsTwice, concurrency=1).materialize()

    def test_constructors(self, context, tmp_path):
        marks = tmp_path / "marks"

        class Flaky:
            def __init__(self):
                with marks.open("a") as file:
                    file.write("x")
                if marks.stat().st_size < 3:
                    raise OSError("no model yet")

            def __call__(self, batch):
                return batch

        with pytest.raises(OSError, match="no model"):
            skate.data.range(1).map_batches(Flaky, concurrency=1).materialize()
        marks.write_text("")
        context.actor_init_retry_on_errors = True
        assert skate.data.range(1).map_batches(Flaky, concurrency=1).count() == 1


class TestActors:
    def test_calls_do_not_overlap_in_a_model(self):
        class WhichThread:
            def __call__(self, batch):
                assert threading.current_thread() is not threading.main_thread()
                return {"thread": np.array([threading.get_ident()])}

        rows = skate.data.range(8, override_num_blocks=8).map_batches(
            WhichThread, concurrency=1, max_concurrency=2
        )
        assert len({row["thread"] for row in rows.take_all()}) == 1

    def test_the_same_size_may_be_given_twice(self):
        pool = ActorPoolStrategy(size=1)
        dataset = skate.data.range(3).map_batches(FailsNever, compute=pool, concurrency=1)
        assert dataset.count() == 3
        with pytest.raises(ValueError, match="contradict"):
            skate.data.range(3).map_batches(FailsNever, compute=pool, concurrency=2)

    def test_a_buffer_of_ones_own(self):
        dataset = skate.data.range(4, override_num_blocks=2).map(
            lambda row: row, ray_remote_args_fn=lambda: {"_generator_backpressure_num_objects": 2}
        )
        assert dataset.count() == 4


class FailsNever:
    def __call__(self, batch):
        return batch


class TestErrors:
    def test_they_are_those_of_a_task_wherever_they_happen(self):
        dataset = skate.data.range(3)
        with pytest.raises(UserCodeException) as caught:
            dataset.with_column("y", col("x") + 1).materialize()
        assert isinstance(caught.value, KeyError)
        with pytest.raises(UserCodeException, match="cannot compute"):
            dataset.with_column("y", col("id") + "x").materialize()
        with pytest.raises(UserCodeException, match="no column 'x'"):
            dataset.sort("x").materialize()

    def test_what_a_function_of_columns_may_return(self):
        @udf()
        def one(column):
            return {"a": 1}

        with pytest.raises(UserCodeException, match=r"one returned invalid type dict.*numpy"):
            skate.data.range(3).with_column("y", one(col("id"))).materialize()

    @pytest.mark.parametrize(
        ("names", "error"),
        [(42, TypeError), ([], ValueError), (["a", 1], ValueError), (["a", "a"], ValueError)],
    )
    def test_names_of_columns(self, names, error):
        with pytest.raises(error, match="rename_columns"):
            skate.data.range(1).rename_columns(names)

    def test_as_many_names_as_columns(self):
        with pytest.raises(ValueError, match="2 names for the 1 columns"):
            skate.data.range(1).rename_columns(["a", "b"])

    def test_columns_are_named(self):
        with pytest.raises(TypeError, match="select_columns requires names"):
            skate.data.range(1).select_columns(None)
        with pytest.raises(ValueError, match="drop_columns expects unique"):
            skate.data.range(1).drop_columns(["id", "id"])
        with pytest.raises(ValueError, match="given by a string; got 5"):
            skate.data.range(1).mean(5)

    def test_no_length(self):
        for kind in (TypeError, AttributeError):
            with pytest.raises(kind, match="count"):
                len(skate.data.range(1))


class TestSeeds:
    def test_the_rows_that_numpy_chooses(self):
        dataset = skate.data.range(50, override_num_blocks=5).random_sample(0.3, seed=7)
        drawn = [np.random.default_rng([block, 7]).random(10) < 0.3 for block in range(5)]
        expected = np.flatnonzero(np.concatenate(drawn)).tolist()
        assert [row["id"] for row in dataset.take_all()] == expected

    def test_nothing_to_choose_from(self):
        with pytest.raises(ValueError, match="empty"):
            skate.data.range(0).random_sample(0.5)


class TestValues:
    def test_texts_are_joined(self):
        table = pa.table({"a": ["x", None], "b": pa.array(["y", "z"]).dictionary_encode()})
        dataset = skate.data.from_arrow(table).with_columns(
            {"c": col("a") + col("b"), "d": lit("<") + col("b") + ">"}
        )
        rows = dataset.select_columns(["c", "d"]).take_all()
        assert rows == [{"c": "xy", "d": "<y>"}, {"c": None, "d": "<z>"}]

    def test_whole_numbers_stay_whole(self):
        dataset = skate.data.range(4).with_column("half", col("id") / 2)
        assert [row["half"] for row in dataset.take_all()] == [0, 0, 1, 1]
        exact = skate.data.range(2).with_column("half", col("id") / 2.0)
        assert exact.take_all()[1]["half"] == 0.5

    def test_nanoseconds(self):
        when = pd.Timestamp("2024-01-01 00:00:00.123456789")
        dataset = skate.data.from_pandas(pd.DataFrame({"t": [when]}))
        later = dataset.map(lambda row: {"t": row["t"] + pd.Timedelta(1, "ns")})
        assert later.take_all()[0]["t"] == when + pd.Timedelta(1, "ns")
        spans = skate.data.from_items([{"d": pd.Timedelta(1, "ns")}])
        assert spans.take_all()[0]["d"] == pd.Timedelta(1, "ns")

    def test_columns_without_any_value(self):
        rows = [{"key": n % 2, "x": None} for n in range(4)]
        grouped = skate.data.from_items(rows).groupby("key")
        for found in (grouped.sum("x"), grouped.mean("x"), grouped.std("x"), grouped.min("x")):
            assert [row.popitem()[1] for row in found.take_all()] == [None, None]

    def test_lists_among_features(self):
        frame = pd.DataFrame({"a": [[1, 2], [3, 4]], "y": [0, 1]})
        dataset = skate.data.from_pandas(frame).to_torch(label_column="y", batch_size=2)
        features, label = next(iter(dataset))
        assert features.shape == (2, 1, 2)
        assert label.shape == (2, 1)

    def test_the_default_collate_function(self):
        import torch

        from skate.data.collate_fn import DefaultCollateFn

        collate = DefaultCollateFn(dtypes={"id": torch.float32}, num_workers=0)
        (batch,) = skate.data.range(2).iter_torch_batches(collate_fn=collate)
        assert batch["id"].dtype == torch.float32


class TestPlans:
    def test_numbers_of_blocks(self):
        dataset = skate.data.range(20, override_num_blocks=10)
        assert dataset._plan.initial_num_blocks() == 10
        assert dataset._block_num_rows() == [2] * 10
        assert dataset.repartition(4)._logical_plan.initial_num_blocks() == 4
        assert dataset.random_shuffle().map(lambda row: row)._plan.initial_num_blocks() == 10
        assert skate.data.range(0)._plan.initial_num_blocks() == 0

    def test_executed(self):
        bundle = skate.data.range(6, override_num_blocks=3)._plan.execute()
        assert bundle.num_rows() == 6
        for ref, known in bundle.blocks:
            assert skate.get(ref).nbytes == known.size_bytes


class TestFiles:
    def test_a_single_file_in_several_blocks(self, tmp_path):
        skate.data.range(10, override_num_blocks=1).write_parquet(tmp_path)
        dataset = skate.data.read_parquet(tmp_path, override_num_blocks=3)
        assert dataset._block_num_rows() == [3, 3, 4]
        assert dataset._plan.initial_num_blocks() == 3
        sizes = dataset.map_batches(lambda batch: {"n": [len(batch["id"])]}, batch_size=None)
        assert [row["n"] for row in sizes.take_all()] == [3, 3, 4]

    def test_blocks_of_a_byte(self, context):
        context.target_max_block_size = 1
        assert skate.data.range(3).map(lambda row: row).materialize().num_blocks() == 3

    @pytest.mark.parametrize("mode", ["ignore", "error"])
    def test_a_folder_is_there_already(self, tmp_path, mode):
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

    def test_no_rows_no_folder(self, tmp_path):
        skate.data.from_items([]).write_parquet(tmp_path / "new")
        assert not (tmp_path / "new").exists()

    def test_names_that_would_lose_rows(self, tmp_path):
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

    def test_types_and_rows_of_files(self, tmp_path):
        import pyarrow.parquet as pq

        schema = pa.schema({"id": pa.float32()})
        skate.data.range(1).write_parquet(tmp_path / "a", schema=schema)
        assert pq.read_table(tmp_path / "a").schema == schema
        with pytest.raises(ValueError, match="max_rows_per_file must be a positive integer"):
            skate.data.range(1).write_parquet(tmp_path, max_rows_per_file=0)
        with pytest.raises(ValueError, match=r"\(3\) cannot be greater than max_rows_per_file"):
            skate.data.range(1).write_csv(tmp_path, min_rows_per_file=3, max_rows_per_file=2)

    @pytest.mark.parametrize(("flavor", "path"), [(None, "1/*"), ("filename", "1_*")])
    def test_values_in_paths(self, tmp_path, flavor, path):
        dataset = skate.data.from_items([{"k": 1, "v": 2}, {"k": 3, "v": 4}])
        dataset.write_parquet(tmp_path, partition_cols=["k"], partitioning_flavor=flavor)
        (file,) = tmp_path.glob(path)
        assert skate.data.read_parquet(file, partitioning=None).take_all() == [{"v": 2}]
        with pytest.raises(ValueError, match="got 'tree'"):
            dataset.write_parquet(tmp_path, partition_cols=["k"], partitioning_flavor="tree")


class TestSettings:
    def seen(self, dataset):
        return {row["seen"] for row in dataset.take_all()}

    def test_functions_see_those_of_the_program(self, context):
        def look(row):
            return {"seen": DataContext.get_current().get_config("mine")}

        context.set_config("mine", 1)
        dataset = skate.data.range(2).map(look)
        context.set_config("mine", 2)
        assert self.seen(dataset) == {1}
        assert self.seen(skate.data.range(2).map(look)) == {2}
        assert DataContext.get_current() is context


class TestPartitions:
    def test_values_in_file_and_path(self, tmp_path):
        folder = tmp_path / "month=01"
        folder.mkdir()
        (folder / "a.csv").write_text("month,x\n1,5\n,6\n")
        assert skate.data.read_csv(tmp_path).take_all() == [
            {"month": 1, "x": 5},
            {"month": 1, "x": 6},
        ]
        (folder / "a.csv").write_text("month,x\n2,5\n")
        with pytest.raises(ValueError, match=r"'month' of .* which says '01'"):
            skate.data.read_csv(tmp_path).materialize()
        assert skate.data.read_csv(tmp_path, partitioning=None).take(1) == [{"month": 2, "x": 5}]

    def test_folders_without_a_name(self, tmp_path):
        from skate.data.datasource import Partitioning

        (tmp_path / "1970" / "data").mkdir(parents=True)
        (tmp_path / "1970" / "data" / "a.csv").write_text("x\n5\n")
        style = Partitioning("dir", field_names=["year", None], base_dir=str(tmp_path))
        found = skate.data.read_csv(tmp_path, partitioning=style)
        assert found.take_all() == [{"x": 5, "year": "1970"}]


class TestSources:
    def test_what_is_set_after_the_constructor_of_the_base(self, tmp_path):
        from skate.data.datasource import FileBasedDatasource

        class Repeated(FileBasedDatasource):
            def __init__(self, paths, times):
                super().__init__(paths)
                self.times = times

            def _read_file(self, f, path):
                return {"text": [f.readall().decode()] * self.times}

        (tmp_path / "a.txt").write_text("hello")
        dataset = skate.data.read_datasource(Repeated(str(tmp_path / "a.txt"), 2), num_cpus=0.5)
        assert dataset.take_all() == [{"text": "hello"}] * 2


def test_arguments_that_do_not_fit_are_named_at_once():
    ds = skate.data.from_items([{"a": 1, "b": 2}])
    with pytest.raises(TypeError, match=r"rename_columns.*got 'a'"):
        ds.rename_columns("a")
    with pytest.raises(ValueError, match="takes no arguments"):
        ds.filter(expr="a > 0", fn_args=[1])
    with pytest.raises(ValueError, match="sort takes a column"):
        ds.sort(lambda row: row["a"])
    with pytest.raises(TypeError, match="`name` must be a string; got 1"):
        skate.data.aggregate.AggregateFn(
            init=lambda key: 0, accumulate_row=lambda a, r: a, merge=lambda a, b: a, name=1
        )


def test_distinct_lists_are_lists():
    ds = skate.data.from_items([{"a": [[1], [2]]}, {"a": [[1], [2]]}, {"a": [[3]]}])
    assert sorted(ds.unique("a")) == [[[1], [2]], [[3]]]


def test_a_batch_for_a_gpu_needs_a_size():
    ds = skate.data.range(2)
    with pytest.raises(ValueError, match="needs a `batch_size`"):
        ds.map_batches(lambda batch: batch, num_gpus=1)
    ds.map_batches(lambda batch: batch, num_gpus=1, batch_size=1)
    ds.add_column("x", lambda frame: 1, num_gpus=1)
    assert ds.map_batches(lambda batch: batch, num_gpus=0).count() == 2


def test_the_type_of_python_objects_is_object():
    schema = skate.data.from_items([{"x": 2, "y": object(), "z": [1]}]).schema()
    assert schema.types == [pa.int64(), object, pa.list_(pa.int64())]
    assert "y: object" in schema.short()


@pytest.mark.parametrize(
    "ask",
    [
        lambda: skate.data.range(2**70),
        lambda: skate.data.range(5).repartition(2**31),
        lambda: skate.data.range(5).split(2**31),
        lambda: skate.data.range(5, override_num_blocks=2**31),
    ],
)
def test_counts_beyond_all_reason_are_refused_at_once(ask):
    with pytest.raises(ValueError, match="at most"):
        ask()


def test_an_expression_of_another_type_is_named():
    with pytest.raises(TypeError, match="expr; got int: 5"):
        skate.data.range(3).filter(expr=5)
