"""What `import skate` loads, what it costs, and which names it offers."""

from __future__ import annotations

import importlib.metadata
import json
import os
import resource
import sys
from pathlib import Path

import pytest

import skate
from skate import exceptions
from skate._core import optional_imports
from tests.support import run_program

SOURCE = str(Path(__file__).parents[1] / "src")

ALLOWED = {"skate", "cloudpickle"}
SLOW = {"asyncio", "multiprocessing", "concurrent.futures", "unittest", "http", "ssl"}

NAMES = """
    init shutdown is_initialized remote method get put wait kill cancel get_actor
    nodes cluster_resources available_resources get_gpu_ids get_runtime_context timeline
    ObjectRef ObjectID ObjectRefGenerator DynamicObjectRefGenerator Actor ActorHandle ActorClass
    ActorID JobID NodeID PlacementGroupID TaskID WorkerID UniqueID ActorClassID FunctionID
    ClientContext LoggingConfig client __version__
""".split()


def run(code: str, **variables: str) -> str:
    environment = os.environ | {"PYTHONPATH": SOURCE} | variables
    return run_program([sys.executable, "-c", code], env=environment, check=True).stdout


def modules_after(statement: str) -> set[str]:
    """The modules that a statement loads in a fresh interpreter."""
    shell = "import sys, json; before = set(sys.modules); {}; after = set(sys.modules)"
    return set(json.loads(run(f"{shell.format(statement)}; print(json.dumps([*after - before]))")))


def cpu_seconds(code: str, bytecode: Path) -> float:
    """What a fresh interpreter works for this code, whatever else the machine does meanwhile.

    With bytecode at hand, as it is for an installed package.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(code, PYTHONPYCACHEPREFIX=str(bytecode), PYTHONDONTWRITEBYTECODE="")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_import_loads_the_standard_library_and_cloudpickle_only() -> None:
    tops = {name.partition(".")[0] for name in modules_after("import skate")}
    assert tops - sys.stdlib_module_names <= ALLOWED


def test_import_loads_no_slow_part_of_the_standard_library() -> None:
    assert not modules_after("import skate") & SLOW


def test_import_loads_no_library_on_top_of_the_core() -> None:
    loaded = modules_after("import skate")
    on_top = {"data", "train", "tune", "predict", "serve", "cli", "dashboard", "testing"}
    assert not loaded & {f"skate.{name}" for name in on_top}


def test_import_takes_less_than_that_of_asyncio(tmp_path: Path) -> None:
    """However fast the machine is."""
    # The least of several runs of each; more of them only on a machine that is busy otherwise.
    ours, other = [], []
    for _ in range(60):
        ours.append(cpu_seconds("import skate", tmp_path))
        other.append(cpu_seconds("import asyncio", tmp_path))
        if len(ours) >= 5 and min(ours) < min(other):
            break
    assert min(ours) < min(other)


def test_the_public_names() -> None:
    assert sorted(skate.__all__) == sorted(NAMES)


def test_every_public_name_is_there_and_listed() -> None:
    for name in skate.__all__:
        assert getattr(skate, name) is not None
        assert name in dir(skate)


@pytest.mark.parametrize("name", ["exceptions", "util", "actor", "runtime_env"])
def test_sub_packages_are_there_without_an_import_of_their_own(name: str) -> None:
    assert run(f"import skate; print(skate.{name}.__name__)") == f"skate.{name}\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert getattr(skate, "no_such_name", None) is None


def test_the_version_is_the_one_installed() -> None:
    assert skate.__version__ == importlib.metadata.version("skate")


WALKED = """
    skate skate.air skate.dag skate.data skate.experimental skate.predict skate.serve skate.train
    skate.tune skate.util skate.tune.search skate.train.callbacks skate.air.integrations
""".split()
NEEDED = {  # by the extras `data`, `train`, `tune` and `serve` themselves
    "annotated_types", "cloudpickle", "cython_runtime", "dateutil", "numpy", "pandas", "pyarrow",
    "pydantic", "pydantic_core", "pytz", "six", "skate", "starlette", "anyio", "typing_extensions",
    "typing_inspection", "uvicorn", "python_multipart", "sniffio",
}  # fmt: skip


@pytest.mark.parametrize("package", WALKED)
def test_walking_over_a_package_imports_no_framework(package: str) -> None:
    """doctest, pydoc and inspect look at every name that `dir` has."""
    walk = f"import {package} as m; [getattr(m, name) for name in dir(m)]"
    tops = {name.partition(".")[0] for name in modules_after(walk)}
    inside = {name for name in tops if name.startswith("_")}  # of compiled modules
    assert tops - inside - sys.stdlib_module_names <= NEEDED


def test_what_ray_means_is_known_before_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one rule, for the names in errors as for everything else."""
    monkeypatch.delenv(optional_imports.AS_RAY, raising=False)
    assert (optional_imports.ray_is_skate(), exceptions.library_name()) == (False, "skate")
    monkeypatch.setenv(optional_imports.AS_RAY, "1")
    assert (optional_imports.ray_is_skate(), exceptions.library_name()) == (True, "ray")
