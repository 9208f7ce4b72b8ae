"""What a page of the documentation contains that can be run, and what it says comes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TOGETHER = "build on each other"  # what a page says whose blocks need those before them


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its other words, the line where its text begins, the text."""

    language: str
    words: str
    line: int
    text: str

    @property
    def is_program(self) -> bool:
        """Whether it is Python of the page itself; examples that are shown are `{.python}`."""
        return self.language == "python"


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order, also those inside lists and tabs."""
    found: list[Block] = []
    lines: list[str] = []
    indent, head = 0, None
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        if head is None:
            if fence := re.match(r"^( *)```(\S*) ?(.*)$", line):
                indent, head, lines = len(fence[1]), (fence[2], fence[3], number + 1), []
        elif line.strip() == "```":
            found.append(Block(*head, "".join(f"{text}\n" for text in lines)))
            head = None
        else:
            lines.append(line[indent:])
    return found


def program(page: Path) -> str:
    """Return the Python blocks of a page as one program that keeps their line numbers."""
    lines: list[str] = []
    for block in blocks(page):
        if block.is_program:
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.text.splitlines()
    return "".join(f"{line}\n" for line in lines)


def promises(page: Path) -> list[str]:
    """Return what the page says is printed, in order.

    That is the comment behind a `print` at the left margin, and each block titled "Output".
    """
    found: list[str] = []
    for block in blocks(page):
        if block.is_program:
            found += re.findall(r"^print\(.*\)  # (.*)$", block.text, re.MULTILINE)
        elif 'title="Output"' in block.words:
            found.append(block.text.rstrip("\n"))
    return found


def broken_promise(printed: str, promised: list[str]) -> str | None:
    """Return the first promise that is not in `printed` behind those before it.

    `…` in a promise stands for anything within a line; spaces at the ends of lines do not count.
    """
    position = 0
    text = "".join(f"{line.rstrip()}\n" for line in printed.splitlines())
    for promise in promised:
        lines = [re.escape(line.rstrip()).replace("…", ".*") for line in promise.splitlines()]
        found = re.compile(r"^" + r"\n".join(lines) + r"$", re.MULTILINE).search(text, position)
        if found is None:
            return promise
        position = found.end()
    return None
