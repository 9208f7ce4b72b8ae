"""`breakpoint()` in a worker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import skate
from tests.support import local_only

pytestmark = local_only


@skate.remote
def stops() -> str:
    breakpoint()
    return "went on"


def test_the_error_says_what_to_do_instead(start: Any) -> None:
    start(num_cpus=1)
    with pytest.raises(RuntimeError, match="SKATE_ENGINE=inline") as caught:
        skate.get(stops.remote())
    assert os.path.basename(__file__) in str(caught.value)


def test_a_debugger_of_the_users_own_is_called(start: Any, tmp_path: Path) -> None:
    (tmp_path / "own_debugger.py").write_text("def stop():\n    print('here')\n")
    start(num_cpus=1, runtime_env={"py_modules": [str(tmp_path / "own_debugger.py")]})
    for value in ("0", "own_debugger.stop"):
        env = {"env_vars": {"PYTHONBREAKPOINT": value}}
        assert skate.get(stops.options(runtime_env=env).remote()) == "went on"
