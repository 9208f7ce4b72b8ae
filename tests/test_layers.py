"""The layers of the design, checked on the source: who may import whom, and what no file holds."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "skate"

ON_TOP = ("compat", "cli", "dashboard", "testing", "util", "experimental")
IMPLEMENTATIONS = ("inline", "local", "ray")


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Absolute names of all modules that a file imports, wherever in the file."""
    return tuple(_imports_in(path))


def _imports_in(path: Path) -> Iterator[str]:
    package = list(path.relative_to(PACKAGE.parent).with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            parent = ".".join([*base, *([node.module] if node.module else [])])
            yield parent
            yield from (f"{parent}.{alias.name}" for alias in node.names)


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def offences(files: list[Path], forbidden: tuple[str, ...]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in files
        for name in imports_of(path)
        if within(name, forbidden)
    ]


def sources(*folders: str) -> list[Path]:
    return sorted(path for name in folders for path in (PACKAGE / name).rglob("*.py"))


# -- who may import whom ------------------------------------------------------------------------

FACADE = {"_core", "exceptions", "skate", "util"}
MAY_IMPORT: dict[str, set[str]] = {
    "_paths": set(),
    "_core": {"_paths", "exceptions"},
    "exceptions": {"_core"},
    "runtime_env": {"_core", "exceptions"},
    "engine": {"_core", "exceptions"},
    "_facade": {"_core", "engine", "exceptions", "runtime_env"},
    "runtime_context": {"_core", "_facade", "engine", "runtime_env", "util"},
    "actor": {"_core", "_facade"},
    "client_builder": {"_facade"},
    "job_config": {"runtime_env"},
    "job_submission": {"_core", "engine", "runtime_env", "skate"},
    "logging_config": {"_facade"},
    "util": {"_core", "engine", "exceptions", "job_submission", "skate"},
    "experimental": {"_core", "engine", "util"},
    "dag": {"_core", "_facade", "exceptions"},
    "data": FACADE,
    "serve": FACADE,
    "_run": FACADE,
    "predict": FACADE | {"_run", "data", "train"},
    "train": FACADE | {"_run", "data", "predict"},
    "tune": FACADE | {"_run", "train"},
    "air": {"_core", "_run", "predict", "train"},
    "testing": {"_core", "skate"},
    "dashboard": {"_core", "_run", "engine"},
    "cli": {
        "_core",
        "_run",
        "compat",
        "dashboard",
        "data",
        "engine",
        "job_submission",
        "serve",
        "skate",
        "tune",
        "util",
    },
    "__main__": {"cli"},
}
EVERYTHING = {"__init__", "compat"}  # the names of all; `import ray`, which stands for all
SHARED = {"_core", "_facade", "_paths", "_run"}  # private rooms that are there for others

# What else is imported, and why; also private modules of other libraries.
REASONS: dict[tuple[str, str], str] = {
    ("_core", "skate.engine"): "options are written for the engines' specs, references ask theirs",
    ("_core", "skate.runtime_env"): "an option takes a RuntimeEnv",
    ("engine", "skate._facade.api"): "the first call starts the engine that `init` would",
    ("_facade", "skate.compat._finder"): "`init` says which version of Ray's API it is",
    ("_facade", "skate.dashboard.launch"): "`init` opens the page, if it is asked to",
    ("_facade", "skate.dashboard.metrics_port"): "`init` opens the port, if it is asked to",
    ("_facade", "skate.util"): "types of options, for checkers only",
    ("_facade", "skate.dag"): "`bind` is a method of what was made remote",
    ("_run", "skate.data._io.paths"): "one way to find the file system of an address",
    ("_run", "skate.tune"): "a configuration of runs takes a stopper",
    ("air", "skate.train._dataset_config"): "a name of one era of Ray only",
    ("dag", "skate.engine"): "the end of a graph may be that of its actors",
    ("cli", "skate.serve._client"): "the command talks to the controller",
    ("cli", "skate.util._state_sources"): "the commands list what other programs have",
    ("cli", "skate.util._state_rows"): "the commands list what other programs have",
    ("cli", "skate.util._state_kinds"): "the commands list what other programs have",
    ("cli", "skate.util._state_summaries"): "the commands sum up what other programs have",
    ("cli", "skate.util._state_logs"): "the commands show what other programs print",
    ("cli", "skate.tune._table"): "the command draws trials as searches draw them",
    ("cli", "skate.serve._application"): "the command reads files of deployments",
    ("cli", "skate.serve._http"): "the command opens the door for other commands",
    ("cli", "skate.serve._start_options"): "what an instance was started with is kept",
    ("serve", "skate.engine"): "routers end with the session, and requests go on with its traces",
    ("predict", "skate.data._api"): "batches for TensorFlow, as datasets make them",
    ("predict", "skate.data._arrow"): "batches, as datasets make them",
    ("predict", "skate.data._execution"): "batches as tensors, as datasets make them",
    ("serve", "skate.dag"): "graphs of calls between deployments",
    ("serve", "skate.actor"): "the type of handles, for checkers only",
    ("train", "skate._facade.early_start"): "workers are announced before `init`",
    ("data", "skate._facade.api"): "batches of tensors are written to, without a copy of them",
    ("tune", "skate._facade.api"): "whether trials share the process of the program",
    ("train", "skate._facade.api"): "whether workers share the process of the program",
    ("data", "skate._facade.early_start"): "workers are announced before `init`",
    ("train", "skate.data._api"): "a shard is iterated over as a dataset is",
    ("train", "skate.data._arrow"): "a shard sends blocks",
    ("train", "skate.data._execution"): "a shard says where it is as a dataset does",
    ("train", "skate.data._settings"): "workers get the settings of the driver",
}


def room_of(name: str) -> str:
    return name.split(".")[1] if "." in name else "skate"


def is_module(name: str) -> bool:
    place = PACKAGE.parent.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").exists()


def borders() -> Iterator[tuple[Path, str, str]]:
    """Each import that leads from one room into another: file, room, module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        names = {name for name in imports_of(path) if within(name, ("skate",))}
        modules = {name if is_module(name) else name.rpartition(".")[0] for name in names}
        # `from skate.data import aggregate` names two modules, of which the second one counts.
        inner = {one for one in modules if any(other.startswith(f"{one}.") for other in modules)}
        for module in sorted(modules - inner):
            if room not in EVERYTHING and room_of(module) != room:
                yield path, room, module


def reason_for(room: str, module: str) -> tuple[str, str] | None:
    fitting = (key for key in REASONS if key[0] == room and within(module, (key[1],)))
    return next(fitting, None)


def is_allowed(room: str, module: str) -> bool:
    target = room_of(module)
    inside = target not in SHARED and any(part[0] == "_" for part in module.split(".")[2:])
    return target in MAY_IMPORT[room] and not inside


def test_every_room_imports_what_it_may() -> None:
    """Also where a function imports; nobody imports a private module of another library."""
    assert not [
        f"{path.relative_to(ROOT)} imports {module}"
        for path, room, module in borders()
        if not is_allowed(room, module) and reason_for(room, module) is None
    ]


def test_every_reason_is_needed() -> None:
    needed = {
        reason_for(room, module) for _, room, module in borders() if not is_allowed(room, module)
    }
    assert set(REASONS) <= needed


def test_every_room_has_a_row() -> None:
    rooms = {path.name.removesuffix(".py") for path in PACKAGE.iterdir() if path.name[:2] != "__"}
    assert rooms - {"py.typed"} <= {*MAY_IMPORT, *EVERYTHING}


def test_nothing_on_top_knows_which_engine_runs() -> None:
    assert sources("util")
    engines = tuple(f"skate.engine.{name}" for name in IMPLEMENTATIONS)
    assert not offences(sources(*ON_TOP), engines)


def test_only_the_ray_engine_imports_ray() -> None:
    allowed = PACKAGE / "engine" / "ray"
    others = [path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(allowed)]
    assert not offences(others, ("ray",))


def test_the_source_imports_nothing_from_the_tests_or_benchmarks() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert not offences(files, ("tests", "benchmarks", "examples"))
    assert not offences([f for f in files if f.parent.name != "testing"], ("pytest",))


# -- files --------------------------------------------------------------------------------------

SKIPPED = {"build", "dist", "results", "__pycache__", "node_modules"}
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(work|root|home|opt|tmp)/|\bfile:/{3}")
REGISTRY = re.compile(r"https?://[\w.-]*(pypi|pythonhosted|anaconda|download\.pytorch)[\w.-]*")


def repository_files() -> Iterator[Path]:
    for folder, folders, names in os.walk(ROOT):
        hidden = {name for name in folders if name.startswith(".")} - {".ci"}
        folders[:] = sorted(set(folders) - hidden - SKIPPED)
        # A file `.git` is where the checkout is a worktree, `.coverage.…` while it is measured.
        kept = sorted(name for name in names if not name.startswith((".git", ".coverage")))
        yield from (Path(folder, name) for name in kept)


def text_of(path: Path) -> str:
    return path.read_text(errors="replace")


@pytest.mark.parametrize("pattern", [MACHINE_PATH, REGISTRY], ids=["machine path", "registry"])
def test_no_file_names_a_machine(pattern: re.Pattern[str]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in repository_files()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if pattern.search(line)
    ]
    assert not found


def test_the_patterns_find_what_they_look_for() -> None:
    folder = "work"
    assert MACHINE_PATH.search(f'path = "/{folder}/main"')
    assert not MACHINE_PATH.search(f'cd "$root/{folder}/x"')


def test_the_files_of_the_local_engine_are_where_the_architecture_has_them() -> None:
    """In a row of its table, the folder of a file is that of the ones behind it."""
    text = text_of(ROOT / "ARCHITECTURE.md").partition("\n## The local engine\n")[2]
    table = [line for line in text.partition("\n### ")[0].splitlines() if line.startswith("| `")]
    named = [re.findall(r"`([a-z_]+/)?([a-z_]+\.py)`", line.split("|")[1]) for line in table]
    files = [row[0][0] + name for row in named for _, name in row]
    assert len(files) > 60
    assert not [name for name in files if not (PACKAGE / "engine" / "local" / name).exists()]


def test_the_architecture_names_files_that_exist() -> None:
    named = set(re.findall(r"`([a-z_/]+\.py)`", text_of(ROOT / "ARCHITECTURE.md")))
    files = [f"/{path.relative_to(ROOT)}" for path in repository_files()]
    assert len(named) > 20
    assert not [name for name in named if not any(file.endswith(f"/{name}") for file in files)]
