"""Optional dependencies and the error without them."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import click
import cloudpickle
import pytest

from skate._core.optional_imports import install_command, is_installed, try_import
from tests.support import run_program


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


LACKING = {  # what is imported: the library, and the extra that has what it misses first
    "skate.data.range": ("data", "data"),
    "skate.data.preprocessors.StandardScaler": ("data", "data"),
    "skate.data.expressions.col": ("data", "data"),
    "skate.data.aggregate.Sum": ("data", "data"),
    "skate.predict.BatchPredictor": ("predict", "train"),
    "skate.tune.Tuner": ("tune", "tune"),
    "skate.tune.schedulers.ASHAScheduler": ("tune", "tune"),
    "skate.tune.search.optuna.OptunaSearch": ("tune", "tune"),
    "skate.tune.suggest.optuna.OptunaSearch": ("tune", "tune"),
    "skate.util.joblib.ray_backend.RayBackend": ("util", "all"),
}
IMPORT_EACH = """
import os, sys
for path in sys.argv[1:]:
    module, _, name = path.rpartition(".")
    try:
        exec(f"from {module} import {name}")
    except ImportError as error:
        print(path, error)
"""


def test_libraries_without_their_packages_name_the_extra(tmp_path: Path) -> None:
    """By whichever module one of their names is imported, where only the core is installed."""
    said = _import_without_packages(tmp_path, *LACKING)
    assert len(said) == len(LACKING)
    for line, (path, (library, extra)) in zip(said, LACKING.items(), strict=True):
        assert re.fullmatch(
            rf"{path} skate\.{library} needs the package '\w+', which is not installed: "
            rf'pip install "\.\[{extra}\]", in a checkout of skate',
            line,
        )


def test_what_users_import_in_vain_is_not_explained(tmp_path: Path) -> None:
    """Nor what a package of theirs misses."""
    (tmp_path / "theirs.py").write_text("import numpy")
    said = _import_without_packages(tmp_path, "numpy.array", "theirs.one")
    assert said == [f"{path} No module named 'numpy'" for path in ("numpy.array", "theirs.one")]


def _import_without_packages(folder: Path, *paths: str) -> list[str]:
    """Return what each import says where there is nothing but the core."""
    installed = folder / "installed"
    installed.mkdir()
    for package in (cloudpickle, click):
        home = Path(str(package.__file__)).parent
        (installed / home.name).symlink_to(home)
    source = Path(install_command.__code__.co_filename).parents[2]
    places = os.pathsep.join(map(str, (source, installed, folder)))
    program = [sys.executable, "-S", "-c", IMPORT_EACH, *paths]
    ended = run_program(program, env=os.environ | {"PYTHONPATH": places}, check=True)
    return ended.stdout.splitlines()
