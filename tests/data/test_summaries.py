"""summary, mix, hashes of rows, tensors out of bytes."""

import datetime

import numpy as np
import pandas as pd
import pytest

import skate.data
from skate.data import MixStoppingCondition, aggregate
from skate.data.datatype import DataType, TypeCategory

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]


ROWS = [
    {"age": 25, "name": "Ann", "born": datetime.datetime(2000, 1, 1), "old": False},
    {"age": 0, "name": None, "born": None, "old": True},
    {"age": 30, "name": "Ben", "born": datetime.datetime(1990, 1, 1), "old": True},
]


class TestSummary:
    def summary(self, **arguments):
        return skate.data.from_items(ROWS).summary(**arguments)

    def values(self, column, **arguments):
        table = self.summary(**arguments).get_column_stats(column).set_index("statistic")
        return table["value"].dropna().to_dict()

    def test_numbers(self):
        found = self.values("age")
        assert found == {
            "approx_quantile[0]": 25,
            "count": 3,
            "max": 30,
            "mean": pytest.approx(55 / 3),
            "min": 0,
            "missing_pct": 0,
            "std": pytest.approx(np.std([25, 0, 30])),
            "zero_pct": pytest.approx(100 / 3),
        }
        assert self.values("old")["mean"] == pytest.approx(2 / 3)

    def test_texts_and_times(self):
        names = self.values("name")
        assert names["missing_pct"] == pytest.approx(100 / 3)
        assert names["approx_topk[0]"]["count"] == 1
        assert self.values("born")["min"] == datetime.datetime(1990, 1, 1)

    def test_all_in_one_table(self):
        table = self.summary(columns=["age", "name"]).to_pandas()
        assert list(table.columns) == ["statistic", "age", "name"]
        assert list(table["statistic"]) == sorted(table["statistic"])

    def test_aggregations_of_ones_own(self):
        def total(column):
            return [aggregate.Sum(column)]

        by_type = {DataType.int64(): total, TypeCategory.TEMPORAL: lambda column: []}
        assert self.values("age", override_dtype_agg_mapping=by_type) == {"sum": 55}
        with pytest.raises(ValueError, match="no column 'born'"):
            self.values("born", override_dtype_agg_mapping=by_type)

    def test_mistakes(self):
        with pytest.raises(ValueError, match="no column 'x'"):
            self.summary(columns=["x"])
        with pytest.raises(ValueError, match="no Python object"):
            skate.data.from_items([{"o": object()}]).summary()
        with pytest.raises(ValueError, match="empty"):
            skate.data.from_items([]).summary()


class TestMix:
    def mixed(self, weights, **arguments):
        many = skate.data.range(8, override_num_blocks=4)
        few = skate.data.from_items([{"id": -1}] * 4, override_num_blocks=2)
        return [row["id"] for row in many.mix(few, weights=weights, **arguments).take_all()]

    def test_in_turn_until_the_last(self):
        assert self.mixed(None) == [0, 1, -1, -1, 2, 3, -1, -1, 4, 5, 6, 7]

    def test_by_weights_until_the_first(self):
        shortest = MixStoppingCondition.STOP_ON_SHORTEST
        assert self.mixed([3, 1], stopping_condition=shortest) == [0, 1, -1, -1, 2, 3, 4, 5, 6, 7]

    def test_mistakes(self):
        with pytest.raises(ValueError, match="one weight per dataset, 2; got"):
            self.mixed([1])
        with pytest.raises(ValueError, match="positive"):
            self.mixed([1, 0])


class TestParquet:
    def test_hashes_of_rows(self, tmp_path):
        skate.data.range(6, override_num_blocks=2).write_parquet(tmp_path)
        dataset = skate.data.read_parquet(tmp_path, include_row_hash=True)
        assert dataset.schema().names == ["id", "row_hash"]
        first, second = dataset.take_all(), dataset.take_all()
        assert first == second
        assert len({row["row_hash"] for row in first}) == 6
        chosen = skate.data.read_parquet(tmp_path, columns=["id"], include_row_hash=True)
        assert chosen.filter(expr="id == 4").take_all() == [first[4]]
        assert dataset.select_columns(["id"]).take(1) == [{"id": 0}]

    def test_tensors_of_bytes(self, tmp_path):
        arrays = np.arange(12).reshape(3, 2, 2)
        frame = pd.DataFrame({"n": range(3), "t": [array.tobytes() for array in arrays]})
        skate.data.from_pandas(frame).write_parquet(tmp_path)
        kinds = {"t": (np.int64, (2, 2))}
        dataset = skate.data.read_parquet(tmp_path, tensor_column_schema=kinds)
        assert dataset.schema().types[1].shape == [2, 2]
        np.testing.assert_array_equal(dataset.take_batch()["t"], arrays)
