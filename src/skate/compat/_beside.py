"""Files of Ray's own tests and examples, where somebody has brought them along.

A test of Ray's imports its helpers as `ray.util.collective.tests.cpu_util`. skate has no such
module, but the file may lie where the tests do: it is looked for on `sys.path` as
`util/collective/tests/cpu_util.py`, `collective/tests/cpu_util.py`, `tests/cpu_util.py` and
`cpu_util.py`. Never below a folder `ray`: that would be Ray itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path

_KINDS = {"tests", "examples"}


def is_folder(name: str) -> bool:
    """Return whether `name` is a package that such files would be in, as `ray.tune.tests`."""
    return name.rpartition(".")[2] in _KINDS or _find(name, "", Path.is_dir) is not None


def find_file(name: str) -> ModuleSpec | None:
    """Return the spec of a file that stands for the module `name`, if there is one."""
    found = _find(name, ".py", Path.is_file)
    return None if found is None else spec_from_file_location(name, found)


def _find(name: str, ending: str, fits: Callable[[Path], bool]) -> Path | None:
    parts = name.split(".")[1:]
    if _KINDS.isdisjoint(parts[:-1]):
        return None
    suffixes = ["/".join(parts[start:]) + ending for start in range(len(parts))]
    places = [Path(folder or ".") for folder in sys.path]
    return next(filter(fits, (place / suffix for suffix in suffixes for place in places)), None)
