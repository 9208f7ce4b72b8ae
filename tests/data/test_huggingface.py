"""Datasets of Hugging Face."""

import datasets
import numpy as np
import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


class TestHuggingFace:
    def test_a_dataset(self):
        given = datasets.Dataset.from_dict({"a": [1, 2, 3], "b": ["x", "y", None]})
        found = skate.data.from_huggingface(given)
        assert found.take_all() == given.to_list()
        chosen = given.select([2, 0])
        assert [row["a"] for row in skate.data.from_huggingface(chosen).take_all()] == [3, 1]
        assert skate.data.from_huggingface(given, override_num_blocks=2).num_blocks() == 2

    def test_features_keep_their_types(self):
        features = datasets.Features(
            {
                "label": datasets.ClassLabel(names=["cat", "dog"]),
                "pixels": datasets.Array2D((2, 2), "uint8"),
            }
        )
        rows = {"label": [1, 0], "pixels": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]}
        given = datasets.Dataset.from_dict(rows, features=features)
        found = skate.data.from_huggingface(given).take_all()
        assert [row["label"] for row in found] == [1, 0]
        np.testing.assert_array_equal(np.stack(found[1]["pixels"]), [[5, 6], [7, 8]])

    def test_a_stream(self):
        given = datasets.Dataset.from_dict({"a": [1, 2]}).to_iterable_dataset()
        assert skate.data.from_huggingface(given).sum("a") == 3

    def test_several_at_once_must_be_chosen_from(self):
        one = datasets.Dataset.from_dict({"a": [1]})
        with pytest.raises(ValueError, match=r"pick one of \['train', 'test'\]"):
            skate.data.from_huggingface(datasets.DatasetDict({"train": one, "test": one}))
        with pytest.raises(DeprecationWarning, match="Hugging Face DatasetDict"):  # as in Ray
            skate.data.from_huggingface(datasets.DatasetDict({"train": one}))
