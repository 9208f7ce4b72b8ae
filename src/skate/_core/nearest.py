"""What the user may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING


def nearest_names(name: str, allowed: Iterable[str], count: int = 3) -> list[str]:
    """Return the allowed names that look most like `name`."""
    import difflib

    return difflib.get_close_matches(name, list(allowed), n=count)


def unknown_parameter(
    function: str, name: str, known: Iterable[str], also: Iterable[str] = ()
) -> TypeError:
    """Return the error of a function that was given something which it does not have.

    Args:
        function: Its name.
        name: What it was given.
        known: What it has; names with an underscore are not told.
        also: What it takes as well, and is told only where `name` is misspelt.
    """
    public = [each for each in known if each != "self" and not each.startswith("_")]
    near = nearest_names(name, dict.fromkeys([*public, *also]))
    hint = (
        f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(public) or 'none'}"
    )
    return TypeError(f"{function}() has no parameter {name!r}; {hint}")


class SpelledOut:
    """Names the parameter that was meant, where one is given that does not exist."""

    if not TYPE_CHECKING:  # checkers look at the parameters themselves

        def __new__(cls, *args, **given):
            if given:  # also what is unpickled comes by here, and there is a lot of it
                cls._check_names(given)
            return super().__new__(cls)

        @classmethod
        def _check_names(cls, given):
            import inspect

            known = inspect.signature(cls.__init__).parameters
            takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())
            for name in () if takes_any else given:
                if name not in known:
                    raise unknown_parameter(cls.__name__, name, known)
