"""Notebooks: live views while a cell runs, tables of what it returns, one figure for each plot.

One kernel runs all cells; each test looks at the outputs of its own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]

CELLS = {
    "init": "import skate\nfrom skate import train, tune\nskate.init(num_cpus=2)",
    "dataset": "skate.data.from_items([{'<x>': number} for number in range(7)])",
    "live data": (
        "from skate.data._execution import progress\n"
        "progress.FIRST = progress.EVERY = 0.0\n"
        "total = skate.data.range(40).map_batches(lambda batch: batch, batch_size=4).count()\n"
        "rows = skate.data.range(40).map_batches(lambda batch: batch, batch_size=4).take_all()\n"
        "len(rows)"
    ),
    "live training": (
        "def loop():\n"
        "    for step in range(5):\n"
        "        train.report({'loss': 5.0 - step})\n"
        "run = train.RunConfig(storage_path=FOLDER)\n"
        "result = train.DataParallelTrainer(loop, run_config=run).fit()"
    ),
    "result": "result",
    "result plot": "result.plot()",
    "live tuning": (
        "def trial(config):\n"
        "    for step in range(3):\n"
        "        tune.report({'loss': config['x'] * (3 - step)})\n"
        "grid = tune.Tuner(\n"
        "    trial,\n"
        "    param_space={'x': tune.grid_search([1, 2, 3])},\n"
        "    tune_config=tune.TuneConfig(metric='loss', mode='min'),\n"
        "    run_config=tune.RunConfig(storage_path=FOLDER, name='search'),\n"
        ").fit()"
    ),
    "grid": "grid",
    "grid plot": "grid.plot()",
    "analysis": "tune.ExperimentAnalysis(grid.experiment_path)",
    "end": "skate.shutdown()",
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    folder = tmp_path_factory.mktemp("notebook")
    notebook = nbformat.v4.new_notebook()
    start = f"FOLDER = {str(folder)!r}\n"
    for name, source in CELLS.items():
        cell = nbformat.v4.new_code_cell(start + source if name == "init" else source)
        notebook.cells.append(cell)
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    client = NotebookClient(notebook, timeout=280, kernel_name="python3")
    client.execute(cwd=str(folder), env=os.environ | {"PYTHONPATH": path, "HOME": str(folder)})
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def pages(found: list[Any]) -> list[str]:
    """The HTML among the outputs."""
    return [one.data["text/html"] for one in found if "text/html" in one.get("data", {})]


def pictures(found: list[Any]) -> int:
    return sum("image/png" in one.get("data", {}) for one in found)


def test_what_init_returns(outputs: dict[str, list[Any]]) -> None:
    (page,) = pages(outputs["init"])
    assert "<b>skate</b>" in page
    assert ">CPU</th>" in page


def test_a_dataset_in_memory_shows_its_rows(outputs: dict[str, list[Any]]) -> None:
    (page,) = pages(outputs["dataset"])
    assert "<th>&lt;x&gt;</th>" in page
    assert "<td>4</td>" in page
    assert "<td>5</td>" not in page  # the first five are enough


@pytest.mark.parametrize("cell", ["live data", "live training", "live tuning"])
def test_a_view_is_redrawn_in_its_place(outputs: dict[str, list[Any]], cell: str) -> None:
    shown = pages(outputs[cell])
    assert len(shown) == (2 if cell == "live data" else 1)  # one for each execution
    assert not [one for one in outputs[cell] if one.output_type == "error"]
    wanted = {"live data": "rows/s", "live training": " done ", "live tuning": "TERMINATED"}
    assert wanted[cell] in shown[-1]


def test_a_result(outputs: dict[str, list[Any]]) -> None:
    (page,) = pages(outputs["result"])
    assert ">loss</th>" in page
    assert "<polyline" in page
    assert "loss: 5 → 1" in page


@pytest.mark.parametrize("cell", ["result plot", "grid plot"])
def test_a_plot_is_shown_once(outputs: dict[str, list[Any]], cell: str) -> None:
    assert pictures(outputs[cell]) == 1


@pytest.mark.parametrize("cell", ["grid", "analysis"])
def test_the_trials_of_a_search(outputs: dict[str, list[Any]], cell: str) -> None:
    (page,) = pages(outputs[cell])
    assert "<b>3 trials</b>" in page
    assert page.count("<td>TERMINATED</td>") == 3
    assert "<th>config/x</th>" in page
