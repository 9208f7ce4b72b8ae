"""Preprocessors on data as it is: missing numbers, unknown categories, many blocks."""

import numpy as np
import pandas as pd
import pytest

import skate
import skate.data
from skate.data.preprocessors import (
    Categorizer,
    LabelEncoder,
    MinMaxScaler,
    MultiHotEncoder,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    SimpleImputer,
    StandardScaler,
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
        assert all(row["c"].sum() == 1 for row in hot)

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
        assert [row["t"].tolist() for row in rows] == [[2], [0], [0]]
        vectors = skate.data.from_items([{"t": np.array([4, 5])}, {"t": np.array([5, 5])}])
        rows = MultiHotEncoder(["t"]).fit_transform(vectors).take_all()
        assert [row["t"].tolist() for row in rows] == [[1, 1], [0, 2]]
        ordinal = OrdinalEncoder(["t"]).fit_transform(vectors).take_all()
        assert [list(row["t"]) for row in ordinal] == [[0, 1], [1, 1]]


class TestRandomAccess:
    @pytest.mark.parametrize("keys", [list(range(0, 200, 2)), [f"k{n:03}" for n in range(100)]])
    def test_keys(self, keys):
        rows = [{"k": key, "n": n} for n, key in enumerate(keys)]
        shuffled = skate.data.from_items([*rows[50:], {"k": None, "n": -1}, *rows[:50]])
        found = shuffled.to_random_access_dataset("k", num_workers=3)
        assert found.multiget([keys[7], keys[99], keys[0]]) == [rows[7], rows[99], rows[0]]
        absent = 1 if keys[0] == 0 else "k0001"
        assert found.multiget([absent, keys[3]]) == [None, rows[3]]
        assert skate.get(found.get_async(keys[42])) == rows[42]
