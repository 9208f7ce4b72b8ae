"""Why can this not be sent to a worker?"""

from __future__ import annotations

from typing import Any

from skate._core.unpicklable import Culprit, find_culprits

FailureTuple = Culprit


def inspect_serializability(
    base_obj: Any, name: str | None = None, depth: int = 3, print_file: Any = None
) -> tuple[bool, set[Culprit]]:
    """Look for what cannot be serialised inside `base_obj`, at most `depth` levels down.

    Returns whether `base_obj` can be serialised, and the culprits (each with `path`, `obj`,
    `type_name` and `parent`), and prints both to `print_file` (default: standard output).
    """
    name = name if name is not None else getattr(base_obj, "__name__", type(base_obj).__name__)
    culprits = find_culprits(base_obj, name, depth)
    print(_report(name, culprits), file=print_file)
    return not culprits, set(culprits)


def _report(name: str, culprits: list[Culprit]) -> str:
    if not culprits:
        return f"{name} can be serialized."
    lines = [f"{name} cannot be serialized, because of"]
    lines += [f"    {culprit}" for culprit in culprits]
    lines.append("Create it inside the task or actor, or leave it out with __getstate__.")
    return "\n".join(lines)
