"""The chapters of docs/training.md about other libraries run as a reader would type them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "training.md"
CHAPTERS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", GUIDE.read_text(), re.DOTALL | re.M))


def snippets(chapter: str) -> str:
    found = re.findall(r"^```python\n(.*?)^```", CHAPTERS[chapter], re.DOTALL | re.MULTILINE)
    assert found
    return "\n".join(found)


@pytest.mark.filterwarnings("ignore")  # of the libraries about themselves
@pytest.mark.usefixtures("_session")
@pytest.mark.parametrize(
    "chapter",
    ["Lightning", "Hugging Face", "XGBoost and LightGBM", "scikit-learn",
     "MLflow, Weights & Biases"],
)  # fmt: skip
def test_a_chapter(chapter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKATE_STORAGE", str(tmp_path / "runs"))
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(snippets(chapter), f"{chapter} of {GUIDE.name}", "exec"), namespace)
    assert list((tmp_path / "runs").glob("*/result.json"))
