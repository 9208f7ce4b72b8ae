"""Operations that look at all rows, in memory and by partitions."""

import numpy as np
import pandas as pd
import pytest

import skate
import skate.data
from skate.data import aggregate as agg

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture(params=["in memory", "by partitions"])
def memory(request):
    """The operations work in memory, or have so little of it that they cannot."""
    context = skate.data.DataContext.get_current()
    before = context.sort_memory_bytes
    if request.param == "by partitions":
        context.sort_memory_bytes = 4000
    yield
    context.sort_memory_bytes = before


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


@pytest.mark.usefixtures("memory")
class TestGroups:
    def test_aggregations_are_those_of_pandas(self):
        frame = mixed()
        found = (
            skate.data.from_pandas(frame)
            .groupby("k")
            .aggregate(agg.Mean("v"), agg.Std("v"), agg.Count(), agg.Min("n"), agg.Sum("n"))
            .to_pandas()
        )
        groups = frame.groupby("k")
        assert found["k"].tolist() == sorted(frame["k"].unique())
        np.testing.assert_allclose(found["mean(v)"], groups["v"].mean())
        np.testing.assert_allclose(found["std(v)"], groups["v"].std())
        assert found["count()"].tolist() == groups.size().tolist()
        assert found["min(n)"].tolist() == groups["n"].min().tolist()
        assert found["sum(n)"].tolist() == groups["n"].sum().tolist()

    def test_aggregations_without_a_kernel(self):
        frame = mixed()
        grouped = skate.data.from_pandas(frame).groupby("k")
        found = grouped.aggregate(
            agg.Quantile("v", q=0.9), agg.Unique("s", ignore_nulls=True)
        ).to_pandas()
        expected = frame.groupby("k")["v"].quantile(0.9)
        np.testing.assert_allclose(found["quantile(v)"], expected)
        assert all(sorted(values) == ["a", "b"] for values in found["unique(s)"])

    def test_map_groups(self):
        def top(group):
            return group.nlargest(1, "v")

        frame = mixed()
        grouped = skate.data.from_pandas(frame).groupby("k")
        found = grouped.map_groups(top, batch_format="pandas").to_pandas()
        expected = frame.loc[frame.groupby("k")["v"].idxmax()].sort_values("k")
        assert found.sort_values("k")["n"].tolist() == expected["n"].tolist()

    def test_several_keys(self):
        frame = mixed()
        found = skate.data.from_pandas(frame).groupby(["k", "s"]).count().to_pandas()
        assert found["count()"].sum() == len(frame)
        assert len(found) == len(frame.groupby(["k", "s"], dropna=False))

    def test_several_keys_of_which_one_is_categorical(self):
        frame = mixed().astype({"s": "category"})
        grouped = skate.data.from_pandas(frame).groupby(["k", "s"])
        expected = frame.groupby(["k", "s"], dropna=False, observed=True)["n"].sum()
        assert grouped.sum("n").to_pandas()["sum(n)"].tolist() == expected.tolist()
        found = grouped.map_groups(lambda group: {"sum": [group["n"].sum()]}).to_pandas()
        assert sorted(found["sum"]) == sorted(expected)


class TestGroupsOfFewRows:
    def test_no_key_is_one_group(self):
        assert skate.data.range(4).groupby(None).sum("id").take_all() == [{"sum(id)": 6}]

    def test_a_group_of_one_row_has_no_deviation(self):
        found = skate.data.from_items([{"k": 1, "v": 2.0}]).groupby("k").std("v").take_all()
        assert np.isnan(found[0]["std(v)"])

    def test_a_wrong_key_lists_the_columns(self):
        with pytest.raises(KeyError, match=r"'kk'.*\['id'\]"):
            skate.data.range(3).groupby("kk").count().take_all()


