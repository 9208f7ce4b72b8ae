"""Every snippet of docs/serving.md runs, one after the other, as a reader would type them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.support import PATIENCE, run_program

GUIDE = Path(__file__).parents[2] / "docs" / "serving.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)

START = f"""
import functools
import httpx
from skate import serve

httpx.get = functools.partial(httpx.get, timeout={PATIENCE})
serve.start(http_options={{"port": 0}})
ADDRESS = serve.http_address()
"""


def test_the_guide(tmp_path: Path) -> None:
    """On another port: 8000 may be in use where the tests run; and with more patience."""
    text = START + "\n".join(SNIPPETS).replace('"http://127.0.0.1:8000', 'ADDRESS + "')
    program = tmp_path / "guide.py"
    program.write_text(text)
    done = run_program([sys.executable, program], timeout=PATIENCE)
    promised = re.findall(r"print\(.*\)  # (.*)", text)
    assert done.stderr == ""
    assert done.stdout.splitlines() == promised
