"""Pools of actors that call the classes of users."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import pytest

import skate
import skate.data
from skate.data import ActorPoolStrategy
from skate.data._execution.stages import Actors
from skate.data._execution.transforms import TransformChain
from skate.data._execution.udf import UserFunction
from tests.support import eventually, local_only

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

    @pytest.mark.parametrize("depth", [None, 2])
    def test_calls_overlap_in_a_class_that_may_have_several(self, depth):
        class Meeting:
            def __init__(self):
                self.both = threading.Barrier(2, timeout=60)

            def __call__(self, batch):
                self.both.wait()  # until another call is here
                return batch

        pool = ActorPoolStrategy(
            size=1,
            max_tasks_in_flight_per_actor=depth,
            max_concurrent_calls_per_actor=2,
            enable_true_multi_threading=True,
        )
        rows = skate.data.range(4, override_num_blocks=4).map_batches(Meeting, compute=pool)
        assert sorted(row["id"] for row in rows.take_all()) == [0, 1, 2, 3]

    def test_jobs_that_begin_together_share_an_instance(self):
        made: list[object] = []

        class Model:
            def __init__(self):
                made.append(self)
                if len(made) == 1:
                    wait([others.submit(function.load)], timeout=0.2)

            def __call__(self, batch):
                return batch

        function = UserFunction(Model)
        function.call_in_one_thread()
        with ThreadPoolExecutor(1) as others:
            assert function.load() is made[0]
        assert len(made) == 1

    def test_actors_that_take_too_long_to_start(self, context):
        class Slow:
            def __init__(self):
                time.sleep(60)

            def __call__(self, batch):
                return batch

        context.wait_for_min_actors_s = 0.2
        with pytest.raises(skate.exceptions.GetTimeoutError, match=r"0 of 2.*after 0\.2 s"):
            skate.data.range(3).map_batches(Slow, concurrency=2).take_all()

    def test_actors_that_start_in_time(self, context):
        context.wait_for_min_actors_s = 60
        rows = skate.data.range(3).map_batches(FailsNever, concurrency=2)
        assert rows.count() == 3

        class FailsAtOnce:
            def __init__(self):
                raise OSError("no model")

            def __call__(self, batch):
                return batch

        with pytest.raises(OSError, match="no model"):
            skate.data.range(3).map_batches(FailsAtOnce, concurrency=1).take_all()

    def test_no_actors_are_no_pool(self):
        for sizes in ({"min_size": 0}, {"max_size": 0}, {"size": 0}):
            with pytest.raises(ValueError, match="size takes a number of at least 1; got 0"):
                ActorPoolStrategy(**sizes)

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


def test_a_pool_whose_session_has_ended_begins_no_other() -> None:
    pool = Actors(TransformChain([], "none"), ActorPoolStrategy(size=1), {"num_cpus": 1})
    pool.submit([])
    skate.shutdown()
    with pytest.raises(skate.exceptions.StaleReferenceError):
        pool.is_starved()
    assert not skate.is_initialized()


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
    def test_a_pool_that_failed_is_gone_although_its_error_is_kept(self) -> None:
        def fail(self: object, batch: object) -> None:
            raise ValueError("broken")

        failing = type("Failing", (), {"__call__": fail})
        dataset = skate.data.range(2).map_batches(failing, concurrency=1, num_cpus=1.5)
        with pytest.raises(ValueError, match="broken") as kept:
            dataset.take_all()
        eventually(lambda: skate.available_resources().get("CPU") == 2)
        assert kept.tb is not None

    @local_only
    def test_a_pool_that_can_never_start_is_refused(self) -> None:
        with pytest.raises(ValueError, match="3 GPU together, but there are 2"):
            skate.data.range(2).map_batches(Same, batch_size=2, concurrency=3, num_gpus=1).count()

    @local_only
    def test_stages_that_can_never_run_together_are_refused(self) -> None:
        both = skate.data.range(4).map_batches(Same, concurrency=2, num_cpus=1)
        with pytest.raises(ValueError, match=r"MapBatches\(Same\).*3 CPU together"):
            both.map_batches(lambda batch: batch, num_cpus=1).count()
