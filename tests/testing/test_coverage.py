"""Lines of remote code, as `pytest --cov` sees them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from skate.engine.local.coverage_runs import is_measured
from tests.support import run_program

MODULE = """
import skate

@skate.remote
def double(x):
    y = 2 * x
    return y

@skate.remote
class Counter:
    def add(self):
        return 1

    def never(self):
        return 0
"""
TEST = """
import skate
from measured_lines import Counter, double

def test_them(skate_local):
    assert skate.get(double.remote(2)) == 4
    assert skate.get(Counter.remote().add.remote()) == 1
"""
CONFIG = """
[tool.coverage.run]
patch = ["subprocess", "fork", "_exit"]
"""


def test_lines_that_ran_in_workers_are_seen(tmp_path: Path) -> None:
    (tmp_path / "measured_lines.py").write_text(MODULE)
    (tmp_path / "test_them.py").write_text(TEST)
    (tmp_path / "pyproject.toml").write_text(CONFIG)
    options = ["--cov=measured_lines", "--cov-report=json:found.json", "-q"]
    run_program(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    found = json.loads((tmp_path / "found.json").read_text())
    missing = found["files"]["measured_lines.py"]["missing_lines"]
    lines = MODULE.splitlines()
    assert [lines[number - 1].strip() for number in missing] == ["return 0"]


@pytest.mark.parametrize("name", ["COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START"])
def test_what_tells_that_coverage_is_measured(name: str) -> None:
    assert is_measured({name: "x"})
    assert not is_measured({name: ""})
    assert not is_measured({})
