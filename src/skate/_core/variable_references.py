"""References to other variables in the values of environment variables: `"${HOME}/lib"`."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)


def expand_variables(variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with what others have in the place of `$NAME` and `${NAME}`.

    Others are those of `environ`, and as in Ray the given ones that come before in the alphabet.
    Without such a variable `${NAME}` is empty, and `$NAME` stays: a password may have a dollar.
    """
    known = dict(environ)

    def value_of(found: re.Match[str]) -> str:
        braced, bare = found.groups()
        return known.get(braced, "") if braced else known.get(bare, found.group())

    for name, value in sorted(variables.items()):
        known[name] = _REFERENCE.sub(value_of, value) if "$" in value else value
    return {name: known[name] for name in variables}
