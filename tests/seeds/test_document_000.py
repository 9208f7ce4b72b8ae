"""Ray's guide to PyTorch in actors: its blocks, each in several processes at once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skate
from tests.seeds.documents import blocks, text_of
from tests.support import parallel

DOCUMENT = text_of("000")
STANDIN = Path(__file__).parent / "standin"

IMPORTS = "import torch\nfrom torchvision import datasets, transforms\nkwargs = {}\n"


def run(code: str) -> int:
    """Run a block; how many batches its data loader has."""
    loaders = []
    import torch

    class Loader(torch.utils.data.DataLoader[Any]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            loaders.append(self)

    original = torch.utils.data.DataLoader
    torch.utils.data.DataLoader = Loader  # type: ignore[misc]
    try:
        exec(IMPORTS + code, {})
    finally:
        torch.utils.data.DataLoader = original  # type: ignore[misc]
    return sum(1 for _ in loaders[0])


if DOCUMENT is not None:
    CODE = [block for block in blocks(DOCUMENT) if "MNIST" in block]

    @parallel
    def test_the_blocks_in_several_processes(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[..., Any]
    ) -> None:
        monkeypatch.syspath_prepend(str(STANDIN))
        (tmp_path / "inside").mkdir()
        monkeypatch.chdir(tmp_path / "inside")
        start(num_cpus=2)
        remote: Any = skate.remote(run)
        plain, locked = CODE
        for code in (plain, locked):
            assert skate.get([remote.remote(code) for _ in range(3)]) == [5, 5, 5]
            assert (tmp_path / "inside" / "data.lock").exists() == (code is locked)
        assert "torchvision" not in sys.modules
