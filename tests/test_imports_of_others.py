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
from tests.support import offline_trackers

def test_made_up():
    import colorsys.parts
"""


def test_modules_stay_that_a_file_or_its_helpers_mention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "skate_made_up_test.py").write_text(TEXT)
    monkeypatch.syspath_prepend(tmp_path)
    test = import_module("skate_made_up_test")
    for name in ("colorsys", "wandb", "skate.util.wordless"):
        monkeypatch.setitem(sys.modules, name, test)
    asked = ("colorsys", "wandb", "skate.util.wordless", FOREIGN, "not_imported_yet")
    assert without_imports_of_others(test, asked) == ("colorsys", "wandb", "not_imported_yet")
