"""Text of others, as it may stand on a terminal or in a log."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return a text that is one line, and tells the terminal nothing.

    What is no character that one sees (newlines, escape sequences, marks that turn the direction
    of writing) is written as Python writes it.

    Args:
        text: What a file or a client says.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
