"""Seeds: the same random order or sample again, and another each time."""

import numpy as np
import pytest

import skate
import skate.data
from skate.data import RandomSeedConfig

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("local")
class TestSamples:
    def test_the_rows_that_numpy_chooses(self):
        dataset = skate.data.range(50, override_num_blocks=5).random_sample(0.3, seed=7)
        drawn = [np.random.default_rng([block, 7]).random(10) < 0.3 for block in range(5)]
        expected = np.flatnonzero(np.concatenate(drawn)).tolist()
        assert [row["id"] for row in dataset.take_all()] == expected

    def test_nothing_to_choose_from(self):
        with pytest.raises(ValueError, match="empty"):
            skate.data.range(0).random_sample(0.5)


class TestShuffles:
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
