"""Preprocessors on data as it is: missing values, unknown categories, pandas' types."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import skate
import skate.data
from skate.data.preprocessors import (
    Categorizer,
    Concatenator,
    CountVectorizer,
    CustomKBinsDiscretizer,
    FeatureHasher,
    HashingVectorizer,
    LabelEncoder,
    MaxAbsScaler,
    MinMaxScaler,
    MultiHotEncoder,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    SimpleImputer,
    StandardScaler,
    Tokenizer,
    UniformKBinsDiscretizer,
)

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]

VALUES = [1.0, float("nan"), 3.0, float("nan"), 3.0, 5.0]


@pytest.fixture
def gaps():
    """NaN, not None, in several blocks."""
    blocks = [{"v": np.array(VALUES[n : n + 2]), "other": np.zeros(2)} for n in (0, 2, 4)]
    dataset = skate.data.from_blocks(
        [skate.data.block.BlockAccessor.batch_to_block(b) for b in blocks]
    )
    assert np.isnan(dataset.to_pandas()["v"]).sum() == 2
    return dataset


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


@pytest.mark.parametrize(("strategy", "expected"), [("mean", 3.0), ("most_frequent", 3.0)])
def test_an_imputer_fills_nan(gaps, strategy, expected):
    found = SimpleImputer(["v"], strategy).fit_transform(gaps).to_pandas()["v"]
    assert found.tolist() == [1, expected, 3, expected, 3, 5]


def test_a_constant_needs_no_fit(gaps):
    imputer = SimpleImputer(["v"], "constant", fill_value=9.0)
    assert imputer.transform(gaps).to_pandas()["v"].tolist() == [1, 9, 3, 9, 3, 5]
    assert imputer.fit_status().value == "NOT_FITTABLE"


def test_a_column_with_nothing_known():
    nothing = skate.data.from_pandas(pd.DataFrame({"v": [None, None]}, dtype=float))
    with pytest.raises(ValueError, match="'v' has no fill value"):
        SimpleImputer(["v"]).fit_transform(nothing).take_all()


@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler, RobustScaler])
def test_scalers_learn_from_what_is_known(gaps, scaler):
    found = scaler(["v"]).fit_transform(gaps).to_pandas()["v"]
    known = skate.data.from_items([{"v": v} for v in VALUES if v == v])
    expected = scaler(["v"]).fit(known).transform(gaps).to_pandas()["v"]
    np.testing.assert_allclose(found, expected)
    assert np.isfinite(found[[0, 2, 4, 5]]).all()


def test_bins_of_what_is_known(gaps):
    found = UniformKBinsDiscretizer(["v"], bins=2).fit_transform(gaps).to_pandas()["v"]
    assert found[[0, 2, 4, 5]].tolist() == [0, 0, 0, 1]


def test_categories_of_what_is_known(gaps):
    categorizer = Categorizer(["v"]).fit(gaps)
    assert categorizer.stats_["v"].categories.tolist() == [1, 3, 5]


class TestEncoders:
    @pytest.mark.parametrize(
        "values",
        [
            [3, 1, 2, 1], ["b", "a", "b", "c"], [b"b", b"a", b"b", b"c"],
            [True, False, True, True], [0.5, 1.5, 0.5, 2.5],
            [(1, 2), (3,), (1, 2), ()],
        ],
        ids=lambda values: type(values[0]).__name__,
    )  # fmt: skip
    def test_values_of_all_kinds_in_many_blocks(self, values):
        dataset = skate.data.from_items(
            [{"c": list(v) if isinstance(v, tuple) else v} for v in values], override_num_blocks=4
        )
        places = {value: n for n, value in enumerate(sorted(set(values)))}
        expected = [places[value] for value in values]
        ordinal = OrdinalEncoder(["c"], encode_lists=False).fit(dataset)
        assert ordinal.stats_["unique_values(c)"] == places
        assert ordinal.transform(dataset).to_pandas()["c"].tolist() == expected
        hot = OneHotEncoder(["c"]).fit_transform(dataset).take_all()
        assert [int(np.argmax(row["c"])) for row in hot] == expected
        assert all(sum(row["c"]) == 1 for row in hot)

    def test_unknown_ones(self):
        known = skate.data.from_items([{"c": "a"}, {"c": "b"}])
        batch = pd.DataFrame({"c": ["b", "q"]})
        assert OneHotEncoder(["c"]).fit(known).transform_batch(batch)["c"][1].tolist() == [0, 0]
        labels = LabelEncoder("c").fit(known).transform_batch(batch)["c"]
        assert labels[0] == 1
        assert pd.isna(labels[1])

    def test_elements_of_lists_and_vectors(self):
        lists = skate.data.from_items([{"t": ["a", "b", "a"]}, {"t": []}, {"t": ["q"]}])
        encoder = MultiHotEncoder(["t"], max_categories={"t": 1})
        rows = encoder.fit_transform(lists).take_all()
        assert [row["t"] for row in rows] == [[2], [0], [0]]
        vectors = skate.data.from_items([{"t": np.array([4, 5])}, {"t": np.array([5, 5])}])
        rows = MultiHotEncoder(["t"]).fit_transform(vectors).take_all()
        assert [row["t"] for row in rows] == [[1, 1], [0, 2]]
        ordinal = OrdinalEncoder(["t"]).fit_transform(vectors).take_all()
        assert [list(row["t"]) for row in ordinal] == [[0, 1], [1, 1]]


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
