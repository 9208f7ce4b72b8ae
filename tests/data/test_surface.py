"""Parts of the public surface that programs for Ray use: aggregations, settings, seeds, sources
and sinks of one's own, lineage, other libraries."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

import skate
import skate.data
from skate.data import RandomSeedConfig, aggregate
from skate.data.block import BlockAccessor
from skate.data.context import DataContext, ExecutionResources
from skate.data.datasource import (
    BlockBasedFileDatasink,
    Datasource,
    PathPartitionParser,
    ReadTask,
    RowBasedFileDatasink,
)

pytestmark = pytest.mark.usefixtures("engine")


class TestAggregations:
    def test_values(self):
        rows = [{"a": 0}, {"a": 1}, {"a": None}, {"a": 1}]
        found = skate.data.from_items(rows).aggregate(
            aggregate.MissingValuePercentage("a"),
            aggregate.ZeroPercentage("a"),
            aggregate.ValueCounter("a"),
            aggregate.CountDistinct("a"),
            aggregate.AsList("a"),
            aggregate.ApproximateTopK("a", k=1),
            aggregate.ApproximateQuantile("a", quantiles=[0.0, 1.0]),
        )
        counts = found.pop("value_counter(a)")
        assert dict(zip(counts["values"], counts["counts"], strict=True)) == {0: 1, 1: 2, None: 1}
        assert found == {
            "missing_pct(a)": 25.0,
            "zero_pct(a)": pytest.approx(100 / 3),
            "count_distinct(a)": 2,
            "list(a)": [0, 1, None, 1],
            "approx_topk(a)": [{"a": 1, "count": 2}],
            "approx_quantile(a)": [0.0, 1.0],
        }

    def test_elements_of_lists(self):
        dataset = skate.data.from_items([{"l": [1, 2]}, {"l": [2]}, {"l": [2]}])
        whole, elements = aggregate.Unique("l"), aggregate.Unique("l", encode_lists=True)
        assert sorted(dataset.aggregate(whole)["unique(l)"]) == [(1, 2), (2,)]
        assert sorted(dataset.aggregate(elements)["unique(l)"]) == [1, 2]

    def test_one_of_ones_own(self):
        class Product(aggregate.AggregateFnV2):
            def __init__(self, on):
                super().__init__(f"product({on})", lambda: 1, on=on, ignore_nulls=True)

            def aggregate_block(self, block):
                return math.prod(BlockAccessor.for_block(block).to_numpy(self.on).tolist())

            def combine(self, current_accumulator, new):
                return current_accumulator * new

        dataset = skate.data.from_items([{"k": n % 2, "v": n} for n in range(1, 5)])
        assert dataset.aggregate(Product("v")) == {"product(v)": 24}
        rows = dataset.groupby("k").aggregate(Product("v")).take_all()
        assert {row["k"]: row["product(v)"] for row in rows} == {0: 8, 1: 3}

    def test_names_that_occur_twice_get_a_number(self):
        found = skate.data.range(3).aggregate(aggregate.Sum("id"), aggregate.Sum("id"))
        assert found == {"sum(id)": 3, "sum(id)_2": 3}

    def test_the_deviation_of_nothing_is_none_and_of_one_value_nan(self):
        rows = [{"k": 0, "v": 1.0}, {"k": 1, "v": None}]
        found = skate.data.from_items(rows).groupby("k").std("v").take_all()
        assert math.isnan(found[0]["std(v)"])
        assert found[1]["std(v)"] is None

    def test_mistakes(self):
        with pytest.raises(ValueError, match=r"such as Max\('x'\)"):
            skate.data.range(3).aggregate(aggregate.Max())
        with pytest.raises(ValueError, match="names of columns"):
            skate.data.range(3).groupby(lambda row: row)
        with pytest.raises(ValueError, match=r"'x'; the columns are \['id'\]"):
            skate.data.range(3).groupby("x").count().take_all()


class TestSettings:
    def test_those_that_would_change_results_raise(self):
        context = DataContext()
        with pytest.raises(ValueError, match=r"enforce_schemas.*not supported.*compare"):
            context.enforce_schemas = True
        context.use_push_based_shuffle = True
        context.enforce_schemas = False

    def test_another_context_for_a_while(self):
        changed = DataContext.get_current().copy()
        changed.set_config("mine", 3)
        with DataContext.current(changed):
            assert DataContext.get_current().get_config("mine") == 3
        assert DataContext.get_current().get_config("mine") is None

    def test_resources(self):
        limits = ExecutionResources.for_limits(cpu=4, memory=100)
        usage = ExecutionResources(cpu=1).add(ExecutionResources(cpu=2, memory=50))
        assert usage.satisfies_limit(limits)
        assert not usage.scale(3).satisfies_limit(limits)
        assert usage.subtract(usage).is_zero()
        assert limits.to_resource_dict()["CPU"] == 4
        assert ExecutionResources.from_resource_dict({"num_cpus": 2}).cpu == 2


class TestSeeds:
    def orders(self, seed):
        dataset = skate.data.range(50).random_shuffle(seed=seed)
        return [[row["id"] for row in dataset.take_all()] for _ in range(2)]

    def test_a_number_always_means_the_same_order(self):
        first, second = self.orders(3)
        assert first == second

    def test_a_config_gives_other_orders_that_a_second_run_repeats(self):
        first, second = self.orders(RandomSeedConfig(3))
        assert first != second
        assert [first, second] == self.orders(RandomSeedConfig(3))
        fixed = self.orders(RandomSeedConfig(3, reseed_after_execution=False))
        assert fixed[0] == fixed[1]


class TestSplits:
    @pytest.mark.parametrize("options", [{"seed": 1}, {}, {"split_type": "hash"}])
    def test_streaming_train_and_test_are_disjoint_and_complete(self, options):
        if "split_type" in options:
            options = {**options, "hash_column": "id"}
        parts = skate.data.range(400).streaming_train_test_split(0.25, **options)
        train, test = ({row["id"] for row in part.take_all()} for part in parts)
        assert not train & test
        assert train | test == set(range(400))
        assert 40 < len(test) < 160  # without a seed, too: seven deviations
        assert parts[0].columns() == ["id"]

    def test_mistakes(self):
        dataset = skate.data.range(4)
        for wrong in ({"split_type": "hash"}, {"hash_column": "id"}, {"split_type": "x"}):
            with pytest.raises(ValueError, match=r"hash_column|split_type"):
                dataset.streaming_train_test_split(0.5, **wrong)
        with pytest.raises(ValueError, match="shuffle first"):
            dataset.train_test_split(0.5, shuffle=True, stratify="id")


class TestCollate:
    def test_each_form_of_batches(self):
        class OfFrames(skate.data.PandasBatchCollateFn):
            def __call__(self, batch):
                assert isinstance(batch, pd.DataFrame)
                return torch.tensor(batch["id"].to_numpy())

        class OfTables(skate.data.ArrowBatchCollateFn):
            def __call__(self, batch):
                return torch.tensor(batch["id"].to_numpy())

        for collate in (OfFrames(), OfTables()):
            batch = next(iter(skate.data.range(3).iter_torch_batches(collate_fn=collate)))
            assert batch.tolist() == [0, 1, 2]

    def test_jax_that_is_not_installed_is_named(self):
        with pytest.raises(ImportError, match="'jax'"):
            skate.data.range(3).iter_jax_batches()


class TestInside:
    def test_references_to_blocks(self):
        dataset = skate.data.range(6, override_num_blocks=3)
        assert sum(len(table) for table in skate.get(dataset.get_internal_block_refs())) == 6
        bundles = list(dataset.iter_internal_ref_bundles())
        assert [bundle.num_rows() for bundle in bundles] == [2, 2, 2]
        assert bundles[0].metadata[0].size_bytes > 0

    def test_lineage(self):
        dataset = skate.data.range(4).map(lambda row: {"x": row["id"] + 1})
        again = skate.data.Dataset.deserialize_lineage(dataset.serialize_lineage())
        assert again.get_dataset_id() == dataset.get_dataset_id()
        assert [row["x"] for row in again.take_all()] == [1, 2, 3, 4]
        kept = skate.data.from_items([1]).union(skate.data.from_items([2]))
        assert not kept.has_serializable_lineage()
        with pytest.raises(ValueError, match="rows in memory"):
            kept.serialize_lineage()

    def test_rows_by_key(self):
        rows = [{"k": n, "v": n * n} for n in np.random.default_rng(0).permutation(50).tolist()]
        found = skate.data.from_items(rows).to_random_access_dataset("k", num_workers=2)
        assert skate.get(found.get_async(7)) == {"k": 7, "v": 49}
        assert skate.get(found.get_async(-1)) is None
        assert found.multiget([49, 99, 3]) == [{"k": 49, "v": 2401}, None, {"k": 3, "v": 9}]
        assert found.stats().startswith("RandomAccessDataset: 2 actors, asked for")

    def test_dask(self):
        frame = skate.data.range(10).to_dask()
        assert int(frame["id"].sum().compute(scheduler="synchronous")) == 45
        import dask.dataframe

        given = dask.dataframe.from_pandas(pd.DataFrame({"a": [1, 2, 3]}), npartitions=2)
        assert skate.data.from_dask(given).sum("a") == 6


class TestOnesOwn:
    def test_a_source_that_skips_columns(self):
        class Wide(Datasource):
            def supports_projection_pushdown(self):
                return True

            def get_read_tasks(self, parallelism, per_task_row_limit=None, data_context=None):
                names = list(self.get_projection_map() or ["a", "b"])
                return [ReadTask(lambda: [{name: [len(names)] for name in names}])]

        assert skate.data.read_datasource(Wide()).take_all() == [{"a": 2, "b": 2}]
        assert skate.data.read_datasource(Wide()).select_columns(["b"]).take_all() == [{"b": 1}]

    def test_a_reader_of_older_versions(self):
        class Old(Datasource):
            def prepare_read(self, parallelism, start=0):
                return [ReadTask(lambda: [pd.DataFrame({"n": [start, start + 1]})])]

        assert skate.data.read_datasource(Old()).sum("n") == 1
        assert skate.data.read_datasource(Old(), start=3, parallelism=1).sum("n") == 7

    def test_files_of_ones_own(self, tmp_path):
        class Lines(BlockBasedFileDatasink):
            def write_block_to_file(self, block, file):
                file.write("\n".join(map(str, block.to_pandas()["id"])).encode())

        class Numbers(RowBasedFileDatasink):
            def write_row_to_file(self, row, file):
                file.write(str(row["id"]).encode())

        dataset = skate.data.range(4, override_num_blocks=4)
        dataset.write_datasink(Lines(str(tmp_path / "l"), min_rows_per_file=2, file_format="txt"))
        texts = sorted(path.read_text() for path in (tmp_path / "l").iterdir())
        assert texts == ["0\n1", "2\n3"]
        dataset.write_datasink(Numbers(str(tmp_path / "n"), file_format="txt"))
        assert sorted(path.read_text() for path in (tmp_path / "n").iterdir()) == list("0123")

    def test_values_in_the_names_of_folders(self):
        hive = PathPartitionParser.of(base_dir="/data", field_types={"year": int})
        assert hive("/data/year=2024/kind=a/f.csv") == {"year": 2024, "kind": "a"}
        assert hive("/elsewhere/year=2024/f.csv") == {}
        folders = PathPartitionParser.of("dir", base_dir="/data", field_names=["kind"])
        assert folders("/data/cat/f.png") == {"kind": "cat"}
        with pytest.raises(ValueError, match="do not fit the partitions"):
            folders("/data/cat/small/f.png")
