"""Small files that are there completely or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: str, content: bytes) -> None:
    """Replace a file in one step."""
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".tmp-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def newest(folder: str, pattern: str) -> Path | None:
    """The file that was written last, among those of a pattern."""
    found = sorted(Path(folder).glob(pattern), key=lambda path: (path.stat().st_mtime, path.name))
    return found[-1] if found else None
