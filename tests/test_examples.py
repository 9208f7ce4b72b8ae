"""Every example runs as a program and says what it should; so does the README."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support import run_program

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"

SAYS = {
    "fashion_mnist.py": "for a picture of 'Ankle boot'",
    "actor_pool.py": "one-seven-two-nine",
    "monte_carlo_pi.py": "pi is about 3.1",
    "parameter_server.py": "fitted [ 2.  -3.   0.5]",
    "parameter_server_tensorflow.py": "synchronously: learned\ntrain_asynchronously: learned",
    "serving.py": "0.50  so great",
    "streaming_pipeline.py": "the    100",
    "tensorflow_gradients.py": "iteration 200: w = 0.1000, b = 0.3000",
    "tour.py": "2,262 primes below 20,000, counted by 8 tasks",
    "weight_averaging_tensorflow.py": "averaging helps",
    "weight_averaging_torch.py": "averaging helps",
}

ARGUMENTS = {"fashion_mnist.py": ("--quick",)}


def test_every_example_is_listed() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} - {"fashion_images.py"} == SAYS.keys()


def run(program: Path, folder: Path) -> str:
    """What a program prints; it must end well and without complaints."""
    done = run_program(
        [sys.executable, program, *ARGUMENTS.get(program.name, ())],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("name", sorted(SAYS))
def test_example(name: str, tmp_path: Path) -> None:
    assert SAYS[name] in run(EXAMPLES / name, tmp_path)


def test_the_readme(tmp_path: Path) -> None:
    """Its blocks of Python, one after the other, are one program."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    program = tmp_path / "readme.py"
    program.write_text("\n".join(blocks))
    printed = run(program, tmp_path)
    assert printed.startswith("[0, 1, 4, 9]\n0\n1\n2\n3\n4\n")
    assert "unsupported operand" in printed
