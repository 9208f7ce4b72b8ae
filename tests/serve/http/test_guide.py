"""Every snippet of docs/serving.md runs, one after the other, as a reader would type them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.serve.http.ports import free_port
from tests.support import PATIENCE

GUIDE = Path(__file__).parents[3] / "docs" / "serving.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)


def test_the_guide(tmp_path: Path) -> None:
    """On another port: 8000 may be in use where the tests run."""
    port = free_port()
    start = f'from skate import serve\n\nserve.start(http_options={{"port": {port}}})\n'
    text = start + "\n".join(SNIPPETS).replace("127.0.0.1:8000", f"127.0.0.1:{port}")
    program = tmp_path / "guide.py"
    program.write_text(text)
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, timeout=PATIENCE
    )
    promised = re.findall(r"print\(.*\)  # (.*)", text)
    assert done.stderr == ""
    assert done.stdout.splitlines() == promised
