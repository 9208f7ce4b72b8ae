"""Whether packages that a program asks for are installed already."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def all_installed(wanted: Any) -> bool:
    """Whether this environment has what `runtime_env["pip"]` asks for: a list of requirements, a
    file of them, or a dictionary whose `packages` is one of both."""
    if isinstance(wanted, Mapping):
        wanted = wanted.get("packages", [])
    if isinstance(wanted, (str, Path)):
        wanted = Path(wanted).read_text().splitlines() if Path(wanted).is_file() else [wanted]
    lines = (str(line).partition("#")[0].strip() for line in wanted)
    return all(_is_installed(line) for line in lines if line)


def _is_installed(requirement: str) -> bool:
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ModuleNotFoundError:  # without it, what a requirement means is not known
        return False
    try:
        parsed = Requirement(requirement)
        return parsed.specifier.contains(version(parsed.name), prereleases=True)
    except (InvalidRequirement, PackageNotFoundError):
        return False
