"""Preprocessors of one's own, and what all preprocessors have in common."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skate
import skate.data
from skate.data.aggregate import Mean
from skate.data.preprocessor import FitStatus, Preprocessor, PreprocessorNotFittedError
from skate.data.preprocessors import (
    BatchMapper,
    Chain,
    CountVectorizer,
    HashingVectorizer,
    MaxAbsScaler,
    MinMaxScaler,
    MultiHotEncoder,
    OneHotEncoder,
    StandardScaler,
    UniformKBinsDiscretizer,
)

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]

FRAME = pd.DataFrame(
    {"a": [1.0, -2.0, 3.5, 10.0], "b": [4.0, 4.0, 4.0, 4.0], "c": ["x", "y", "x", "z"]}
)


@pytest.fixture
def ds():
    return skate.data.from_pandas(FRAME)


class ByLargest(Preprocessor):
    def __init__(self, column):
        super().__init__()
        self.column = column

    def _fit(self, ds):
        self.stats_ = {"largest": ds.max(self.column)}
        return self

    def _transform_pandas(self, df):
        return df.assign(**{self.column: df[self.column] / self.stats_["largest"]})


class Doubled(Preprocessor):
    _is_fittable = False

    def _transform_numpy(self, np_data):
        return {name: values * 2 for name, values in np_data.items()}


class TestOnesOwn:
    def test_it_learns_and_transforms(self):
        ds = skate.data.from_items([{"x": 1.0}, {"x": 4.0}])
        own = ByLargest("x")
        assert own.fit_status() is FitStatus.NOT_FITTED
        with pytest.raises(PreprocessorNotFittedError):
            own.transform(ds)
        assert own.fit_transform(ds).take_all() == [{"x": 0.25}, {"x": 1.0}]
        assert own.fit_status() is FitStatus.FITTED

    def test_one_that_learns_nothing(self):
        own = Doubled()
        assert own.fit_status() is FitStatus.NOT_FITTABLE
        assert own.transform(skate.data.range(2)).take_all() == [{"id": 0}, {"id": 2}]

    def test_batches_are_what_the_function_gives(self):
        frame = pd.DataFrame({"x": [1.0]})
        fitted = ByLargest("x").fit(skate.data.from_pandas(frame))
        assert isinstance(fitted.transform_batch(pa.table({"x": [1.0]})), pd.DataFrame)
        assert isinstance(Doubled().transform_batch(frame), dict)

    def test_the_preferred_format(self):
        class Both(Doubled):
            def _transform_pandas(self, df):
                raise AssertionError

            @classmethod
            def preferred_batch_format(cls):
                return "numpy"

        assert Both().transform_batch({"x": np.array([1])})["x"].tolist() == [2]

    def test_in_a_chain(self):
        ds = skate.data.from_items([{"x": 1.0}, {"x": 4.0}])
        chain = Chain(Doubled(), ByLargest("x"))
        assert chain.fit_transform(ds).take_all() == [{"x": 0.25}, {"x": 1.0}]

    def test_without_a_function(self):
        class Nothing(Preprocessor):
            _is_fittable = False

        with pytest.raises(NotImplementedError, match="_transform_pandas"):
            Nothing().transform(skate.data.range(1))

    def test_another_function_than_the_one_it_has(self):
        with pytest.raises(NotImplementedError, match="has no _transform_arrow; it has _t"):
            Doubled()._transform_arrow(pa.table({"x": [1]}))

    def test_a_batch_that_is_none(self):
        with pytest.raises(ValueError, match="list"):
            Doubled().transform_batch([1, 2])


class Centred(Preprocessor):
    """Learns by the plan of statistics, as preprocessors of Ray do."""

    def __init__(self, columns):
        self.columns = columns

    def _fit(self, ds):
        self.stat_computation_plan.add_aggregator(
            aggregator_fn=lambda column: Mean(column),
            post_process_fn=lambda mean: mean + 0.5,
            columns=self.columns,
        )
        self.stat_computation_plan.add_callable_stat(
            stat_fn=lambda key: {key(column): ds.count() for column in self.columns},
            stat_key_fn=lambda column: f"count({column})",
            post_key_fn=lambda column: f"rows({column})",
            columns=self.columns,
        )
        return self

    def _transform_pandas(self, df):
        for column in self.columns:
            df[column] -= self.stats_[f"mean({column})"]
        return df


def test_statistics_are_asked_for_in_fit_and_computed_once():
    ds = skate.data.from_items([{"a": 1.0}, {"a": 2.0}])
    centred = Centred(["a"])
    assert centred.fit(ds) is centred
    assert centred.stats_ == {"mean(a)": 2.0, "rows(a)": 2}
    assert centred.stat_computation_plan.has_custom_stat_fn()
    again = Preprocessor.deserialize(centred.serialize())
    assert again.transform(ds).to_pandas()["a"].tolist() == [-1.0, 0.0]


class TestCommon:
    def test_before_fit(self, ds):
        with pytest.raises(PreprocessorNotFittedError, match="fit first"):
            StandardScaler(["a"]).transform(ds)

    def test_a_wrong_column(self, ds):
        with pytest.raises(KeyError, match="'aa'"):
            StandardScaler(["aa"]).fit(ds)

    def test_batches_come_back_in_their_form(self, ds):
        scaler = StandardScaler(["a"]).fit(ds)
        assert isinstance(scaler.transform_batch(FRAME), pd.DataFrame)
        assert isinstance(scaler.transform_batch({"a": np.ones(2)}), dict)

    def test_chain_fits_each_on_what_comes_before(self, ds):
        chain = Chain(
            StandardScaler(["a"]),
            BatchMapper(lambda frame: frame.assign(a=frame["a"] * 2)),
            MaxAbsScaler(["a"]),
        )
        found = chain.fit_transform(ds).to_pandas()["a"]
        assert found.abs().max() == pytest.approx(1)
        assert chain.transform_batch(FRAME)["a"].tolist() == pytest.approx(found.tolist())

    def test_it_survives_a_checkpoint(self, ds):
        scaler = Chain(MinMaxScaler(["a"]), OneHotEncoder(["c"])).fit(ds)
        back = Preprocessor.deserialize(scaler.serialize())
        pd.testing.assert_frame_equal(back.transform_batch(FRAME), scaler.transform_batch(FRAME))

    def test_a_second_fit_warns(self, ds):
        scaler = StandardScaler(["a"]).fit(ds)
        with pytest.warns(UserWarning, match="already been called on this StandardScaler"):
            scaler.fit(ds)

    def test_plans_and_statistics_name_it(self, ds):
        scaled = StandardScaler(["a"]).fit_transform(ds)
        assert repr(scaled).startswith("StandardScaler\n+- Dataset(")
        assert "Operator 1 StandardScaler:" in scaled.materialize().stats()

    def test_counts_are_lists(self):
        frame = pd.DataFrame({"t": ["x y x", None], "l": [["u", "v"], ["v"]]})
        ds = skate.data.from_pandas(frame)
        words = CountVectorizer(["t"]).fit(ds).transform_batch(frame)["t"]
        assert list(words) == [[2, 1], None]
        assert HashingVectorizer(["t"], 1).transform_batch(frame)["t"][0] == [3]
        assert list(MultiHotEncoder(["l"]).fit(ds).transform_batch(frame)["l"]) == [[1, 1], [0, 1]]

    def test_bins_for_each_column(self):
        with pytest.raises(ValueError, match=r"`bins`.*none for \['b'\]"):
            UniformKBinsDiscretizer(["a", "b"], bins={"a": 2})
