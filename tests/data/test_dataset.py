"""A dataset as an object: what it says of itself, and how it travels."""

import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("local")
def test_no_length():
    for kind in (TypeError, AttributeError):
        with pytest.raises(kind, match="count"):
            len(skate.data.range(1))


def test_a_dataset_is_always_true() -> None:
    assert skate.data.range(0)
    assert bool(skate.data.from_items([1]))


def test_lineage():
    dataset = skate.data.range(4).map(lambda row: {"x": row["id"] + 1})
    again = skate.data.Dataset.deserialize_lineage(dataset.serialize_lineage())
    assert again.get_dataset_id() == dataset.get_dataset_id()
    dataset._set_uuid("mine")
    assert dataset._get_uuid() == dataset.get_dataset_id() == "mine"
    assert [row["x"] for row in again.take_all()] == [1, 2, 3, 4]
    kept = skate.data.from_items([1]).union(skate.data.from_items([2]))
    assert not kept.has_serializable_lineage()
    with pytest.raises(ValueError, match="rows in memory"):
        kept.serialize_lineage()


def test_html():
    page = skate.data.from_items([{"<a>": 1}])._repr_html_()
    assert "&lt;a&gt;" in page
    assert "<table>" in page


def test_a_dataset_travels():
    dataset = skate.data.from_items([1, 2, 3])

    @skate.remote
    def total(given):
        return given.sum("item")

    assert skate.get(total.remote(dataset)) == 6


def test_habits_of_pandas_are_answered():
    with pytest.raises(AttributeError, match=r"no 'head' as frames have: use take\(n\)"):
        skate.data.range(1).head()
