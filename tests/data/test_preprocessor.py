"""Preprocessors of one's own, and what those of skate make of missing values and pandas' types."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skate.data
from skate.data.aggregate import Mean
from skate.data.preprocessor import FitStatus, Preprocessor, PreprocessorNotFittedError
from skate.data.preprocessors import (
    Chain,
    Concatenator,
    CountVectorizer,
    CustomKBinsDiscretizer,
    FeatureHasher,
    HashingVectorizer,
    MaxAbsScaler,
    MinMaxScaler,
    MultiHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    SimpleImputer,
    StandardScaler,
    Tokenizer,
    UniformKBinsDiscretizer,
)

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]


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

    def test_a_batch_that_is_none(self):
        with pytest.raises(ValueError, match="list"):
            Doubled().transform_batch([1, 2])


GAPS = pa.table(
    {
        "n": pa.array([1.0, -2.0, None], pa.float64()),
        "m": pa.array([3.0, 4.0, 5.0], pa.float64()),
        "i": pa.array([1, 2, None], pa.int64()),
        "t": ["x y", "y", None],
        "l": [["a"], ["b"], None],
        "none": pa.array([None] * 3, pa.float64()),
    }
)


def results(preprocessor, column):
    ds = skate.data.from_arrow(GAPS)
    return [row[column] for row in preprocessor.fit_transform(ds).take_all()]


def is_missing(value):
    return value is None or (isinstance(value, float) and value != value)


class TestMissing:
    @pytest.mark.parametrize(
        "make",
        [
            StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler,
            lambda columns: UniformKBinsDiscretizer(columns, bins=2),
            lambda columns: CustomKBinsDiscretizer(columns, bins=[-9, 0, 9]),
        ],
    )  # fmt: skip
    def test_numbers_stay_missing(self, make):
        found = results(make(["n"]), "n")
        assert [is_missing(value) for value in found] == [False, False, True]

    @pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler])
    def test_a_column_without_numbers(self, scaler):
        assert all(map(is_missing, results(scaler(["none"]), "none")))

    def test_nothing_to_bin(self):
        with pytest.raises(ValueError, match="'none' has no values to bin"):
            results(UniformKBinsDiscretizer(["none"], bins=2), "none")

    @pytest.mark.parametrize(
        "make",
        [Tokenizer, CountVectorizer, lambda columns: HashingVectorizer(columns, num_features=4)],
    )
    def test_texts_stay_missing(self, make):
        found = results(make(["t"]), "t")
        assert [value is None for value in found] == [False, False, True]

    def test_vectors_hold_nan(self):
        joined = results(Concatenator(["n", "m"]), "concat_out")
        assert joined[2].dtype == np.float64
        assert np.isnan(joined[2]).tolist() == [True, False]
        hashed = results(FeatureHasher(["n", "m"], 4, "h"), "h")
        assert np.isnan(hashed[2]).any()
        assert not np.isnan(hashed[0]).any()

    @pytest.mark.parametrize(
        ("encoder", "column"), [(OrdinalEncoder, "t"), (MultiHotEncoder, "l")]
    )
    def test_categories_are_never_missing(self, encoder, column):
        with pytest.raises(ValueError, match=f"'{column}' has null values"):
            results(encoder([column]), column)

    def test_integers_become_what_fills_them(self):
        assert results(SimpleImputer(["i"]), "i") == [1, 2, 1.5]

    def test_categories_are_filled_with_a_new_one(self):
        column = pd.Series(["apple", None], dtype="category")
        ds = skate.data.from_pandas(pd.DataFrame({"c": column}))
        filled = SimpleImputer(["c"], "constant", "other").transform(ds).to_pandas()["c"]
        assert filled.tolist() == ["apple", "other"]
        assert filled.dtype == "category"


class TestPandasTypes:
    @pytest.fixture
    def scaler(self):
        return StandardScaler(["n"]).fit(skate.data.from_arrow(pa.table({"n": [1, 2, 3]})))

    def test_what_is_not_scaled_stays_as_it_is(self, scaler):
        whole = pd.array([2**60 + 1, None], "Int64")
        frame = pd.DataFrame({"n": [1.0, 2.0], "k": whole}, index=[7, 8])
        found = scaler.transform_batch(frame)
        assert found["k"].dtype == "Int64"
        assert found["k"].iloc[0] == 2**60 + 1
        assert found.index.tolist() == [7, 8]

    def test_columns_of_arrow_stay_arrows(self, scaler):
        frame = pd.DataFrame({"n": [1, 2]}).convert_dtypes(dtype_backend="pyarrow")
        assert isinstance(scaler.transform_batch(frame)["n"].dtype, pd.ArrowDtype)

    def test_bins_with_names(self):
        frame = pd.DataFrame({"a": [0.2, 9.7], "b": [0.2, 9.7]})
        named = pd.CategoricalDtype(["low", "high"], ordered=True)
        bins = UniformKBinsDiscretizer(["a", "b"], bins=2, dtypes={"a": int, "b": named})
        found = bins.fit_transform(skate.data.from_pandas(frame)).to_pandas()
        assert found["a"].tolist() == [0, 1]
        assert found["b"].tolist() == ["low", "high"]

    @pytest.mark.parametrize(("bins", "error"), [("abc", TypeError), (0, ValueError)])
    def test_bins_that_are_none(self, bins, error):
        ds = skate.data.from_items([{"a": 1.0}])
        with pytest.raises(error, match="bins"):
            UniformKBinsDiscretizer(["a"], bins=bins).fit(ds)


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
