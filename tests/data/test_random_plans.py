"""A short form of `scripts/chaos --plans`: the plans of some seeds, always the same ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from skate import data
from tests.chaos import plans
from tests.chaos.plan_steps import PlanMaker

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]

SEEDS = {plans.check_plan: 40, plans.check_reading: 60, plans.check_filters: 30}


@pytest.mark.parametrize(("check", "settings"), plans.CHECKS)
def test_random_plans_agree(check: Callable[[PlanMaker], None], settings: str) -> None:
    for seed in range(SEEDS[check]):
        plans.run(check, settings, seed)


def test_a_plan_that_fails_names_its_seed_settings_and_steps() -> None:
    def lose_a_row(make: PlanMaker) -> None:
        step = make.step({"id": "int64"})
        assert step.apply(data.range(3)).count() == -1, "a row is lost"

    with pytest.raises(AssertionError) as failure:
        plans.run(lose_a_row, "polars", 5)
    first, step, last = str(failure.value).splitlines()[:3]
    assert first == "lose_a_row of seed 5, settings 'polars':"
    assert step.startswith("  ")
    assert "a row is lost" in last
