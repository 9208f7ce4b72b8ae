"""What a plan knows of blocks before and after it is executed."""

import pytest

import skate.data

pytestmark = [pytest.mark.engines("local"), pytest.mark.usefixtures("engine")]


def test_numbers_of_blocks():
    dataset = skate.data.range(20, override_num_blocks=10)
    assert dataset._plan.initial_num_blocks() == 10
    assert dataset._block_num_rows() == [2] * 10
    assert dataset.repartition(4)._logical_plan.initial_num_blocks() == 4
    assert dataset.random_shuffle().map(lambda row: row)._plan.initial_num_blocks() == 10
    assert skate.data.range(0)._plan.initial_num_blocks() == 0


def test_executed():
    bundle = skate.data.range(6, override_num_blocks=3)._plan.execute()
    assert bundle.num_rows() == 6
    for ref, known in bundle.blocks:
        assert skate.get(ref).nbytes == known.size_bytes
