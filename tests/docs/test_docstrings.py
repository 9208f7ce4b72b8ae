"""Every example in a public docstring runs, and shows what it says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.docs.docstring_examples import library_of
from tests.docs.pages import ROOT
from tests.docs.public import MODULES
from tests.support import run_program

LIBRARIES = sorted(set(map(library_of, MODULES)))
TOGETHER = (  # in one process, as they load the same packages
    ("skate.data", "skate.tune"),
    ("skate.train", "skate.predict"),
    ("skate.serve",),
)
OTHERS = tuple(library for library in LIBRARIES if library not in sum(TOGETHER, ()))


@pytest.mark.parametrize("libraries", [*TOGETHER, OTHERS], ids=lambda some: some[0])
def test_examples(libraries: tuple[str, ...], tmp_path: Path) -> None:
    done = run_program(
        [sys.executable, "-m", "tests.docs.docstring_examples", *libraries],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}", "SKATE_STORAGE": str(tmp_path)},
        timeout=280,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
