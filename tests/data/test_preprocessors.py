"""Preprocessors: what they learn and what they make of it, against pandas and scikit-learn."""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import preprocessing as sklearn

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
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    RobustScaler,
    SimpleImputer,
    StandardScaler,
    Tokenizer,
    TorchVisionPreprocessor,
    UniformKBinsDiscretizer,
)

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]

FRAME = pd.DataFrame(
    {"a": [1.0, -2.0, 3.5, 10.0], "b": [4.0, 4.0, 4.0, 4.0], "c": ["x", "y", "x", "z"]}
)


@pytest.fixture
def ds():
    return skate.data.from_pandas(FRAME)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (StandardScaler(["a"]), sklearn.StandardScaler()),
        (MinMaxScaler(["a"]), sklearn.MinMaxScaler()),
        (MaxAbsScaler(["a"]), sklearn.MaxAbsScaler()),
        (RobustScaler(["a"]), sklearn.RobustScaler()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_scalers_are_those_of_scikit_learn(ds, ours, theirs):
    found = ours.fit_transform(ds).to_pandas()["a"]
    np.testing.assert_allclose(found, theirs.fit_transform(FRAME[["a"]])[:, 0])


@pytest.mark.parametrize("scaler", [StandardScaler, MinMaxScaler, RobustScaler])
def test_a_column_that_does_not_vary_becomes_zero(ds, scaler):
    assert scaler(["b"]).fit_transform(ds).to_pandas()["b"].tolist() == [0, 0, 0, 0]


def test_normalizer(ds):
    found = Normalizer(["a", "b"]).transform(ds).to_pandas()[["a", "b"]].to_numpy()
    np.testing.assert_allclose((found**2).sum(axis=1), 1)


@pytest.mark.parametrize("power", [0, 0.5, 2])
def test_power_transformer(ds, power):
    yeojohnson = import_module("scipy.stats").yeojohnson
    found = PowerTransformer(["a"], power).transform(ds).to_pandas()["a"]
    np.testing.assert_allclose(found, yeojohnson(FRAME["a"].to_numpy(), power))


class TestEncoders:
    def test_ordinal(self, ds):
        encoder = OrdinalEncoder(["c"]).fit(ds)
        assert encoder.transform(ds).to_pandas()["c"].tolist() == [0, 1, 0, 2]
        unknown = encoder.transform_batch(pd.DataFrame({"c": ["x", "q"]}))["c"]
        assert unknown[0] == 0
        assert pd.isna(unknown[1])

    def test_one_hot(self, ds):
        rows = OneHotEncoder(["c"], output_columns=["h"]).fit_transform(ds).take_all()
        assert [row["h"].tolist() for row in rows] == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]
        few = OneHotEncoder(["c"], max_categories={"c": 1}).fit_transform(ds).take_all()
        assert [row["c"].tolist() for row in few] == [[1], [0], [1], [0]]

    def test_multi_hot(self):
        lists = skate.data.from_items([{"t": ["a", "b", "a"]}, {"t": []}])
        rows = MultiHotEncoder(["t"]).fit_transform(lists).take_all()
        assert [row["t"] for row in rows] == [[2, 1], [0, 0]]

    def test_labels_and_back(self, ds):
        encoder = LabelEncoder("c")
        encoded = encoder.fit_transform(ds)
        assert encoded.to_pandas()["c"].tolist() == [0, 1, 0, 2]
        assert encoder.inverse_transform(encoded).to_pandas()["c"].tolist() == ["x", "y", "x", "z"]

    def test_categories(self, ds):
        assert Categorizer(["c"]).fit_transform(ds).to_pandas()["c"].tolist() == list("xyxz")

    def test_missing_values_say_what_to_do(self):
        with pytest.raises(ValueError, match="SimpleImputer"):
            OrdinalEncoder(["c"]).fit(skate.data.from_items([{"c": "a"}, {"c": None}]))


@pytest.mark.parametrize(
    ("strategy", "expected"), [("mean", 2.0), ("most_frequent", 1.0), ("constant", 9.0)]
)
def test_imputer(strategy, expected):
    values = [{"v": 1.0}, {"v": None}, {"v": 1.0}, {"v": 4.0}]
    fill = {"fill_value": 9.0} if strategy == "constant" else {}
    imputer = SimpleImputer(["v"], strategy, **fill)
    found = imputer.fit_transform(skate.data.from_items(values)).take_all()
    assert found[1]["v"] == expected


def test_concatenator(ds):
    row = Concatenator(["a", "b"], dtype=np.float32).transform(ds).take(1)[0]
    assert row["concat_out"].dtype == np.float32
    assert row["concat_out"].tolist() == [1.0, 4.0]
    assert set(row) == {"c", "concat_out"}


