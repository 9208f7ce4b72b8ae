"""Helpers of Ray's tests and examples, imported by their name in Ray, found where they lie."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import skate
from skate.compat import ray as compat

HELPER = "def double(x):\n    return 2 * x\n"


@pytest.fixture(autouse=True)
def as_ray(
    leaves_nothing: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[None]:
    compat.install()
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    skate.shutdown()
    compat.uninstall()
    for name in [name for name in sys.modules if name == "ray" or name.startswith("ray.")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    "place", ["cpu_util.py", "tests/cpu_util.py", "collective/tests/cpu_util.py"]
)
def test_a_helper_beside_the_tests(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(HELPER)
    from ray.util.collective.tests.cpu_util import double

    assert double(2) == 4
    skate.init(num_cpus=1)
    assert skate.get(skate.remote(double).remote(4)) == 8  # workers find it, too


def test_an_example_in_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "examples" / "pytorch").mkdir(parents=True)
    (tmp_path / "examples" / "pytorch" / "linear.py").write_text(HELPER)
    from ray.train.examples.pytorch.linear import double

    assert double(2) == 4


def test_never_below_a_folder_called_ray(tmp_path: Path) -> None:
    (tmp_path / "ray" / "util" / "collective" / "tests").mkdir(parents=True)
    (tmp_path / "ray" / "util" / "collective" / "tests" / "helper.py").write_text(HELPER)
    with pytest.raises(
        ModuleNotFoundError, match=r"skate has no 'ray.util.collective.tests.helper'"
    ):
        import ray.util.collective.tests.helper  # noqa: F401


def test_what_skate_has_goes_first(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("")
    from ray.tests.conftest import ray_start_regular

    assert ray_start_regular is not None


def test_other_modules_are_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "sgd.py").write_text(HELPER)
    with pytest.raises(ModuleNotFoundError, match="TorchTrainer"):
        import ray.util.sgd  # noqa: F401
