"""Plans as text."""

import pytest

import skate
import skate.data
from skate.data.expressions import col

pytestmark = pytest.mark.usefixtures("engine")


def test_explain_shows_the_stages_and_what_is_read(tmp_path, capsys):
    skate.data.from_items([{"a": n, "b": n} for n in range(4)]).write_parquet(tmp_path)
    dataset = skate.data.read_parquet(tmp_path).filter(expr="a > 1").select_columns(["b"])
    dataset.map(lambda row: row).explain()
    optimised, stages = capsys.readouterr().out.split("Optimised plan")[1].split("Stages")
    assert "ReadParquet[columns=['b'], filter=(a > 1)]" in optimised
    assert "ReadParquet->Map(<lambda>) (tasks)" in stages


def test_a_plan_of_several_inputs():
    left = skate.data.range(3).map(lambda row: row)
    assert repr(left.zip(skate.data.range(3)).random_shuffle()) == (
        "RandomShuffle\n"
        "+- Zip\n"
        "   +- Map(<lambda>)\n"
        "      +- Dataset(num_rows=3, schema={id: int64})\n"
        "   +- Dataset(num_rows=3, schema={id: int64})"
    )


def test_stats_and_plans_name_the_operators(capsys):
    dataset = skate.data.range(5).map(lambda row: row)
    dataset.take_all()
    assert "ReadRange->Map(<lambda>)" in dataset.stats()
    assert "5 rows" in dataset.stats()
    dataset.explain()
    assert "Map(<lambda>)\n +- ReadRange" in capsys.readouterr().out
    assert repr(dataset) == "Map(<lambda>)\n+- Dataset(num_rows=5, schema={id: int64})"
    assert "Map" in dataset._repr_html_()


def test_limits_are_named_as_in_ray():
    dataset = skate.data.range(3).map(lambda row: row).limit(2)
    assert repr(dataset).startswith("limit=2\n+- Map(<lambda>)\n")


def test_filters_by_expressions_are_named_by_them():
    rows = skate.data.range(3).map_batches(lambda batch: batch)
    assert str(rows.filter(expr="id > 1")).startswith("Filter(col('id') > 1)\n")
    both = (col("id") > 1) & (col("id") < 5)
    assert str(rows.filter(expr=both)).startswith("Filter((col('id') > 1) & (col('id') < 5))\n")
    among = (col("id") + 1).is_in([2])
    assert str(rows.filter(expr=among)).startswith("Filter((col('id') + 1).is_in([2]))\n")
