"""What runs a dataset: take, limit, count, materialize, show."""

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
        assert repr(done) == "MaterializedDataset(num_rows=3, schema={double: int64})"
        skate.shutdown()
        assert repr(done).startswith("MaterializedDataset(num_rows=3, schema=")
        assert not skate.is_initialized()

    def test_materialize_runs_once(self, tally):
        def count(row):
            tally.add()
            return row

        done = skate.data.range(3).map(count).materialize()
        assert done.take_all() == done.take_all()
        assert len(tally.words()) == 3
        assert done.num_blocks() >= 1
