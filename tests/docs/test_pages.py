"""Every Python block of the README and of the documentation runs, and prints what the page says.

The blocks of a page are one program, in their order. They run as they would if pasted, with two
exceptions: serving uses a port that is free, and results go to a folder of the test.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, TOGETHER, blocks, broken_promise, program, promises
from tests.support import run_program

PROGRAMS = [page for page in PAGES if any(block.is_program for block in blocks(page))]
LIBRARY_NOISE = {"TF_CPP_MIN_LOG_LEVEL": "3", "WANDB_MODE": "offline", "WANDB_SILENT": "true"}

# On the first line, where the page has its heading: line numbers of errors stay those of the page.
FREE_PORT = (
    'from skate import serve; serve.start(http_options={"port": 0}); '
    "ADDRESS = serve.http_address(); del serve"
)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PROGRAMS, ids=name)
def test_a_page(page: Path, tmp_path: Path, warm_python: str) -> None:
    text = program(page)
    if "127.0.0.1:8000" in text:
        text = FREE_PORT + text.replace('"http://127.0.0.1:8000', 'ADDRESS + "')
    file = tmp_path / f"{page.stem.replace('-', '_')}_page.py"
    file.write_text(text)
    done = run_program(
        [warm_python, file],
        cwd=tmp_path,
        env=os.environ
        | {
            "PYTHONPATH": str(ROOT / "src"),
            "SKATE_STORAGE": str(tmp_path / "results"),
            **LIBRARY_NOISE,
        },
        stdin=subprocess.DEVNULL,
        timeout=280,
    )
    assert done.returncode == 0, f"{name(page)}\n{done.stdout}\n{done.stderr}"
    assert broken_promise(done.stdout, promises(page)) is None, done.stdout


@pytest.mark.parametrize("page", PROGRAMS[1:], ids=name)  # the README is one story anyway
def test_a_page_of_several_blocks_says_that_they_belong_together(page: Path) -> None:
    if sum(block.is_program for block in blocks(page)) > 1:
        assert TOGETHER in " ".join(page.read_text().split())


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_names_nothing_private(page: Path) -> None:
    assert re.findall(r"\bskate(?:\.\w+)*\._[a-z]\w*", page.read_text()) == []


def test_the_first_page_names_every_extra() -> None:
    project = (ROOT / "pyproject.toml").read_text().partition("[project.optional-dependencies]")[2]
    extras = re.findall(r"^([a-z-]+) = ", project.partition("\n[")[0], re.MULTILINE)
    page = (ROOT / "docs" / "index.md").read_text()
    assert [extra for extra in extras if f"`{extra}`" not in page] == ["dev"]


def test_the_service_that_a_page_shows_passes_the_tests_beside_it(tmp_path: Path) -> None:
    shown = [b for b in blocks(ROOT / "docs" / "testing.md") if b.language == "{.python"]
    for block in shown:
        if title := re.search(r'title="(.+)"', block.words):
            (tmp_path / title[1]).write_text(block.text)
    done = run_program(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        timeout=280,
    )
    assert "4 passed" in done.stdout, f"{done.stdout}\n{done.stderr}"
