"""What runs a dataset: take, limit, count, materialize, show."""

import numpy as np
import pytest

import skate
import skate.data

pytestmark = pytest.mark.usefixtures("engine")


@pytest.mark.engines("inline")
def test_no_batch_of_nothing():
    with pytest.raises(ValueError, match="empty"):
        skate.data.range(0).take_batch()


class TestConsumption:
    def test_limit_computes_no_more_than_needed(self, tally):
        def count(row):
            tally.add()
            return row

        assert len(skate.data.range(1000).map(count).take(5)) == 5
        assert len(tally.words()) == 5

    def test_take_all_with_a_limit(self):
        with pytest.raises(ValueError, match="more rows than the limit, 2"):
            skate.data.range(3).take_all(limit=2)

    def test_show(self, capsys):
        skate.data.from_items([{"a": 1}, {"a": 2}]).show(limit=1)
        assert capsys.readouterr().out == "{'a': 1}\n"

    def test_what_is_materialized_shows_its_columns(self):
        done = skate.data.range(3).map(lambda row: {"double": 2 * row["id"]}).materialize()
        assert repr(done) == (
            "shape: (3, 1)\n"
            "╭────────╮\n"
            "│ double │\n"
            "│ ---    │\n"
            "│ int64  │\n"
            "╞════════╡\n"
            "│ 0      │\n"
            "│ 2      │\n"
            "│ 4      │\n"
            "╰────────╯\n"
            "(Showing 3 of 3 rows)"
        )
        skate.shutdown()
        assert "3" in repr(done).splitlines()[0]
        assert not skate.is_initialized()

    def test_of_many_rows_the_first_and_the_last_are_shown(self):
        done = skate.data.range(100, override_num_blocks=7).sort("id").materialize()
        done.set_name("numbers")
        lines = repr(done).splitlines()
        cells = [line.strip("│ ") for line in lines if line.startswith("│")]
        assert lines[:2] == ["name: numbers", "shape: (100, 1)"]
        assert cells[3:] == ["0", "1", "2", "3", "4", "…", "95", "96", "97", "98", "99"]
        assert lines[-1] == "(Showing 10 of 100 rows)"

    def test_cells_are_one_line_of_bounded_width(self):
        row = {"text": "x" * 50, "lines": "a\nb", "tensor": np.zeros((2, 2)), "none": None}
        rows = repr(skate.data.from_items([row])).splitlines()
        cells = [cell.strip() for cell in rows[6].strip("│").split("┆")]
        assert cells == ["x" * 39 + "…", "a b", "[[0. 0.]  [0. 0.]]", "None"]

    def test_columns_that_are_known_before_rows_are(self):
        text = repr(skate.data.range(5).random_shuffle())
        assert text.splitlines() == [
            "shape: (5, 1)",
            "╭───────╮",
            "│ id    │",
            "│ ---   │",
            "│ int64 │",
            "╰───────╯",
            "(Dataset isn't materialized)",
        ]

    def test_materialize_runs_once(self, tally):
        def count(row):
            tally.add()
            return row

        done = skate.data.range(3).map(count).materialize()
        assert done.take_all() == done.take_all()
        assert len(tally.words()) == 3
        assert done.num_blocks() >= 1