class TestBins:
    def test_custom(self, ds):
        found = CustomKBinsDiscretizer(["a"], bins=[-5, 0, 5, 20]).transform(ds).to_pandas()
        assert found["a"].tolist() == [1, 0, 1, 2]

    def test_uniform(self, ds):
        found = UniformKBinsDiscretizer(["a"], bins=3).fit_transform(ds).to_pandas()
        assert found["a"].tolist() == pd.cut(FRAME["a"], 3, labels=False).tolist()


class TestText:
    texts = ("a b a", "c")

    @pytest.fixture
    def ds(self):
        return skate.data.from_items([{"t": text} for text in self.texts])

    def test_tokenizer(self, ds):
        assert [row["t"] for row in Tokenizer(["t"]).transform(ds).take_all()] == [
            ["a", "b", "a"], ["c"],
        ]  # fmt: skip

    def test_counts(self, ds):
        rows = CountVectorizer(["t"], max_features=1).fit_transform(ds).take_all()
        assert [row["t"].tolist() for row in rows] == [[2], [0]]

    def test_hashes(self, ds):
        rows = HashingVectorizer(["t"], num_features=8).transform(ds).take_all()
        assert [int(row["t"].sum()) for row in rows] == [3, 1]

    def test_feature_hasher(self):
        counts = skate.data.from_items([{"x": 1, "y": 2}])
        row = FeatureHasher(["x", "y"], 4, "h").transform(counts).take()[0]
        assert row["h"].sum() == 3


def test_torchvision_transforms():
    images = skate.data.from_numpy(np.ones((2, 4, 4, 3), np.uint8))
    to_first = TorchVisionPreprocessor(
        ["data"], lambda image: torch.as_tensor(image).permute(2, 0, 1)
    )
    assert to_first.transform(images).take(1)[0]["data"].shape == (3, 4, 4)


class TestSimpleImputer:
    def test_adds_a_column_that_is_absent(self) -> None:
        rows = skate.data.from_items([{"b": 1}, {"b": 2}])
        filled = SimpleImputer(["a"], "constant", fill_value=7).transform(rows)
        assert filled.take_all() == [{"b": 1, "a": 7}, {"b": 2, "a": 7}]

    def test_that_was_there_when_it_learnt(self) -> None:
        learnt = SimpleImputer(["a"], "mean").fit(skate.data.from_items([{"a": 1.0}, {"a": 3.0}]))
        batch = learnt.transform_batch(pd.DataFrame({"b": [5]}))
        assert batch.to_dict("list") == {"b": [5], "a": [2.0]}
        assert np.dtype(batch["a"].dtype).kind == "f"


@pytest.mark.parametrize("encoder", [MultiHotEncoder, OrdinalEncoder])
def test_arrays_of_text_are_lists_of_categories(encoder):
    frame = pd.DataFrame({"tags": [np.array(["a"]), np.array(["a", "b"])]})
    rows = skate.data.from_pandas(frame)
    fitted = encoder(["tags"]).fit(rows)
    assert fitted.stats_ == {"unique_values(tags)": {"a": 0, "b": 1}}
    expected = {MultiHotEncoder: [[1, 0], [1, 1]], OrdinalEncoder: [[0], [0, 1]]}[encoder]
    assert [list(row["tags"]) for row in fitted.transform(rows).take_all()] == expected


def test_a_concatenator_shows_what_it_was_given():
    assert repr(Concatenator(columns=["a"])) == "Concatenator(columns=['a'])"
    assert repr(Concatenator(exclude="b", dtype=np.float32)).startswith(
        "Concatenator(dtype=<class 'numpy.float32'>, exclude=['b']"
    )


def test_preprocessors_show_their_arguments_in_order():
    binned = UniformKBinsDiscretizer(["a"], bins=2)
    assert repr(binned).startswith("UniformKBinsDiscretizer(columns=['a'], bins=2, right=True")
    encoded = LabelEncoder("a", output_column="b")
    assert repr(encoded) == "LabelEncoder(label_column='a', output_column='b')"


class TestStatesOfOtherVersions:
    """Pickles in which a parameter has another name, or none yet."""

    def made(self, kind, state):
        found = kind.__new__(kind)
        found.__setstate__(state)
        return found

    def test_names_that_begin_with_an_underscore(self, ds):
        scaler = StandardScaler(["a"]).fit(ds)
        same = self.made(StandardScaler, {"_columns": ["a"], "stats_": scaler.stats_})
        assert same.output_columns == ["a"]
        assert same.transform(ds).to_pandas().equals(scaler.transform(ds).to_pandas())

    def test_parameters_that_are_missing_have_their_defaults(self):
        assert self.made(Normalizer, {"columns": ["a", "b"]}).norm == "l2"
        assert self.made(LabelEncoder, {"label_column": "a"}).output_column == "a"
        assert callable(self.made(Tokenizer, {"columns": ["c"]}).tokenization_fn)

    def test_a_class_of_ones_own_is_not_made_anew(self):
        class Counted(StandardScaler):
            def __init__(self, column="a"):
                raise AssertionError("it is in the pickle")

        assert self.made(Counted, {"columns": ["b"], "mine": 3}).mine == 3
