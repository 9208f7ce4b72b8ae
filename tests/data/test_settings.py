"""Settings: what they do, and that they reach the processes that obey them."""

import numpy as np
import pyarrow as pa
import pytest

import skate.data
from skate import _machine
from skate.data import ActorPoolStrategy, DataContext, ExecutionOptions, ExecutionResources
from skate.data._udf import UserFunction
from skate.data.grouped_data import MapGroups


@pytest.fixture
def context():
    """Settings that end with the test."""
    with DataContext.current(DataContext.get_current().copy()) as changed:
        yield changed


def test_memory_is_that_of_the_container(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    limit.write_text("1000000\n")
    monkeypatch.setattr(_machine, "_CONTAINER_LIMIT", str(limit))
    assert _machine.memory() == 1_000_000
    assert DataContext().sort_memory_bytes == 100_000
    limit.write_text("max\n")
    assert _machine.memory() > 1_000_000


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


def test_functions_on_groups_keep_to_the_size_of_where_they_were_made(context):
    context.target_max_block_size = 50_000
    grown = UserFunction(lambda group: {"x": np.zeros(10_000)})
    step = MapGroups(grown, "MapGroups", ("id",), "numpy")
    with DataContext.current(DataContext()):
        blocks = list(step(iter([pa.table({"id": np.arange(8)})])))
    assert [block.num_rows for block in blocks] == [10_000] * 8
