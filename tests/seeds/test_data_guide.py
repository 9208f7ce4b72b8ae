"""The guide "Working with PyTorch" of Ray Data, with `ray` called skate."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import skate
import skate.data
from tests.data.conftest import SharedSession, engine, leaves_nothing  # noqa: F401
from tests.seeds.documents import text_of

CANCER = "s3://anonymous@air-example-data/breast_cancer.csv"
SCHEMA = """\
Column  Type
------  ----
tensor  numpy.ndarray(shape=(32, 32, 3), dtype=uint8)
"""


@pytest.fixture(scope="module")
def shared_session() -> Iterator[SharedSession]:
    session = SharedSession()
    yield session
    session.end()


def blocks_of_guide() -> list[str]:
    """The code blocks of the guide, if it is at hand, as its readers would type them."""
    lines = (text_of("002") or "").splitlines()
    starts = [number for number, line in enumerate(lines) if line.strip() == ".. testcode::"]
    return [indented_after(lines, number) for number in starts]


def indented_after(lines: list[str], number: int) -> str:
    depth = len(lines[number]) - len(lines[number].lstrip())
    taken: list[str] = []
    for line in lines[number + 1 :]:
        if line.strip() and len(line) - len(line.lstrip()) <= depth:
            break
        taken.append(line)
    return textwrap.dedent("\n".join(taken))


def as_skate(block: str) -> str:
    return re.sub(r"\bray\b(?=[.\s]|$)", "skate", block)


def run(block: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(as_skate(block), "guide", "exec"), namespace)
    return namespace


BLOCKS = blocks_of_guide()


pytestmark = [pytest.mark.engines("local"), pytest.mark.usefixtures("engine")]


@pytest.mark.parametrize("block", [b for b in BLOCKS if "iter_torch_batches(batch_size=2)" in b])
def test_block_iterating(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(block)
    printed = capsys.readouterr().out
    assert printed.count("{'image': tensor(") == 2
    assert "dtype=torch.uint8" in printed


@pytest.mark.parametrize("block", [b for b in BLOCKS if "ds.map(convert_to_torch)" in b])
def test_block_map(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(block)
    assert capsys.readouterr().out == SCHEMA


@pytest.mark.parametrize("block", [b for b in BLOCKS if "ds.map_batches(convert_to_torch" in b])
def test_block_map_batches(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The guide returns `row` where it means `batch`: that is the reader's own error."""
    with pytest.raises(NameError, match="name 'row' is not defined"):
        run(block)
    assert capsys.readouterr().out == SCHEMA
    run(block.replace("return row", "return batch"))


@pytest.mark.parametrize("block", [b for b in BLOCKS if "TorchPredictor" in b])
def test_block_batch_inference(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(block)
    assert re.fullmatch(
        r"\{'output': array\(\[0\.\d+\], dtype=float32\)\}\n", capsys.readouterr().out
    )


@pytest.mark.parametrize("block", [b for b in BLOCKS if CANCER in b])
def test_block_trainer(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guide joins columns that have one dimension along the second, which torch refuses; with
    columns of vectors it trains."""
    pytest.importorskip("skate.train.torch")
    monkeypatch.setenv("SKATE_STORAGE", str(tmp_path / "results"))
    table = tmp_path / "breast_cancer.csv"
    columns = ",".join(f"f{number}" for number in range(30))
    line = ",".join(["0.5"] * 30)
    table.write_text(f"{columns},target\n" + "".join(f"{line},{n % 2}\n" for n in range(256)))
    here = block.replace(CANCER, os.fspath(table))
    with pytest.raises(Exception, match="Dimension out of range"):
        run(here)
    run(here.replace("batch[col_name] for", "batch[col_name].unsqueeze(1) for"))


# -- the same in our own words -------------------------------------------------------------------


def test_images_as_tensors() -> None:
    images = skate.data.read_images("example://image-datasets/simple")
    shapes = [tuple(b["image"].shape) for b in images.iter_torch_batches(batch_size=2)]
    assert shapes == [(2, 32, 32, 3), (1, 32, 32, 3)]


def test_tensors_that_functions_return_are_arrays_for_the_next() -> None:
    def to_tensor(batch: dict[str, Any]) -> dict[str, torch.Tensor]:
        return {"tensor": torch.as_tensor(batch["image"]).float() / 255}

    def check(row: dict[str, Any]) -> dict[str, Any]:
        assert isinstance(row["tensor"], np.ndarray)
        return row

    images = skate.data.read_images("example://image-datasets/simple")
    tensors = images.map_batches(to_tensor, batch_size=2).map(check)
    assert "numpy.ndarray(shape=(32, 32, 3), dtype=float32)" in str(tensors.schema())
    assert tensors.count() == 3


def test_batch_inference_with_two_actors() -> None:
    class Predictor:
        def __init__(self) -> None:
            torch.manual_seed(0)
            self.model = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()).eval()

        def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
            with torch.inference_mode():
                return {"output": self.model(torch.tensor(batch["data"])).numpy()}

    inputs = np.random.default_rng(0).random((10, 4), np.float32)
    pool = skate.data.ActorPoolStrategy(size=2)
    found = skate.data.from_numpy(inputs).map_batches(Predictor, compute=pool, batch_size=4)
    outputs = np.concatenate([batch["output"] for batch in found.iter_batches()])
    np.testing.assert_allclose(outputs, Predictor()({"data": inputs})["output"], rtol=1e-5)


def test_zipped_and_as_pandas() -> None:
    left, right = skate.data.from_items([1, 2]), skate.data.from_items([3, 4])
    assert left.zip(right).to_pandas().to_dict("list") == {"item": [1, 2], "item_1": [3, 4]}
