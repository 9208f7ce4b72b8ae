"""What runtime environments ask for under `pip`, `uv`, `conda` and `py_executable`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from skate._core.optional_imports import ray_is_skate

TOOLS = ("pip", "uv", "conda", "py_executable")
_FIELDS = {
    "pip": ("packages", "pip_check", "pip_version", "pip_install_options"),
    "uv": ("packages", "uv_check", "uv_version", "uv_pip_install_options"),
}


class Requirements(NamedTuple):
    """What an interpreter must have, and who puts it there. Text only, so that it can be a key.

    `packages` are lines as in a requirements file; for conda the name or folder of an environment,
    or the text of its file; for `py_executable` the path of an interpreter.
    """

    tool: str
    packages: tuple[str, ...]
    options: tuple[str, ...] = ()
    tool_version: str = ""  # such as "==24.0"; "": any
    check: bool = False  # for conflicts, afterwards


def requirements_of(runtime_env: Mapping[str, object]) -> Requirements | None:
    """Return what `runtime_env` asks for beyond the environment of this process, or None."""
    asked = asked_requirements(runtime_env)
    return None if asked is None or is_here_already(asked) else asked


def asked_requirements(runtime_env: Mapping[str, object]) -> Requirements | None:
    """Return what `runtime_env` asks for, whether it is here or not; None: nothing."""
    asked = [name for name in TOOLS if runtime_env.get(name)]
    if not asked:
        return None
    wanted = parse_requirements(asked[0], runtime_env[asked[0]])
    return wanted if wanted.packages else None


def has_only_names(wanted: Requirements) -> bool:
    """Return whether `wanted` is packages by their names, and so means the same at any time."""
    return wanted.tool in ("pip", "uv") and not any(
        line.startswith("-") or os.sep in line or line.endswith((".txt", ".whl"))
        for line in wanted.packages
    )


def parse_requirements(name: str, value: object) -> Requirements:
    """Return what the field `name` of a runtime environment asks for.

    Raises TypeError or ValueError for what is no such thing, or names a file that is not there.
    """
    if name == "py_executable":
        return Requirements(name, (_text(name, value),))
    if name == "conda":
        return Requirements(name, (_conda(value),))
    return _installed_by(name, value)


def _installed_by(tool: str, value: object) -> Requirements:
    field = f"runtime_env[{tool!r}]"
    if not isinstance(value, Mapping):
        return Requirements(tool, _packages(field, value))
    packages, check, tool_version, options = _FIELDS[tool]
    unknown = [name for name in value if name not in _FIELDS[tool]]
    if unknown or packages not in value:
        raise ValueError(
            f"{field} takes the fields {', '.join(_FIELDS[tool])}, of which {packages} is needed; "
            f"got {', '.join(map(str, value))}"
        )
    wanted_version = _text(tool_version, value.get(tool_version) or "", field)
    checks = value.get(check, False)
    if not isinstance(checks, bool):
        raise TypeError(f"{field}[{check!r}] takes True or False; got {checks!r}")
    return Requirements(
        tool,
        _packages(f"{field}[{packages!r}]", value[packages]),
        _lines(f"{field}[{options!r}]", value.get(options) or ()),
        wanted_version,
        checks,
    )


def _packages(field: str, value: object) -> tuple[str, ...]:
    """Return lines of a requirements file. For the path of one its own, if they mean the same
    anywhere, so that who lists the packages gets the same environment; else the line that includes
    it."""
    if isinstance(value, (str, Path)):
        path = os.path.abspath(value)
        if not os.path.isfile(path):
            raise ValueError(
                f"{field} takes a list of packages or the path of a requirements file; "
                f"there is no file {str(value)!r}"
            )
        lines = [line.split(" #")[0].strip() for line in Path(path).read_text().splitlines()]
        lines = [line for line in lines if line and not line.startswith("#")]
        plain = not any(line.startswith("-") or os.sep in line or "\\" in line for line in lines)
        return tuple(dict.fromkeys(lines)) if plain else (f"-r {path}",)
    return tuple(dict.fromkeys(_lines(field, value)))


def _lines(field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"{field} takes a list of strings; got {value!r}")
    return tuple(str.__str__(item) for item in value)


def _text(name: str, value: object, field: str = "runtime_env") -> str:
    if not isinstance(value, (str, Path)):
        raise TypeError(f"{field}[{name!r}] takes a string; got {value!r}")
    return str(value)


def _conda(value: object) -> str:
    """Return the name or folder of an environment, or a description as text."""
    if isinstance(value, Mapping):
        import json  # which conda reads too: YAML contains it

        return json.dumps(value, sort_keys=True)
    text = _text("conda", value)
    if not text.endswith((".yaml", ".yml")):
        return os.path.abspath(text) if os.sep in text else text
    if not os.path.isfile(text):
        raise ValueError(f"runtime_env['conda'] names a file that is not there: {text!r}")
    return Path(text).read_text()


# -- what is there already ------------------------------------------------------------------------


def is_here_already(wanted: Requirements) -> bool:
    """Return whether this process has what is `wanted`. Takes long: it asks for each package."""
    if wanted.tool == "py_executable":
        import shutil

        found = shutil.which(wanted.packages[0]) or ""
        return os.path.abspath(found) == os.path.abspath(sys.executable)
    return wanted.tool in ("pip", "uv") and not wanted.check and all_installed(wanted.packages)


def all_installed(packages: Iterable[str]) -> bool:
    """Return whether this process has all `packages`, given as lines of a requirements file."""
    try:
        return all(_is_installed(line) for line in _expanded(packages, set()))
    except (OSError, UnicodeError):  # a file that cannot be read: the tool will say so
        return False


def _expanded(lines: Iterable[str], seen: set[str]) -> Iterable[str]:
    """Yield the lines without comments, with those of files that are included by their full path
    and are not among `seen`."""
    for line in lines:
        text = line.partition("#")[0].strip()
        included = text.removeprefix("-r ").strip()
        if included != text and os.path.isabs(included):
            if os.path.realpath(included) not in seen:
                seen.add(os.path.realpath(included))
                yield from _expanded(Path(included).read_text().splitlines(), seen)
        elif text:
            yield text


def _is_installed(requirement: str) -> bool:
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ModuleNotFoundError:  # without it, what a requirement means is not known
        return False
    try:
        return _has(Requirement(requirement), set())
    except InvalidRequirement:
        return False


def _has(requirement: Any, seen: set[str]) -> bool:
    """Return whether it is met here, with what its extras need."""
    from importlib.metadata import PackageNotFoundError, version

    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return True  # it is meant for others
    if requirement.url is not None:
        return False  # whether it is this very build is not known
    if requirement.name == "skate" or (requirement.name == "ray" and ray_is_skate()):
        return True
    try:
        if not requirement.specifier.contains(version(requirement.name), prereleases=True):
            return False
        return all(_has_extra(requirement.name, extra, seen) for extra in requirement.extras)
    except PackageNotFoundError:
        return False


def _has_extra(name: str, extra: str, seen: set[str]) -> bool:
    from importlib.metadata import requires

    from packaging.requirements import Requirement

    key = f"{name}[{extra}]"
    if key in seen:
        return True
    seen.add(key)
    for line in requires(name) or ():
        needed = Requirement(line)
        if needed.marker is None or not needed.marker.evaluate({"extra": extra}):
            continue
        needed.marker = None
        if not _has(needed, seen):
            return False
    return True
