"""Small files that are there completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from skate._run.folders import LocalFolder


def write_atomically(path: str, content: bytes) -> None:
    """Replace a file in one step."""
    folder, name = os.path.split(path)
    LocalFolder(folder or ".").write(name, content)


def newest(folder: str, pattern: str) -> Path | None:
    """The file that was written last, among those of a pattern."""
    found = sorted(Path(folder).glob(pattern), key=lambda path: (path.stat().st_mtime, path.name))
    return found[-1] if found else None
