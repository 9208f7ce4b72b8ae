"""Initializers of pools and executors: what they set is there for the functions of a script."""

from __future__ import annotations

import os
import sys
import types
from functools import partial
from typing import Any

import pytest

from skate.util._initializer import Initialized
from tests.support import run_program

SCRIPT = """
from skate.util import Executor
from skate.util.multiprocessing import Pool

model = None
cache = {}
factor = 2

def prepare(number):
    global model, name
    model = number
    name = "set"
    cache["product"] = number * factor

def helper():
    return model, name, cache["product"]

def use(x):
    return x, *helper()

class Callable:
    def __call__(self, x):
        return x, *helper()

def print_all(mapped):
    for function in (use, lambda x: (x, *helper()), Callable()):
        print(*mapped(function, [1, 2]))

with Pool(1, prepare, [3]) as pool:
    print_all(pool.map)
with Executor(initializer=prepare, initargs=[3]) as executor:
    print_all(executor.map)
"""


@pytest.mark.parametrize("engine", ["local", "inline"])
def test_what_an_initializer_sets_is_there_for_functions_of_its_script(tmp_path, engine):
    (tmp_path / "program.py").write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "SKATE_ENGINE": engine}
    command = [sys.executable, tmp_path / "program.py"]
    done = run_program(command, cwd=tmp_path, env=environment, check=True)
    assert done.stdout.splitlines() == ["(1, 3, 'set', 6) (2, 3, 'set', 6)"] * 6


def space(name: str, code: str, **values: Any) -> dict[str, Any]:
    """The globals of a function that came by value."""
    made = {"__name__": name, **values}
    exec(code, made)
    return made


def test_functions_keep_what_they_change_themselves():
    there = space("script", "def prepare():\n    global n\n    n = 1")
    here = space("script", "def count():\n    global n\n    n += 1\n    return n")
    ready = Initialized(there["prepare"], ())
    for expected in (2, 3):
        ready.lend_to(here["count"])
        assert here["count"]() == expected


def test_functions_of_other_modules_get_nothing():
    there = space("script", "def prepare():\n    global n\n    n = 1")
    here = space("another", "def look():\n    return n")
    Initialized(there["prepare"], ()).lend_to(here["look"])
    assert "n" not in here


def test_helpers_that_were_sent_with_a_function_stay_its_own():
    code = "def helper():\n    return {}\ndef run():\n    return helper()"
    there, here = space("script", code.format("'old'")), space("script", code.format("'new'"))
    Initialized(there["run"], ()).lend_to(here["run"])
    assert here["run"]() == "new"


def test_of_an_imported_module_only_what_was_set(monkeypatch):
    module = types.ModuleType("imported")
    monkeypatch.setitem(sys.modules, "imported", module)
    exec("n, m = 1, 1\ndef prepare():\n    global n\n    n = 2", vars(module))
    here = space("imported", "def look():\n    return n, m", n=0, m=0)
    Initialized(vars(module)["prepare"], ()).lend_to(here["look"])
    assert here["look"]() == (2, 0)


def test_functions_inside_of_partials():
    there = space("script", "def prepare(value):\n    global n\n    n = value")
    here = space("script", "def look(x):\n    return n + x")
    Initialized(partial(there["prepare"], 5), ()).lend_to(partial(map, here["look"]))
    assert here["look"](1) == 6


def test_functions_that_a_function_has_from_outside_of_it():
    there = space("script", "def prepare():\n    global n\n    n = 5")
    here = space("script", "def look(x):\n    return n + x if x else again(x)")
    look = here["look"]

    def again(x: int) -> Any:
        return look(x) if x else again(x + 1)

    Initialized(there["prepare"], ()).lend_to(again)
    assert again(0) == 6
