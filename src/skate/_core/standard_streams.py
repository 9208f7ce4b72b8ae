"""The program's standard streams. They may be closed (`>&-`), absent (None, as under `pythonw`),
or objects of somebody's own that have little more than `write`: never a reason to fail.
"""

from __future__ import annotations

from typing import Any


def is_terminal(stream: Any) -> bool:
    """Return whether somebody sees what is drawn on `stream`."""
    try:
        return bool(stream.isatty())
    except Exception:  # None, closed, or without that method
        return False


def say(stream: Any, text: str) -> None:
    """Write a line of `text` to `stream`, if that is possible."""
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except Exception:  # None, closed, a full disk, or a reader that has gone
        pass
