"""The same rows in memory and by partitions, whatever is missing, and where."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skate.data
from skate.data import aggregate as agg
from skate.data._arrow.hashing import hashed

pytestmark = [pytest.mark.usefixtures("engine"), pytest.mark.engines("local")]


def tables(*columns):
    """One block for each list of keys; `n` is the number of the row."""
    starts = np.cumsum([0, *map(len, columns)])
    return skate.data.from_arrow(
        [
            pa.table({"k": keys, "n": np.arange(start, start + len(keys))})
            for keys, start in zip(columns, starts, strict=False)
        ]
    )


WHOLE = [n % 7 for n in range(200)]
HOLES = [None if n % 3 else n % 7 for n in range(200)]
NOTHING = [None] * 50
FLOATS = [float(n % 7) for n in range(200)]


@pytest.mark.usefixtures("memory")
class TestKeysThatAreMissingInSomeBlocks:
    def expected(self, *columns):
        frame = pd.DataFrame({"k": [key for keys in columns for key in keys]}, dtype=float)
        counts = frame.groupby("k", dropna=False).size()
        return {None if np.isnan(key) else key: count for key, count in counts.items()}

    def test_groups_are_whole(self):
        columns = (WHOLE, HOLES, NOTHING, FLOATS)
        found = tables(*columns).groupby("k").count().take_all()
        assert len(found) == 8
        assert {row["k"]: row["count()"] for row in found} == self.expected(*columns)

    def test_functions_see_whole_groups(self):
        def size(group):
            return {"k": group["k"][:1], "rows": np.array([len(group["n"])])}

        columns = (WHOLE, HOLES)
        found = tables(*columns).groupby("k").map_groups(size).to_pandas()
        counts = {
            None if np.isnan(key) else key: n
            for key, n in zip(found["k"], found["rows"], strict=True)
        }
        assert len(found) == 8
        assert counts == self.expected(*columns)

    def test_aggregations_without_a_kernel(self):
        found = tables(WHOLE, HOLES).groupby("k").aggregate(agg.Quantile("n")).take_all()
        assert len(found) == 8

    @pytest.mark.parametrize("kind", ["inner", "left_outer", "left_anti"])
    def test_joins(self, kind):
        right = skate.data.from_arrow(
            [pa.table({"k": [1, None], "m": [1, 1]}), pa.table({"k": [3], "m": [3]})]
        )
        found = tables(WHOLE, HOLES, NOTHING).join(right, kind, 2, on="k").count()
        matches = sum(key in (1, 3) for key in WHOLE + HOLES)
        assert found == {"inner": matches, "left_outer": 450, "left_anti": 450 - matches}[kind]

    def test_blocks_of_missing_keys_alone_on_one_side(self):
        left, right = tables(WHOLE), tables(NOTHING, NOTHING)
        assert left.join(right, "inner", 1, on="k", right_suffix="_r").count() == 0
        assert left.join(right, "left_outer", 1, on="k", right_suffix="_r").count() == 200


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1, 2]), pa.array([1.0, 2.0])),
        (pa.array([1, 2], pa.int8()), pa.array([1, 2], pa.uint64())),
        (pa.array([True, False]), pa.array([1, 0])),
        (pa.array([0.0, float("nan")]), pa.array([-0.0, -float("nan")])),
        (pa.array(["a", None]), pa.array(["a", None]).dictionary_encode()),
        (pa.array(["a", "b"]), pa.array(["a", "b"], pa.large_string())),
        (pa.array([None, None]), pa.array([None, None], pa.string())),
        (pa.array([1, None], pa.timestamp("s")), pa.array([10**9, None], pa.timestamp("ns"))),
        (pa.array([1, None], pa.date32()), pa.array([86400000, None], pa.date64())),
    ],
    ids=lambda array: str(array.type),
)
def test_equal_keys_of_other_types_go_to_one_partition(one, other):
    places = [hashed(pa.table({"k": keys}), ["k"], 1000).tolist() for keys in (one, other)]
    assert places[0] == places[1]
    assert places[0][0] != places[0][1] or one.null_count == 2


def test_keys_spread_over_all_partitions():
    table = pa.table({"k": np.arange(10_000), "s": [str(n) for n in range(10_000)]})
    for keys in (["k"], ["s"], ["k", "s"]):
        counts = np.bincount(hashed(table, keys, 10).astype(int), minlength=10)
        assert counts.min() > 800


@pytest.mark.usefixtures("memory")
class TestSorting:
    @pytest.mark.parametrize("descending", [False, True])
    def test_nan_comes_after_numbers_and_none_last(self, descending):
        nan = float("nan")
        values = [[nan, 3.0, None] * 100, [1.0, nan, 2.0] * 100, [None] * 30]
        found = [row["k"] for row in tables(*values).sort("k", descending=descending).take_all()]
        numbers = [3.0] * 100 + [2.0] * 100 + [1.0] * 100
        assert found[:300] == (numbers if descending else numbers[::-1])
        assert all(value is not None and np.isnan(value) for value in found[300:500])
        assert found[500:] == [None] * 130


@pytest.mark.usefixtures("memory")
class TestBlocksWithoutRows:
    def test_groups(self):
        found = skate.data.range(2).repartition(5).groupby("id").count().take_all()
        assert found == [{"id": 0, "count()": 1}, {"id": 1, "count()": 1}]

    def test_sort(self):
        found = skate.data.range(100).repartition(200).sort("id", descending=True).take_all()
        assert [row["id"] for row in found] == list(range(99, -1, -1))

    @pytest.mark.parametrize("right", [
        lambda: skate.data.range(3).filter(expr="id > 5"),
        lambda: skate.data.from_items([]),
    ], ids=["filtered", "nothing"])  # fmt: skip
    def test_join_with_nothing(self, right):
        left = skate.data.range(200).with_column("x", skate.data.expressions.col("id"))
        assert left.join(right(), "left_outer", 1).count() == 200
        assert left.join(right(), "inner", 1).count() == 0

    def test_repartition_keeps_the_columns(self):
        blocks = skate.data.range(2).repartition(5).to_arrow_refs()
        assert [skate.get(ref).column_names for ref in blocks] == [["id"]] * 5

    def test_operations_on_nothing(self):
        nothing = skate.data.from_items([])
        assert nothing.sort("x").take_all() == []
        assert nothing.random_shuffle().take_all() == []
        assert nothing.groupby("x").count().take_all() == []
        assert nothing.repartition(3).take_all() == []


class TestNumbersOfBlocks:
    def test_a_shuffle_has_as_many_as_before_or_as_asked_for(self, memory):
        dataset = skate.data.range(1000, override_num_blocks=10)
        assert dataset.random_shuffle(seed=1).materialize().num_blocks() == 10
        assert dataset.random_shuffle(seed=1, num_blocks=4).materialize().num_blocks() == 4

    def test_a_shuffle_in_memory_is_the_same_for_any_blocks(self):
        one, other = (
            skate.data.range(100, override_num_blocks=n).random_shuffle(seed=1).take_all()
            for n in (3, 10)
        )
        assert one == other


def test_the_driver_lets_rows_go_as_they_are_divided(context):
    from skate.data._execution.bundles import BundleBuffer, bundle_of
    from skate.data._execution.exchange import Sort
    from skate.data._execution.partitions import Partitions
    from skate.data._execution.stats import StageStats

    buffer = BundleBuffer(1 << 30)
    for _ in range(4):
        buffer.add(bundle_of(pa.table({"k": np.arange(100_000)})))
    exchange = Partitions(Sort((), (("k", "ascending"),)), [buffer], context)
    assert not buffer.bundles
    parts = list(exchange.parts(StageStats("Sort", "tasks")))
    assert len(parts) == 2
    assert sum(len(pieces) for part in parts for pieces in part.pieces) == 2
