"""All tests that use TensorFlow in the program itself, in one process of their own.

The import takes seconds and cannot be undone: sessions that other tests start in the same process
would import it in their fork servers too. The files can also be run one by one:

    scripts/test tests/experimental/variables_with_tensorflow.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import run_program

TESTS = Path(__file__).parent
# The warm Python has skate from before there was a pytest.
ALREADY_IMPORTED = "ignore:Module already imported:pytest.PytestAssertRewriteWarning"
FILES = sorted(TESTS.rglob("*_with_tensorflow.py"))


@pytest.mark.timeout(900)  # several files in one test
def test_with_tensorflow(warm_python: str) -> None:
    assert len(FILES) == 4
    done = run_program(
        [
            warm_python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-W",
            ALREADY_IMPORTED,
            *FILES,
        ],
        cwd=TESTS.parent,
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        timeout=880,
    )
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}"