@pytest.mark.usefixtures("memory")
class TestJoin:
    @pytest.mark.parametrize(
        ("kind", "how"),
        [
            ("inner", "inner"),
            ("left_outer", "left"),
            ("right_outer", "right"),
            ("full_outer", "outer"),
        ],
    )
    def test_joins_are_those_of_pandas(self, kind, how):
        left = pd.DataFrame({"k": np.arange(300) % 50, "x": np.arange(300)})
        right = pd.DataFrame({"k": np.arange(25, 75), "y": np.arange(50.0)})
        joined = skate.data.from_pandas(left).join(
            skate.data.from_pandas(right), kind, 2, on=("k",)
        )
        order = ["k", "x", "y"]
        found = joined.to_pandas()[order].sort_values(order).reset_index(drop=True)
        expected = left.merge(right, on="k", how=how)[order]
        expected = expected.sort_values(order).reset_index(drop=True)
        pd.testing.assert_frame_equal(found, expected, check_dtype=False)

    @pytest.mark.parametrize("kind", ["int32", "float64", "uint8"])
    def test_numbers_of_different_types_are_compared(self, kind):
        left = skate.data.range(600)
        right = skate.data.from_pandas(pd.DataFrame({"id": np.arange(5, 200, dtype=kind)}))
        found = left.join(right, "inner", 2).to_pandas()["id"]
        assert sorted(found) == list(range(5, 200))

    def test_a_categorical_key_and_text(self):
        text = pd.DataFrame({"k": list("abcd") * 100, "x": range(400)})
        kinds = pd.DataFrame({"k": pd.Categorical(["b", "d"]), "y": [1, 2]})
        joined = skate.data.from_pandas(text).join(skate.data.from_pandas(kinds), on="k")
        assert joined.to_pandas().groupby("k")["y"].sum().to_dict() == {"b": 100, "d": 200}

    def test_keys_that_cannot_be_compared_are_named(self):
        text = skate.data.from_items([{"name": str(number)} for number in range(500)])
        joined = skate.data.range(500).join(text, on="id", right_on="name")
        with pytest.raises(TypeError, match=r"'id' is int64 on the left and 'name' is .*: cast"):
            joined.take_all()

    def test_an_empty_side(self):
        nothing, some = skate.data.from_items([]), skate.data.range(3)
        assert nothing.join(some, "inner").count() == some.join(nothing, "inner").count() == 0
        for joined in (nothing.join(some, "right_outer"), some.join(nothing, "left_outer")):
            assert joined.take_all() == [{"id": 0}, {"id": 1}, {"id": 2}]

    def test_semi_and_anti(self):
        left, right = skate.data.range(600), skate.data.range(300)
        assert left.join(right, "left_semi", 1).count() == 300
        assert left.join(right, "left_anti", 1).count() == 300


class TestJoinNames:
    def test_equal_names_need_a_suffix(self):
        one = skate.data.from_items([{"k": 1, "x": 1}])
        with pytest.raises(ValueError, match="suffix"):
            one.join(one, "inner", 1, on="k").take_all()
        row = one.join(one, "inner", 1, on="k", right_suffix="_r").take_all()[0]
        assert row == {"k": 1, "x": 1, "x_r": 1}


class TestTogether:
    def test_union(self):
        dataset = skate.data.range(2).union(skate.data.range(3), skate.data.range(1))
        assert [row["id"] for row in dataset.take_all()] == [0, 1, 0, 1, 2, 0]

    def test_zip_renames_what_collides(self):
        dataset = skate.data.from_items(["a", "b"]).zip(skate.data.from_items(["c", "d"]))
        assert dataset.take_all() == [{"item": "a", "item_1": "c"}, {"item": "b", "item_1": "d"}]

    def test_zip_with_other_blocks(self):
        left = skate.data.range(100, override_num_blocks=7)
        right = skate.data.range(100, override_num_blocks=3).map(lambda row: row)
        assert all(row["id"] == row["id_1"] for row in left.zip(right).take_all())

    def test_zip_of_unequal_lengths(self):
        with pytest.raises(ValueError, match="10, 9"):
            skate.data.range(10).zip(skate.data.range(9)).take_all()

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


class TestSplits:
    def test_split(self):
        counts = [part.count() for part in skate.data.range(10).split(3)]
        assert sum(counts) == 10
        assert max(counts) - min(counts) <= 1
        assert [part.count() for part in skate.data.range(10).split(3, equal=True)] == [3, 3, 3]

    def test_split_at_indices(self):
        parts = skate.data.range(10).split_at_indices([2, 9])
        assert [[row["id"] for row in part.take_all()] for part in parts] == [
            [0, 1], [2, 3, 4, 5, 6, 7, 8], [9],
        ]  # fmt: skip

    def test_split_proportionately(self):
        parts = skate.data.range(10).split_proportionately([0.2, 0.5])
        assert [part.count() for part in parts] == [2, 5, 3]
        with pytest.raises(ValueError, match="less than 1"):
            skate.data.range(10).split_proportionately([0.5, 0.6])

    def test_train_test_split(self):
        train, test = skate.data.range(10).train_test_split(0.25)
        assert (train.count(), test.take_all()) == (7, [{"id": 7}, {"id": 8}, {"id": 9}])
        train, test = skate.data.range(10).train_test_split(4, shuffle=True, seed=1)
        assert sorted(row["id"] for row in train.take_all() + test.take_all()) == list(range(10))

    def test_stratified(self):
        rows = [{"label": n % 2, "n": n} for n in range(40)]
        train, test = skate.data.from_items(rows).train_test_split(0.25, stratify="label")
        assert sum(row["label"] for row in test.take_all()) == 5
        assert train.count() == 30


@pytest.mark.engines("inline")
def test_keys_of_two_types():
    whole = skate.data.range(3)
    real = whole.map(lambda row: {"id": float(row["id"])})
    with pytest.raises(ValueError, match=r"int64.*double"):
        whole.join(real, "inner", 1, on=("id",), validate_schemas=True)
