"""Expressions that depend on where a block stands, and where expressions run."""

import os

import numpy as np
import pyarrow as pa
import pytest

import skate.data
from skate.data.expressions import col, lit, monotonically_increasing_id, random, udf
from tests.support import local_only

pytestmark = pytest.mark.usefixtures("engine")


def blocks(count=4):
    return skate.data.range(40, override_num_blocks=count)


class TestRowsBefore:
    def test_a_filter_counts_on_from_block_to_block(self):
        kept = blocks().filter(expr=monotonically_increasing_id() >= 15).take_all()
        assert [row["id"] for row in kept] == list(range(15, 40))

    def test_a_random_filter_is_the_same_for_any_blocks(self):
        kept = [
            [row["id"] for row in blocks(count).filter(expr=random(seed=1) < 0.5).take_all()]
            for count in (1, 4)
        ]
        assert kept[0] == kept[1]
        tens = [{n % 10 for n in kept[1] if n // 10 == ten} for ten in range(4)]
        assert any(ten != tens[0] for ten in tens)

    @pytest.mark.parametrize(
        "expression",
        [
            col("id") // (monotonically_increasing_id() + 1),
            lit(0) % (monotonically_increasing_id() + 1),
            monotonically_increasing_id().cast(pa.string()).str.len(),
            udf()(lambda column: column)(monotonically_increasing_id()),
        ],
        ids=str,
    )
    def test_all_that_is_made_of_it_counts_too(self, expression):
        assert expression.counts_rows

    def test_executions_side_by_side_do_not_mix(self):
        drawn = blocks().with_column("r", random(seed=1, reseed_after_execution=False))
        alone = [row["r"] for row in drawn.take_all()]
        pairs = list(zip(drawn.iter_rows(), drawn.iter_rows(), strict=True))
        assert [(one["r"], other["r"]) for one, other in pairs] == [(r, r) for r in alone]

    def test_numbers_without_a_seed_differ(self):
        drawn = blocks().with_column("r", random())
        first, second = ([row["r"] for row in drawn.take_all()] for _ in range(2))
        assert len({*first, *second}) == 80


@local_only
class TestWhereFunctionsRun:
    def test_the_user_s_function_stays_out_of_the_driver(self):
        @udf()
        def process(column):
            return pa.array([str(os.getpid())] * len(column))

        upper = process(col("id")).str.upper()
        assert upper.runs_python
        found = {row["p"] for row in blocks().with_column("p", upper).take_all()}
        assert str(os.getpid()) not in found
        driver = str(os.getpid())
        assert blocks().filter(expr=process(col("id")) == driver).count() == 0


class TestWholeNumbers:
    LARGE = 2**53 + 1

    @pytest.mark.parametrize("b", [7, -7, 1, 2**40])
    @pytest.mark.parametrize("a", [LARGE, -LARGE, 8, -8, 0])
    def test_division_is_that_of_python(self, a, b):
        table = pa.table({"a": [a], "b": [b]})
        assert (col("a") // col("b")).evaluate(table)[0].as_py() == a // b
        assert (col("a") % col("b")).evaluate(table)[0].as_py() == a % b

    def test_of_fractions(self):
        table = pa.table({"a": [7.5, -7.5, None]})
        assert (col("a") // 2).evaluate(table).to_pylist() == [3.0, -4.0, None]
        assert (col("a") % 2).evaluate(table).to_pylist() == [1.5, 0.5, None]
        assert (col("a") % 2).get_type(table.schema) == pa.float64()


def test_numbers_of_a_seed_are_those_of_numpy():
    drawn = blocks().with_column("r", random(seed=5, reseed_after_execution=False))
    found = [row["r"] for row in drawn.take_all()]
    np.testing.assert_array_equal(found, np.random.default_rng(5).random(40))
