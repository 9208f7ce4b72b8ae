"""The list of differences from Ray is that of today's tests, and the guide counts it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.ray_engine.differences import DIFFERENCES

ROOT = Path(__file__).parents[2]


def test_every_difference_names_a_test_of_the_contract() -> None:
    contract = "".join(path.read_text() for path in (ROOT / "tests/contract").glob("*.py"))
    known = set(re.findall(r"^ *(?:async )?def (test_\w+)", contract, re.MULTILINE))
    assert {name.partition("[")[0] for name in DIFFERENCES} <= known


def test_the_guide_says_how_many_there_are() -> None:
    tests = {name.partition("[")[0] for name in DIFFERENCES}
    guide = (ROOT / "docs/scaling.md").read_text()
    assert f"`tests/ray_engine/differences.py`: {len(tests)}\n" in guide
