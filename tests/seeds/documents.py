"""The code of Ray's guides, where their texts are at hand: beside the repository."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"

_RST = re.compile(r"^\.\. code-block:: python\n\n((?:(?:[ ]{2,}.*)?\n)+)", re.MULTILINE)
_FENCE = re.compile(r"^```\{?(?:code-cell|python)\}?.*\n((?:.*\n)*?)```", re.MULTILINE)
_RAY = re.compile(r"\bray\b(?=\.[a-z]|\s*$| as )", re.MULTILINE)


def text_of(number: str) -> str | None:
    """The document whose file name starts with this number, if there is one."""
    found = sorted(SEEDS.glob(f"{number}_*"))
    return found[0].read_text() if found else None


def blocks(text: str) -> list[str]:
    """Its blocks of Python, from first to last, with `ray` called `skate`."""
    found = _RST.findall(text) or _FENCE.findall(text)
    return [_RAY.sub("skate", textwrap.dedent(block)) for block in found]
