"""DataContext: what its settings do, and that they reach the processes that obey them."""

import threading

import numpy as np
import pyarrow as pa
import pytest

import skate.data
from skate._core import machine
from skate._core.deprecations import RayDeprecationWarning
from skate.data import ActorPoolStrategy, DataContext, ExecutionOptions, ExecutionResources
from skate.data._expressions.expression import Expr
from skate.data.context import ShuffleStrategy


def test_memory_is_that_of_the_container(monkeypatch):
    monkeypatch.setattr(machine.MemoryGauge, "total", 1_000_000)
    assert machine.memory() == 1_000_000
    assert DataContext().sort_memory_bytes == 100_000


def test_calls_that_wait_at_an_actor(context):
    context.max_tasks_in_flight_per_actor = 5
    assert ActorPoolStrategy(size=1).max_tasks_in_flight_per_actor == 5
    given = ActorPoolStrategy(size=1, max_tasks_in_flight_per_actor=3)
    assert given.max_tasks_in_flight_per_actor == 3


@pytest.mark.usefixtures("engine")
class TestExecutions:
    @pytest.mark.parametrize("name", ["read_op_min_num_blocks", "min_parallelism"])
    def test_reads_make_at_least_so_many_blocks(self, context, name):
        setattr(context, name, 50)
        assert skate.data.range(100).materialize().num_blocks() == 50
        chosen = skate.data.range(100, override_num_blocks=3)
        assert chosen.materialize().num_blocks() == 3

    def test_limits_that_make_no_sense(self, context):
        context.execution_options = ExecutionOptions(ExecutionResources(cpu=-1))
        with pytest.raises(ValueError, match=r"resource_limits\.cpu.*-1"):
            skate.data.range(3).take_all()
        one = ExecutionResources(cpu=1)
        context.execution_options = ExecutionOptions(one, exclude_resources=one)
        with pytest.raises(ValueError, match="cannot both be set for cpu"):
            skate.data.range(3).take_all()

    def test_a_dataset_has_settings_of_its_own(self, context):
        before = skate.data.range(100)
        context.read_op_min_num_blocks = 20
        after = skate.data.range(100)
        before.context.read_op_min_num_blocks = 10
        assert context.read_op_min_num_blocks == 20
        assert before.materialize().num_blocks() == 10
        assert after.materialize().num_blocks() == 20
        assert before.filter(expr="id < 50").context is before.context
        assert before.materialize().context is not before.context
        before.context.set_config("mine", 1)
        assert before.iterator().materialize().context.get_config("mine") == 1

    def test_settings_that_change_after_a_function_was_given(self):
        def grown(batch):
            assert DataContext.get_current().get_config("mine") == 7
            for _ in range(8):
                yield {"x": np.zeros(10_000)}

        dataset = skate.data.range(1).map_batches(grown)
        dataset.context.target_max_block_size = 50_000
        dataset.context.set_config("mine", 7)
        assert {b.rows for b in dataset._bundles()} == {5_000}
        groups = skate.data.range(8).groupby("id").map_groups(lambda g: {"x": np.zeros(10_000)})
        groups.context.target_max_block_size = 50_000
        assert {b.rows for b in groups._bundles()} == {5_000}

    def test_retries_of_one_dataset(self, tmp_path):
        def fails_once(row):
            with open(tmp_path / str(row["id"]), "a") as calls:
                calls.write("x")
            if (tmp_path / str(row["id"])).stat().st_size < 2:
                raise OSError("too early")
            return row

        dataset = skate.data.range(3).map(fails_once)
        dataset.context.retried_map_errors, dataset.context.max_map_retries = True, 1
        assert dataset.count() == 3

    def test_datasets_that_are_read_side_by_side_keep_apart(self):
        """Each has its own settings, in whatever thread it is read."""
        seen = []

        def read(number):
            dataset = skate.data.range(60, override_num_blocks=20)
            dataset.context.set_config("number", number)
            mine = Noted(dataset, lambda: DataContext.get_current().get_config("number"))
            seen.append((number, set(mine.values())))

        threads = [threading.Thread(target=read, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(seen) == [(number, {number}) for number in range(4)]
        assert DataContext.get_current().get_config("number") is None


class Noted:
    """What a function of this process says while a dataset is executed block by block."""

    def __init__(self, dataset, ask):
        noted = Expr(lambda block: pa.array([ask()] * block.num_rows), "noted", ())
        self._dataset = dataset.with_column("noted", noted)

    def values(self):
        return [row["noted"] for row in self._dataset.iter_rows()]


@pytest.mark.engines("local")
@pytest.mark.usefixtures("engine")
class TestInFunctions:
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


@pytest.mark.usefixtures("engine")
def test_amounts_of_resources() -> None:
    none = ExecutionResources()
    assert (none.cpu, none.gpu, none.object_store_memory, none.memory) == (0, 0, 0, 0)
    assert none.is_zero()
    assert none == ExecutionResources.zero()
    limits = ExecutionResources.for_limits(cpu=2)
    assert (limits.cpu, limits.gpu, limits.memory) == (2, float("inf"), float("inf"))
    options = ExecutionOptions()
    assert options.resource_limits == ExecutionResources.for_limits()
    options.resource_limits = ExecutionResources(cpu=1)
    assert options.resource_limits == ExecutionResources.for_limits(cpu=1)
    assert limits.copy(gpu=1).gpu == 1


@pytest.mark.usefixtures("engine")
class TestSettings:
    def test_those_that_would_change_results_raise(self):
        context = DataContext()
        with pytest.raises(ValueError, match=r"enforce_schemas.*not supported.*compare"):
            context.enforce_schemas = True
        context.use_datasource_v2 = False
        context.enforce_schemas = False

    def test_those_with_another_name_today(self):
        context = DataContext()
        with pytest.warns(DeprecationWarning, match="hash_shuffle_compression") as told:
            context.hash_shuffle_compression = "lz4"
        assert context.shuffle_compression == "lz4"
        assert told[0].filename == __file__
        with pytest.warns(DeprecationWarning, match="retried_io_errors"):
            assert context.write_file_retry_on_errors is context.retried_io_errors

    def test_those_that_will_go(self):
        context = DataContext()
        with pytest.warns(RayDeprecationWarning, match=r"DataContext\.large_args_threshold"):
            context.large_args_threshold = 1
        with pytest.warns(DeprecationWarning, match="hash_shuffle_v2"):
            assert ShuffleStrategy("hash_shuffle_v2") is ShuffleStrategy.SHUFFLE_V2
        with pytest.raises(ValueError, match="no_such"):
            context.shuffle_strategy = "no_such"

    def test_the_strategy_of_shuffles_is_one_that_there_is(self):
        context = DataContext()
        assert context.shuffle_strategy is ShuffleStrategy.SHUFFLE_V2
        context.shuffle_strategy = "hash_shuffle"
        assert context.shuffle_strategy is ShuffleStrategy.HASH_SHUFFLE
        with pytest.warns(DeprecationWarning, match="use_push_based_shuffle"):
            context.use_push_based_shuffle = True
        assert context.shuffle_strategy is ShuffleStrategy.SORT_SHUFFLE_PUSH_BASED

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
        sizes = [ExecutionResources(memory=amount) for amount in (0, 1023, 1536, 3 << 60)]
        assert [each.memory_str() for each in sizes] == ["0.0B", "1023.0B", "1.5KiB", "3072.0PiB"]
        assert "object_store_memory=inf" in repr(ExecutionResources.inf())


@pytest.mark.usefixtures("engine")
def test_a_misspelt_setting_is_refused():
    with pytest.raises(AttributeError, match="did you mean 'max_errored_blocks'"):
        DataContext().max_errored_block = 5


def test_options_that_are_none_say_nothing():
    options = ExecutionOptions(resource_limits=None, exclude_resources=None)
    assert options == ExecutionOptions()
    assert options.is_resource_limits_default()


def test_what_ray_looks_at_by_itself_can_be_set():
    settings = DataContext()
    detectors = settings.issue_detectors_config
    detectors.high_memory_detector_config.detection_time_interval_s = -1
    assert settings.copy().issue_detectors_config == detectors
    assert DataContext().issue_detectors_config != detectors
