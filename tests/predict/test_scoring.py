"""With how many actors a dataset is predicted for, and in which session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import skate
import skate.data
from skate.predict import BatchPredictor
from skate.predict._scoring import Scoring


@pytest.mark.engines("inline")
def test_a_predictor_outlives_its_session(start: Callable[..., Any]) -> None:
    predictor = BatchPredictor.from_pandas_udf(lambda frame: frame * 2)
    for _ in range(2):
        start(num_cpus=2)
        assert predictor.predict(skate.data.range(2)).take_all() == [{"id": 0}, {"id": 2}]
        skate.shutdown()


@pytest.mark.engines("inline")
@pytest.mark.parametrize(("given", "most"), [(None, 4), (3, 3)])
def test_as_many_actors_as_there_is_room_for(
    start: Callable[..., Any], given: int | None, most: int
) -> None:
    start(num_cpus=4)
    scoring = Scoring(None, None, 10, 1, given, None, None, True, None)
    pool = scoring.pool()
    assert (pool.min_size, pool.max_size) == (1, most)
