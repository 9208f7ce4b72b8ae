"""The reference names everything public, in modules that exist and say what they are."""

from __future__ import annotations

import os
import pkgutil
import re

import pytest

import skate
from tests.docs.public import MODULES
from tests.support import run_program

#: Ray's other paths to names that have a home elsewhere, commands, and what no program imports.
ELSEWHERE = {
    "actor", "air", "cli", "client_builder", "compat", "dashboard", "engine", "remote_function",
}  # fmt: skip

#: Prints the modules without a word about themselves, in a process of their own: importing those
#: of frameworks takes seconds, and cannot be undone.
IMPORT = """
import importlib, sys
print([name for name in sys.argv[1:] if not importlib.import_module(name).__doc__])
"""


def test_no_module_is_named_twice() -> None:
    assert len(MODULES) == len(set(MODULES))


def test_every_public_package_is_there() -> None:
    tops = {module.name for module in pkgutil.iter_modules(skate.__path__)}
    public = {name for name in tops if not name.startswith("_")} - ELSEWHERE
    assert public <= {name.split(".")[1] for name in MODULES if "." in name}


@pytest.mark.parametrize("framework", ["tensorflow", "lightning"])
def test_modules_exist_and_say_what_they_are(framework: str, warm_python: str) -> None:
    of_tensorflow = {name for name in MODULES if re.search("keras|tensorflow", name)}
    rest = {*MODULES} - of_tensorflow
    names = sorted(of_tensorflow if framework == "tensorflow" else rest)
    environment = os.environ | {"WARM_PACKAGES": framework}
    done = run_program([warm_python, "-c", IMPORT, *names], env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
