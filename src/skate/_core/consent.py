"""Whether pickles of others may be read: the word that a user gives for a whole program."""

from __future__ import annotations

import os

ALLOW_PICKLE_VARIABLE = "SKATE_ALLOW_PICKLE"


def program_allows_pickle() -> bool:
    """Return whether the environment allows pickles from anywhere, which may run any code."""
    return os.environ.get(ALLOW_PICKLE_VARIABLE, "").lower() not in ("", "0", "false")
