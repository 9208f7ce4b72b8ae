"""Functions of users on rows and batches, and operations on columns."""

import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("local")
class TestNamesOfColumns:
    @pytest.mark.parametrize(
        ("names", "error"),
        [(42, TypeError), ([], ValueError), (["a", 1], ValueError), (["a", "a"], ValueError)],
    )
    def test_names_of_columns(self, names, error):
        with pytest.raises(error, match="rename_columns"):
            skate.data.range(1).rename_columns(names)

    def test_as_many_names_as_columns(self):
        with pytest.raises(ValueError, match="2 names for the 1 columns"):
            skate.data.range(1).rename_columns(["a", "b"])

    def test_columns_are_named(self):
        with pytest.raises(TypeError, match="select_columns requires names"):
            skate.data.range(1).select_columns(None)
        with pytest.raises(ValueError, match="drop_columns expects unique"):
            skate.data.range(1).drop_columns(["id", "id"])
        with pytest.raises(ValueError, match="given by a string; got 5"):
            skate.data.range(1).mean(5)


def pairs(count=20):
    return skate.data.from_items([{"x": n, "y": n} for n in range(count)])


def test_renaming_onto_another_column_is_refused():
    with pytest.raises(ValueError, match="several columns are called 'y'"):
        pairs().rename_columns({"x": "y"}).take_all()
    assert pairs(1).rename_columns({"x": "y", "y": "x"}).take_all() == [{"y": 0, "x": 0}]


@pytest.mark.engines("inline")
def test_a_promise_to_keep_the_number_of_rows():
    seen = []

    def look(batch):
        seen.extend(batch["id"].tolist())
        return batch

    ds = skate.data.range(100).map_batches(look, udf_modifying_row_count=False)
    assert ds.limit(3).count() == 3
    assert seen == [0, 1, 2]
