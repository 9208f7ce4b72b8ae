"""Pools of actors that call the classes of users."""

import threading
import time
from typing import Any

import numpy as np
import pytest

import skate
import skate.data
from skate.data import ActorPoolStrategy
from tests.support import local_only

pytestmark = pytest.mark.usefixtures("engine")


class FailsNever:
    def __call__(self, batch):
        return batch


@pytest.mark.engines("local")
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


@local_only
def test_a_pool_grows_while_its_actors_are_busy(tmp_path: Any) -> None:
    class Noted:
        def __init__(self) -> None:
            import os

            (tmp_path / str(os.getpid())).touch()

        def __call__(self, batch: Any) -> Any:
            deadline = time.monotonic() + 60
            while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            return batch

    dataset = skate.data.range(6, override_num_blocks=6)
    assert dataset.map_batches(Noted, concurrency=(1, 2)).count() == 6
    assert len(list(tmp_path.iterdir())) == 2


class Same:
    def __call__(self, batch: Any) -> Any:
        return batch


class TestResources:
    pytestmark = pytest.mark.init(num_cpus=2, num_gpus=2)

    @local_only
    @pytest.mark.parametrize("options", [{"num_gpus": 1}, {"num_cpus": 1}])
    def test_a_pool_grows_no_further_than_the_machine(self, options: Any) -> None:
        dataset = skate.data.range(20, override_num_blocks=10)
        assert dataset.map_batches(Same, batch_size=2, concurrency=(1, 3), **options).count() == 20

    @local_only
    def test_a_pool_that_can_never_start_is_refused(self) -> None:
        with pytest.raises(ValueError, match="3 GPU together, but there are 2"):
            skate.data.range(2).map_batches(Same, batch_size=2, concurrency=3, num_gpus=1).count()

    @local_only
    def test_stages_that_can_never_run_together_are_refused(self) -> None:
        both = skate.data.range(4).map_batches(Same, concurrency=2, num_cpus=1)
        with pytest.raises(ValueError, match=r"MapBatches\(Same\).*3 CPU together"):
            both.map_batches(lambda batch: batch, num_cpus=1).count()
