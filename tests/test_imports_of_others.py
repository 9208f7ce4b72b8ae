"""Sessions of tests import what their own test uses."""

from __future__ import annotations

import email.header
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.imports_of_others import without_imports_of_others

FOREIGN = email.header.__name__
TEXT = """
from skate import tune
from tests.support import offline_trackers

def test_made_up():
    import colorsys
"""
OWN = ("colorsys", "wandb", "skate.tune._made_up", "numpy", "not_imported_yet")
OTHERS = ("colors", "skate.data._made_up", "skate.util.dask", "torch", FOREIGN)


def test_modules_stay_that_a_file_or_its_helpers_mention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "skate_made_up_test.py").write_text(TEXT)
    monkeypatch.syspath_prepend(tmp_path)
    test = import_module("skate_made_up_test")
    for name in (*OWN[:-1], *OTHERS):
        monkeypatch.setitem(sys.modules, name, test)
    assert without_imports_of_others(test, (*OTHERS, *OWN)) == OWN
