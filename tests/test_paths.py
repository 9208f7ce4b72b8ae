"""Public paths: every one of the table can be imported, and has the very objects of its homes."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pickle
import pkgutil
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

import skate
from skate._paths import FORMER_MODULES, PATHS, homes
from tests.support import run_program

ROOT = Path(skate.__file__).parent
MADE = {"TYPE_TO_ENUM"}  # each time that it is asked for


def file_of(path: str) -> Path | None:
    """The file of a module, if it has one."""
    base = ROOT.parent / path.replace(".", "/")
    return next(
        (file for file in (base / "__init__.py", base.with_suffix(".py")) if file.exists()), None
    )


FILELESS = sorted(path for path in PATHS if file_of(path) is None)
PACKAGES = sorted(path for path in PATHS if file_of(path) is not None)


def run(code: str) -> str:
    return run_program([sys.executable, "-c", code], check=True).stdout


def at_home(home: str, name: str) -> object:
    module = importlib.import_module(home)
    return getattr(module, name) if name else module


def is_slow(home: str) -> bool:
    """Whether importing it takes seconds, for a framework that this process does not need."""
    return home.startswith(
        ("skate.predict.tensorflow", "skate.train.huggingface.", "skate.train.tensorflow.keras")
    )


def written_in(home: str) -> set[str]:
    """The names that the file of a module gives a value, imports or defines."""
    file = file_of(home)
    assert file is not None
    body = ast.parse(file.read_text()).body
    targets = [target for node in body if isinstance(node, ast.Assign) for target in node.targets]
    names = {getattr(node, "name", "") for node in body}
    names |= {target.id for target in targets if isinstance(target, ast.Name)}
    for node in body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


@pytest.mark.parametrize("path", PATHS)
def test_every_path_has_the_objects_of_its_homes(path: str) -> None:
    module = importlib.import_module(path)
    assert module.__name__ == path
    assert sys.modules[path] is module
    assert inspect.getdoc(module)
    for name, home in homes(path).items():
        assert name in dir(module)
        if is_slow(home[0]):
            assert not home[1] or home[1] in written_in(home[0])
        elif name not in MADE:
            assert getattr(module, name) is at_home(*home), f"{path}.{name}"


@pytest.mark.parametrize("path", FILELESS)
def test_a_path_without_a_file_is_a_module_like_any_other(path: str) -> None:
    spec = importlib.util.find_spec(path)
    assert spec is not None
    assert spec.name == path
    module = importlib.import_module(path)
    parent, _, name = path.rpartition(".")
    assert getattr(importlib.import_module(parent), name) is module
    assert pkgutil.resolve_name(path) is module
    assert sorted(module.__all__) == sorted(homes(path))
    if not any(is_slow(home) for home, _ in homes(path).values()):
        scope: dict[str, object] = {}
        exec(f"from {path} import *", scope)
        assert set(homes(path)) <= set(scope)


@pytest.mark.parametrize("path", ["skate.tune.suggest.optuna", "skate.air.config", "skate.data"])
def test_a_name_that_is_not_there(path: str) -> None:
    module = importlib.import_module(path)
    assert not hasattr(module, "no_such_name")
    with pytest.raises(ImportError, match="no_such_name"):
        exec(f"from {path} import no_such_name")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        importlib.import_module(f"{path}.no_such_module")


def test_a_name_that_is_nearly_right_is_named() -> None:
    with pytest.raises(AttributeError, match=r"skate\.tune\.suggest has no .*'Searcher'"):
        importlib.import_module("skate.tune.suggest").Seracher  # noqa: B018


def test_the_table_is_loaded_with_the_first_name_of_it() -> None:
    loaded = "print('skate._paths' in sys.modules)"
    assert run(f"import sys, skate; {loaded}; skate.air; {loaded}") == "False\nTrue\n"


def test_a_path_without_a_file_is_there_in_workers(engine: object) -> None:
    @skate.remote
    def module_of(path: str) -> tuple[str, bool]:
        module = importlib.import_module(path)
        return module.__name__, module.RunConfig is importlib.import_module(
            "skate.train"
        ).RunConfig

    assert skate.get(module_of.remote("skate.air.config")) == ("skate.air.config", True)


def test_a_path_without_a_file_under_another_name() -> None:
    assert run("import skate.air.session as s; print(s.__name__)") == "skate.air.session\n"
    assert run("import skate; print(skate.tune.suggest.optuna.OptunaSearch.__name__)") == (
        "OptunaSearch\n"
    )


@pytest.mark.parametrize(("former", "current"), FORMER_MODULES.items())
def test_what_pickles_name_by_a_former_path(former: str, current: str) -> None:
    assert file_of(former) is None, "it would hide what is there now"
    module = importlib.import_module(current)
    named = [
        name
        for name, value in vars(module).items()
        if isinstance(value, (type, FunctionType)) and value.__module__.startswith("skate")
    ]
    assert named
    for name in named:
        assert pickle.loads(f"c{former}\n{name}\n.".encode()) is getattr(module, name)


@pytest.mark.parametrize(
    "name", ["TaskOptions", "ActorOptions", "CallOptions", "ActorMeta", "MethodMeta"]
)
def test_a_remote_function_of_an_earlier_pickle_finds_its_options(name: str) -> None:
    from skate.engine import specs

    assert pickle.loads(f"cskate.engine.base\n{name}\n.".encode()) is getattr(specs, name)


# -- names of public classes and functions ------------------------------------------------------


def public_modules() -> Iterator[str]:
    """Packages first, then what is below them; without frameworks that take seconds."""
    left = ["skate"]
    while left:
        path = left.pop(0)
        yield path
        package = importlib.import_module(path)
        below = pkgutil.iter_modules(getattr(package, "__path__", ()), f"{path}.")
        names = [info.name for info in below if not info.name.rpartition(".")[2].startswith("_")]
        left += [name for name in names if not name.startswith(NOT_WALKED) and not is_slow(name)]


NOT_WALKED = ("skate.cli", "skate.compat", "skate.engine", "skate.train.huggingface")


@pytest.fixture(scope="module")
def offered() -> dict[str, type | FunctionType]:
    """All public classes and functions of skate, by the paths that offer them."""
    found: dict[str, type | FunctionType] = {}
    for path in public_modules():
        module = importlib.import_module(path)
        for name in getattr(module, "__all__", ()):
            if is_slow(homes(path).get(name, ("", ""))[0]):
                continue
            value = getattr(module, name)
            if isinstance(value, (type, FunctionType)) and value.__module__.startswith("skate"):
                found[f"{path}.{name}"] = value
    assert len(found) > 500
    return found


def test_what_is_public_says_a_public_path(offered: dict[str, type | FunctionType]) -> None:
    own = {path: value for path, value in offered.items() if path.endswith(f".{value.__name__}")}
    assert not [path for path, value in own.items() if "._" in value.__module__]
    assert repr(skate.ObjectRef) == "<class 'skate.ObjectRef'>"
    assert repr(skate.train.Checkpoint) == "<class 'skate.train.Checkpoint'>"


def test_what_is_public_is_found_by_what_it_says(
    offered: dict[str, type | FunctionType],
) -> None:
    for path, value in offered.items():
        if "<locals>" not in value.__qualname__:
            assert pickle.loads(pickle.dumps(value)) is value, path


def test_the_source_of_public_functions_and_methods(
    offered: dict[str, type | FunctionType],
) -> None:
    for value in offered.values():
        functions = [value, *vars(value).values()] if isinstance(value, type) else [value]
        for function in functions:
            written = inspect.unwrap(function)
            if isinstance(written, FunctionType) and "<" not in written.__code__.co_filename:
                assert inspect.getsource(written)


@pytest.mark.parametrize("cls", [skate.train.RunConfig, skate.train.ScalingConfig])
def test_annotations_are_looked_up_where_a_class_is_written(cls: type) -> None:
    hints = typing.get_type_hints(cls)
    assert hints
    assert not [hint for hint in hints.values() if isinstance(hint, str)]


def test_pickles_are_read_where_nothing_is_imported_yet(tmp_path: Path) -> None:
    file = tmp_path / "configuration"
    file.write_bytes(pickle.dumps([skate.train.RunConfig(name="x"), skate.train.Checkpoint]))
    assert b"._" not in file.read_bytes()
    code = f"import pickle; c, _ = pickle.load(open({str(file)!r}, 'rb')); print(c.name, type(c))"
    assert run(code) == "x <class 'skate.train.RunConfig'>\n"


# -- what type checkers see ---------------------------------------------------------------------


def declared(file: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """The names that a package imports for type checkers, with their homes."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            for line in node.body:
                if isinstance(line, ast.ImportFrom):
                    for name in line.names:
                        found[name.asname or name.name] = (line.module or "", name.name)
                elif isinstance(line, ast.Assign):
                    (target,) = line.targets
                    assert isinstance(target, ast.Name)
                    assert isinstance(line.value, ast.Name)
                    found[target.id] = found[line.value.id]
    yield from found.items()


@pytest.mark.parametrize("path", PACKAGES)
def test_type_checkers_see_what_the_table_has(path: str) -> None:
    file = file_of(path)
    assert file is not None
    seen = dict(declared(file))
    below = {name for name, (_, there) in homes(path).items() if not there}
    names = {name: home for name, home in homes(path).items() if home[1] and name[0] != "_"}
    assert {name: seen.get(name) for name in names} == names
    others = {name for name in seen if name not in names}
    assert others == {name for name in others if file_of(f"{path}.{name}") or name in below}
    assert {name for name in below if file_of(f"{path}.{name}")} <= others


def test_every_module_of_the_table_is_public() -> None:
    assert not [path for path in PATHS if any(part[0] == "_" for part in path.split("."))]
    assert isinstance(sys.modules["skate"], ModuleType)
