"""Dataset.summary."""

import datetime

import numpy as np
import pytest

import skate.data
from skate.data import aggregate
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
        with pytest.raises(ValueError, match="no such column in the dataset: 'x'"):
            self.summary(columns=["x"])
        with pytest.raises(ValueError, match="no Python object"):
            skate.data.from_items([{"o": object()}]).summary()
        with pytest.raises(ValueError, match="empty"):
            skate.data.from_items([]).summary()
