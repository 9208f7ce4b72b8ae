"""A short form of `scripts/chaos --searches`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.searches import KilledSearch

pytestmark = pytest.mark.differs_from_ray("a program of ours")


@pytest.mark.parametrize(("kind", "kills"), [("pbt", 2), ("trainer", 1)])
def test_a_search_that_is_killed_and_restored_has_lost_nothing(
    tmp_path: Path, kind: str, kills: int
) -> None:
    killed = KilledSearch(tmp_path, kind, random.Random(kind))
    killed.run(kills)
    killed.check()
    assert killed.kills == kills
