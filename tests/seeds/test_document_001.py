"""Ray's guide from PyTorch code to distributed training, from the first block to the last.

Only `ray` is called `skate`. The images come from this machine (see `standin`), and are fewer.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.seeds.documents import blocks, text_of
from tests.support import run_program

DOCUMENT = text_of("001")
STANDIN = Path(__file__).parent / "standin"
ROOT = Path(__file__).parents[2]

# What the guide shows but does not check.
CHECKS = """
assert "loss" in result.metrics and result.metrics["training_iteration"] == 4
assert result.checkpoint.to_dict()["epoch"] == 3
found = results.to_pandas()
assert list(found.columns) == ["predictions"] and len(found) == len(test_data)
frame = merged.to_pandas()
assert len(frame) == len(test_data) and list(frame.columns) == ["item", "item_1"]
assert set(frame["item"]) <= set(classes) and set(frame["item_1"]) <= set(classes)
expected = [classes[int(model(x)[0].argmax())] for x, y in test_data]
assert list(frame["item"]) == expected
print("checked")
"""


def program(text: str) -> str:
    """The cells that a notebook would run; the fragments between them are explanations."""
    cells = "\n".join(re.findall(r"^```\{code-cell\}.*\n(?:.*\n)*?```", text, re.MULTILINE))
    return "\n".join([*blocks(cells), CHECKS])


if DOCUMENT is not None:
    TEXT = DOCUMENT

    def test_the_guide(tmp_path: Path, warm_python: str) -> None:
        (tmp_path / "guide.py").write_text(program(TEXT))
        settings = {
            "PYTHONPATH": os.pathsep.join([str(STANDIN), str(ROOT)]),
            "SKATE_STORAGE": str(tmp_path / "results"),
            "STANDIN_IMAGES": "256",
        }
        command = [warm_python, "guide.py"]
        done = run_program(command, cwd=tmp_path, env=os.environ | settings, timeout=240)
        assert done.returncode == 0, done.stderr
        assert done.stdout.endswith("checked\n")
        assert "Last result: {" in done.stdout
        assert "Checkpoint: Checkpoint(" in done.stdout
        assert done.stdout.count("Predicted: ") == 11
