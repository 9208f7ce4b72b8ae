"""Why can this not be sent to a worker?"""

from __future__ import annotations

from typing import Any

from skate._core.unpicklable import Culprit, find_culprits

FailureTuple = Culprit


def inspect_serializability(
    base_obj: object, name: str | None = None, depth: int = 3, print_file: Any = None
) -> tuple[bool, set[Culprit]]:
    """Look for what cannot be serialised inside a value, and print it.

    Args:
        base_obj: The value: a function, an object, anything.
        name: What to call it in the report; None takes its own name, or that of its type.
        depth: How many levels to look down.
        print_file: Where the report is printed; None is standard output.

    Returns:
        Whether it can be serialised, and the culprits, each with `path`, `obj`, `type_name` and
        `parent`.

    Example:
        >>> import io
        >>> skate.util.inspect_serializability([1, 2], print_file=io.StringIO())
        (True, set())
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
