"""No parameter is accepted and ignored in silence: what a public function never reads, its
docstring, or that of its class, names."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

PACKAGES = """
    skate skate.actor skate.air skate.dag skate.data skate.data.aggregate skate.data.checkpoint
    skate.data.datasource skate.data.expressions skate.data.preprocessors skate.experimental
    skate.job_submission skate.predict skate.predict.batch_conversion skate.runtime_context
    skate.runtime_env skate.serve skate.serve.config skate.serve.handle skate.serve.metrics
    skate.serve.schema skate.testing skate.train skate.train.callbacks skate.train.torch skate.tune
    skate.tune.experiment skate.tune.logger skate.tune.schedulers skate.tune.search
    skate.tune.stopper skate.util skate.util.actor_group skate.util.actor_pool
    skate.util.collective skate.util.metrics skate.util.multiprocessing skate.util.placement_group
    skate.util.queue skate.util.scheduling_strategies skate.util.state
""".split()


def public(package: str) -> Iterator[tuple[str, Any, str]]:
    """Name, function and the docstrings that may speak of its parameters."""
    module = importlib.import_module(package)
    for name in getattr(module, "__all__", None) or [n for n in dir(module) if n[0] != "_"]:
        value = getattr(module, name)
        if inspect.isfunction(value):
            yield f"{package}.{name}", value, ""
        elif inspect.isclass(value) and value.__module__.startswith("skate"):
            for attribute in dir(value):
                raw = inspect.getattr_static(value, attribute)
                function = getattr(raw, "__func__", raw)
                if attribute[0] != "_" or attribute == "__init__":
                    yield f"{package}.{name}.{attribute}", function, inspect.getdoc(value) or ""


def unread(function: Any) -> set[str]:
    """The parameters of a function that its body never looks at."""
    try:
        tree: Any = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, IndentationError):
        return set()
    (made,) = tree.body
    if not isinstance(made, (ast.FunctionDef, ast.AsyncFunctionDef)) or is_left_open(made):
        return set()
    used = {node.id for node in ast.walk(made) if isinstance(node, ast.Name)}
    given = [*made.args.posonlyargs, *made.args.args, *made.args.kwonlyargs]
    names = {parameter.arg for parameter in given if parameter.arg[0] != "_"}
    return set() if "locals" in used else names - used - {"self", "cls"}


def is_left_open(function: Any) -> bool:
    """Whether it is for derived classes to write: it raises, passes, or only documents."""
    written = [line for line in function.body if not is_text(line)]
    return not written or isinstance(written[0], (ast.Raise, ast.Pass))


def is_text(line: ast.stmt) -> bool:
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def names(text: str, parameter: str) -> bool:
    """Whether a text has the parameter as a word of its own."""
    return re.search(rf"\b{parameter}\b", text) is not None


def implements(function: Any, counts: Counter[str]) -> bool:
    """Whether others have a method of this name, so that its parameters are those of all."""
    return "." in function.__qualname__ and counts[function.__name__] > 1


@pytest.fixture(scope="module")
def functions() -> dict[str, tuple[str, Any, str]]:
    found: dict[str, tuple[str, Any, str]] = {}
    for package in PACKAGES:
        for name, function, text in public(package):
            if inspect.isfunction(function) and function.__module__.startswith("skate"):
                found[f"{function.__module__}.{function.__qualname__}"] = name, function, text
    return found


def test_what_is_not_read_is_explained(functions: dict[str, tuple[str, Any, str]]) -> None:
    assert len(functions) > 800
    counts = Counter(f.__name__ for _, f, _ in functions.values() if f.__name__ != "__init__")
    silent = {
        name: sorted(lost)
        for name, function, text in functions.values()
        if not implements(function, counts)
        and (lost := {p for p in unread(function) if not names(f"{text} {function.__doc__}", p)})
    }
    assert silent == {}
