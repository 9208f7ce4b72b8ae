"""Pools of actors that call the classes of users."""

import threading

import numpy as np
import pytest

import skate.data
from skate.data import ActorPoolStrategy

pytestmark = [pytest.mark.engines("local"), pytest.mark.usefixtures("engine")]


class FailsNever:
    def __call__(self, batch):
        return batch


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
