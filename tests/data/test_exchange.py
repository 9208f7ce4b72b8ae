"""Sorts, shuffles, new blocks: operations that look at all rows, in memory and by partitions."""

import numpy as np
import pandas as pd
import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


def mixed(rows=2000, seed=0):
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "k": random.integers(0, 7, rows),
            "v": random.normal(size=rows),
            "s": random.choice(["a", "b", None], rows),
            "n": np.arange(rows),
        }
    )


@pytest.mark.usefixtures("memory")
class TestSort:
    @pytest.mark.parametrize("descending", [False, True])
    def test_by_one_column(self, descending):
        frame = mixed()
        dataset = skate.data.from_pandas(frame).sort("v", descending=descending)
        expected = frame.sort_values("v", ascending=not descending)["n"].tolist()
        assert [row["n"] for row in dataset.take_all()] == expected

    def test_by_two_columns_and_equal_rows_keep_their_order(self):
        frame = mixed()
        dataset = skate.data.from_pandas(frame).sort(["k", "s"], descending=[True, False])
        expected = frame.sort_values(["k", "s"], ascending=[False, True], kind="stable")
        assert dataset.to_pandas()["n"].tolist() == expected["n"].tolist()

    def test_by_a_categorical_column_and_another(self):
        frame = mixed().astype({"s": "category"})
        found = skate.data.from_pandas(frame).sort(["s", "k"], descending=[False, True])
        expected = frame.sort_values(["s", "k"], ascending=[True, False], kind="stable")
        assert found.to_pandas()["n"].tolist() == expected["n"].tolist()

    def test_none_comes_last(self):
        found = skate.data.from_pandas(mixed()).sort("s").to_pandas()["s"]
        missing = found.isna().to_numpy()
        assert missing.any()
        assert missing[np.flatnonzero(missing)[0] :].all()

    def test_tensors_move_with_their_rows(self):
        dataset = skate.data.range_tensor(500, shape=(3,)).map_batches(
            lambda batch: {"data": batch["data"], "key": -batch["data"][:, 0]}
        )
        first = dataset.sort("key").take(1)[0]
        assert first["data"].tolist() == [499, 499, 499]

    def test_boundaries_say_where_blocks_begin(self):
        dataset = skate.data.range(2000).random_shuffle(seed=1).sort("id", boundaries=[5, 1000])
        firsts = [b["id"].tolist()[0] for b in dataset.iter_batches(batch_size=None)]
        assert firsts == [0, 5, 1000]


@pytest.mark.usefixtures("memory")
class TestShuffle:
    def test_all_rows_in_another_order_the_same_for_a_seed(self):
        one = skate.data.range(1000).random_shuffle(seed=3).take_all()
        two = skate.data.range(1000).random_shuffle(seed=3).take_all()
        other = skate.data.range(1000).random_shuffle(seed=4).take_all()
        assert one == two != other
        assert sorted(row["id"] for row in one) == list(range(1000))
        assert [row["id"] for row in one] != list(range(1000))


class TestTogether:
    @pytest.mark.parametrize("shuffle", [False, True])
    def test_more_blocks_than_rows(self, shuffle):
        """The last ones are empty."""
        few = skate.data.range(3).repartition(5, shuffle=shuffle).materialize()
        assert few._block_num_rows() == [1, 1, 1, 0, 0]
        nothing = skate.data.range(3).filter(lambda row: False).repartition(2, shuffle=shuffle)
        assert nothing._block_num_rows() == [0, 0]

    def test_repartition(self):
        dataset = skate.data.range(10).repartition(3).materialize()
        assert dataset.num_blocks() == 3
        assert [row["id"] for row in dataset.take_all()] == list(range(10))
        sizes = [
            len(batch["id"])
            for batch in skate.data.range(10)
            .repartition(target_num_rows_per_block=4)
            .iter_batches(batch_size=None)
        ]
        assert sizes == [4, 4, 2]

    def test_randomize_block_order(self):
        dataset = skate.data.range(100, override_num_blocks=10).randomize_block_order(seed=1)
        found = [row["id"] for row in dataset.take_all()]
        assert sorted(found) == list(range(100))
        assert found != list(range(100))

    def test_random_sample(self):
        count = skate.data.range(1000).random_sample(0.3, seed=1).count()
        assert 200 < count < 400
        assert count == skate.data.range(1000).random_sample(0.3, seed=1).count()
