"""Parameters that do not exist, and those that were meant."""

from __future__ import annotations

import copy
import pickle
import sys
from typing import Any

import pytest

from skate._core.optional_imports import install_command
from skate.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from skate.tune import ResumeConfig, TuneConfig
from tests.support import run_program

MISSPELT: list[tuple[Any, str, str]] = [
    (ScalingConfig, "num_worker", "num_workers"),
    (RunConfig, "storage_pat", "storage_path"),
    (CheckpointConfig, "num_to_kep", "num_to_keep"),
    (FailureConfig, "max_failure", "max_failures"),
    (TuneConfig, "num_sample", "num_samples"),
    (ResumeConfig, "erored", "errored"),
]


@pytest.mark.parametrize(("config", "given", "meant"), MISSPELT)
def test_what_was_meant(config: Any, given: str, meant: str) -> None:
    with pytest.raises(
        TypeError,
        match=rf"{config.__name__}\(\) has no parameter '{given}'; did you mean .*\b{meant}\b",
    ):
        config(**{given: 1})


def test_copies_and_pickles() -> None:
    config = ScalingConfig(num_workers=2)
    assert copy.copy(config) == config == pickle.loads(pickle.dumps(config))


def test_subclasses_with_parameters_of_their_own() -> None:
    class Mine(ScalingConfig):
        def __init__(self, size: int, **others: Any) -> None:
            super().__init__(num_workers=size, **others)

    assert Mine(size=3).num_workers == 3


@pytest.mark.parametrize(
    ("missing", "wanted", "library", "extra"),
    [
        ("pyarrow", "from skate.data import range", "data", "data"),
        ("numpy", "from skate.predict import BatchPredictor", "predict", "train"),
    ],
)
def test_a_library_without_its_packages(
    missing: str, wanted: str, library: str, extra: str
) -> None:
    program = f"import sys\nsys.modules[{missing!r}] = None\n{wanted}"
    ended = run_program([sys.executable, "-c", program])
    last = ended.stderr.strip().splitlines()[-1]
    assert last == (
        f"ModuleNotFoundError: skate.{library} needs the package {missing!r}, which is not "
        f"installed: {install_command(extra)}"
    )
