"""What Ray has and skate does not: importable beside others, refused when used."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest

from skate.compat import ray as compat
from skate.compat._names_left_out import MODULES_LEFT_OUT, NAMES_LEFT_OUT


@pytest.fixture(autouse=True)
def as_ray() -> Iterator[None]:
    compat.install()
    yield
    compat.uninstall()


@pytest.mark.parametrize("module", MODULES_LEFT_OUT)
def test_modules_can_be_imported(module: str) -> None:
    importlib.import_module(module)


def test_names_can_be_imported_and_say_what_they_are_when_used() -> None:
    for module, names in NAMES_LEFT_OUT.items():
        for name in names:
            value = getattr(importlib.import_module(module), name)
            with pytest.raises(NotImplementedError, match=rf"skate has no '{module}.{name}'"):
                value()


def test_what_is_refused_says_why() -> None:
    from ray.util.client.worker import Worker

    with pytest.raises(NotImplementedError, match="a part of Ray's cluster"):
        Worker("127.0.0.1:10001")


def test_private_names_of_any_module_can_be_imported() -> None:
    from ray.util.placement_group import _a_helper_of_ray

    with pytest.raises(NotImplementedError, match="_a_helper_of_ray"):
        _a_helper_of_ray()


def test_all_other_names_are_an_error_at_once() -> None:
    import ray

    with pytest.raises(ImportError, match="no_such_name"):
        exec("from ray.util.placement_group import no_such_name")
    assert not hasattr(ray.serve.schema, "NoSuchSchema")
    assert not hasattr(ray, "_no_such_name")
