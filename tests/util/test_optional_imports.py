"""Optional dependencies and the error without them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from skate._core.optional_imports import install_command, is_installed, try_import


def test_an_installed_module_is_returned() -> None:
    assert try_import("json.decoder", extra="data") is sys.modules["json.decoder"]
    assert is_installed("json")


def test_a_missing_module_names_the_extra_that_brings_it() -> None:
    with pytest.raises(ImportError, match=r'no_such_package.*pip install ".*\[torch\]"') as info:
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
    assert "[torch]" not in str(info.value)


def test_a_file_with_the_name_of_a_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the program itself, where it is called lightning.py."""
    (tmp_path / "shadowed_package.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ImportError, match=r"finds .*shadowed_package\.py.*rename") as info:
        try_import("shadowed_package.part", extra="torch")
    assert "[torch]" not in str(info.value)


@pytest.mark.parametrize("where", ["here", "gone", "an archive", None])
def test_how_extras_are_installed(
    where: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never from an index, where `skate` is not this one."""
    folder = tmp_path / "a b"
    origins = {
        "here": json.dumps({"url": folder.as_uri(), "dir_info": {}}),
        "gone": json.dumps({"url": (tmp_path / "gone").as_uri(), "dir_info": {}}),
        "an archive": json.dumps({"url": "https://example.com/skate.whl", "archive_info": {}}),
    }
    folder.mkdir()
    (tmp_path / "skate-0.1.dist-info").mkdir()
    (tmp_path / "skate-0.1.dist-info" / "METADATA").write_text("Name: skate\nVersion: 0.1\n")
    if where is not None:
        (tmp_path / "skate-0.1.dist-info" / "direct_url.json").write_text(origins[where])
    monkeypatch.syspath_prepend(str(tmp_path))
    place = f'"{folder}[data]"' if where == "here" else '".[data]", in a checkout of skate'
    assert install_command("data") == f"pip install {place}"
