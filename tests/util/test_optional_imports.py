"""Optional dependencies and the error without them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from skate._core.optional_imports import is_installed, try_import


def test_an_installed_module_is_returned() -> None:
    assert try_import("json.decoder", extra="data") is sys.modules["json.decoder"]
    assert is_installed("json")


def test_a_missing_module_names_the_extra_that_brings_it() -> None:
    with pytest.raises(
        ImportError, match=r'no_such_package.*pip install "skate\[torch\]"'
    ) as info:
        try_import("no_such_package.part", extra="torch")
    assert info.value.name == "no_such_package"
    assert not is_installed("no_such_package")


def test_a_module_that_misses_something_itself_says_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_package.py").write_text("import no_such_dependency")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="no_such_dependency") as info:
        try_import("broken_package", extra="torch")
    assert "skate[torch]" not in str(info.value)
