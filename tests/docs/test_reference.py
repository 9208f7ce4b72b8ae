"""The reference names everything public, in modules that exist and say what they are."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import skate
from tests.docs.public import MODULES

#: Ray's other paths to names that have a home elsewhere, commands, and what no program imports.
ELSEWHERE = {
    "actor", "air", "cli", "client_builder", "compat", "dashboard", "engine", "remote_function",
}  # fmt: skip


def test_no_module_is_named_twice() -> None:
    assert len(MODULES) == len(set(MODULES))


def test_every_public_package_is_there() -> None:
    tops = {module.name for module in pkgutil.iter_modules(skate.__path__)}
    public = {name for name in tops if not name.startswith("_")} - ELSEWHERE
    assert public <= {name.split(".")[1] for name in MODULES if "." in name}


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.filterwarnings("ignore")  # of libraries about themselves
def test_a_module_exists_and_says_what_it_is(name: str) -> None:
    assert importlib.import_module(name).__doc__
