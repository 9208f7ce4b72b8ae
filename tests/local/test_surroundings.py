"""What a forked process finds around it: variables and thread counts."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any, cast

import pytest

from skate.engine.local import surroundings


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Variables that stand in for those of the process."""
    found = {"LEFT_FROM_THE_SERVER": "1"}
    monkeypatch.setattr(os, "environ", found)
    return found


def settle(**settings: Any) -> None:
    surroundings._set_variables({"environ": {}, "has_gpus": False, **settings})


@pytest.mark.parametrize("cpus", [1, 4])
def test_libraries_use_as_many_threads_as_the_work_has_cpus(
    environ: dict[str, str], cpus: int
) -> None:
    settle(**({"threads": cpus} if cpus > 1 else {}))
    for library in ("OMP", "MKL", "OPENBLAS", "RAYON"):
        assert environ[f"{library}_NUM_THREADS"] == str(cpus)
    assert environ["TF_NUM_INTRAOP_THREADS"] == str(cpus)
    assert environ["TF_NUM_INTEROP_THREADS"] == str(cpus + 1)


def test_thread_counts_of_the_program_or_the_work_count_more(environ: dict[str, str]) -> None:
    settle(environ={"TF_NUM_INTRAOP_THREADS": "7"}, env_vars=[("TF_NUM_INTEROP_THREADS", "9")])
    assert environ["TF_NUM_INTRAOP_THREADS"] == "7"
    assert environ["TF_NUM_INTEROP_THREADS"] == "9"


def test_arrow_makes_no_huge_pages_in_workers_unless_told_to(environ: dict[str, str]) -> None:
    settle()
    assert environ["MIMALLOC_ALLOW_THP"] == "0"
    settle(environ={"MIMALLOC_ALLOW_THP": "1"})
    assert environ["MIMALLOC_ALLOW_THP"] == "1"


def test_the_variables_are_those_of_the_program(environ: dict[str, str]) -> None:
    settle(environ={"OURS": "2"})
    assert environ["OURS"] == "2"
    assert "LEFT_FROM_THE_SERVER" not in environ


@pytest.mark.parametrize(("variable", "count"), [("3", 3), ("3,2", 3), (None, 5), ("all", 5)])
def test_libraries_that_are_loaded_already_are_told(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, variable: str | None, count: int
) -> None:
    class Torch:
        @staticmethod
        def set_num_threads(number: int) -> None:
            told.append(number)

    told: list[int] = []
    monkeypatch.setitem(sys.modules, "torch", cast(ModuleType, Torch))
    monkeypatch.setitem(sys.modules, "pyarrow", ModuleType("pyarrow"))
    if variable is not None:
        environ["OMP_NUM_THREADS"] = variable
    surroundings._set_threads(5)
    assert told == [count]
