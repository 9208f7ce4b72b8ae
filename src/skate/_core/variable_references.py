"""References to other variables in the values of environment variables: `"${HOME}/lib"`."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)


def expand_variables(variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with what `environ` has in the place of `$NAME` and `${NAME}`.

    Without such a variable `${NAME}` is empty, and `$NAME` stays: a password may have a dollar.
    """

    def value_of(found: re.Match[str]) -> str:
        braced, bare = found.groups()
        return environ.get(braced, "") if braced else environ.get(bare, found.group())

    return {
        name: _REFERENCE.sub(value_of, value) if "$" in value else value
        for name, value in variables.items()
    }
