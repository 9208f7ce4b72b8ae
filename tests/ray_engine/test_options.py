"""Options on their way to Ray, in a process of its own: importing Ray cannot be undone, and other
tests of this process have skate under that name."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support import run_program

TESTS = Path(__file__).with_name("options_on_ray.py")


def test_every_option_reaches_ray() -> None:
    done = run_program([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS])
    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-5_000:]}"
