"""Every example runs as a program and prints what its page of the documentation shows."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, broken_promise
from tests.support import run_program

EXAMPLES = ROOT / "examples"
ARGUMENTS = {"fashion_mnist.py": ("--quick",)}
#: Files of an earlier run, which the example replaces: nothing can read them.
LEFT_BEHIND = {"fashion_mnist.py": "skate-quickstart/predictions/earlier.parquet"}


def shown() -> dict[str, str]:
    """Return what docs/examples.md says that each example prints."""
    found, name = {}, ""
    for block in blocks(ROOT / "docs" / "examples.md"):
        if included := re.search(r'--8<-- "examples/(.*)"', block.text):
            name = included[1]
        elif 'title="Output"' in block.words:
            found[name] = block.text.rstrip("\n")
    return found


def test_every_example_has_its_place_in_the_documentation() -> None:
    modules = {"fashion_images.py"}  # of another example
    assert {path.name for path in EXAMPLES.glob("*.py")} - modules == shown().keys()


@pytest.mark.parametrize("name", sorted(shown()))
def test_example(name: str, tmp_path: Path, warm_python: str) -> None:
    if earlier := LEFT_BEHIND.get(name):
        (tmp_path / earlier).parent.mkdir(parents=True)
        (tmp_path / earlier).touch()
    done = run_program(
        [warm_python, EXAMPLES / name, *ARGUMENTS.get(name, ())],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    unexpected = [line for line in done.stderr.splitlines() if not line.startswith("skate: ")]
    assert not unexpected
    assert broken_promise(done.stdout, [shown()[name]]) is None, done.stdout
