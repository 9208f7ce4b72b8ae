"""The layers of the design, checked on the source: who may import whom, and what no file holds."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "skate"

LIBRARIES = ("dag", "data", "train", "tune", "predict", "serve", "_run", "air")
ON_TOP = ("compat", "cli", "dashboard", "testing", "util", "experimental")
IMPLEMENTATIONS = ("inline", "local", "ray")


def imports_of(path: Path) -> Iterator[str]:
    """Absolute names of all modules that a file imports, wherever in the file."""
    package = list(path.relative_to(PACKAGE.parent).with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            parent = ".".join([*base, *([node.module] if node.module else [])])
            yield parent
            yield from (f"{parent}.{alias.name}" for alias in node.names)


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def offences(files: list[Path], forbidden: tuple[str, ...]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files
        for name in imports_of(path)
        if within(name, forbidden)
    ]


def sources(*folders: str) -> list[Path]:
    return sorted(path for name in folders for path in (PACKAGE / name).rglob("*.py"))


def test_engines_import_no_library() -> None:
    assert sources("engine")
    assert not offences(sources("engine"), tuple(f"skate.{name}" for name in LIBRARIES + ON_TOP))


def test_libraries_import_no_engine() -> None:
    assert not offences(sources(*LIBRARIES), ("skate.engine",))


def test_nothing_on_top_knows_which_engine_runs() -> None:
    assert sources("util")
    engines = tuple(f"skate.engine.{name}" for name in IMPLEMENTATIONS)
    assert not offences(sources(*ON_TOP), engines)


def test_only_the_ray_engine_imports_ray() -> None:
    allowed = PACKAGE / "engine" / "ray"
    others = [path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(allowed)]
    assert not offences(others, ("ray",))


def test_the_source_imports_nothing_from_the_tests_or_benchmarks() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert not offences(files, ("tests", "benchmarks", "examples"))
    assert not offences([f for f in files if f.parent.name != "testing"], ("pytest",))


# -- files --------------------------------------------------------------------------------------

SKIPPED = {"build", "dist", "results", "__pycache__", "node_modules"}
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(work|root|home|opt|tmp)/|\bfile:/{3}")
REGISTRY = re.compile(r"https?://[\w.-]*(pypi|pythonhosted|anaconda|download\.pytorch)[\w.-]*")


def repository_files() -> Iterator[Path]:
    for folder, folders, names in os.walk(ROOT):
        hidden = {name for name in folders if name.startswith(".")} - {".ci"}
        folders[:] = sorted(set(folders) - hidden - SKIPPED)
        yield from (Path(folder, name) for name in sorted(names))


def text_of(path: Path) -> str:
    return path.read_text(errors="replace")


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY], ids=["machine path", "registry"])
def test_no_file_names_a_machine(pattern: re.Pattern[str]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in repository_files()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if pattern.search(line)
    ]
    assert not found


def test_the_patterns_find_what_they_look_for() -> None:
    folder = "work"
    assert MACHINE_PATH.search(f'path = "/{folder}/main"')
    assert not MACHINE_PATH.search(f'cd "$root/{folder}/x"')
