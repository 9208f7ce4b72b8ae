"""Draws the pictures of the guide from a real run: python -m tests.dashboard.pictures docs/img"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from pathlib import Path

from tests.dashboard.browser import Browser, browser
from tests.dashboard.programs import ENVIRONMENT, started, told, up

_WIDTH = 1000
_COLORS = 128


def _take(page: Browser, view: str, height: int, path: Path) -> None:
    from PIL import Image

    page.look(_WIDTH, "light", height)
    page.show(view)
    page.driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    page.driver.save_screenshot(str(path))
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(_COLORS).save(path, optimize=True)


def main(folder: str) -> None:
    """Run a program, and take a picture of each view."""
    target = Path(folder)
    os.environ["SHOWN_TEXT"] = ENVIRONMENT["SHOWN_TEXT"] = "silu"
    with tempfile.TemporaryDirectory() as place, browser(Path(place, "browser")) as page:
        program = started(Path(place), "page")
        try:
            page.open(up(program))
            page.click("button", "10 s")
            for line in ("search", "tasks 90 0.15", "hold", "actors", "deadlock"):
                told(program, line)
            for view, height in (("tasks", 560), ("waits", 440), ("memory", 620), ("runs", 900)):
                _take(page, view, height, target / f"page-{view}.png")
            told(program, "serve")
            calls = threading.Thread(target=told, args=(program, "call 1200"))
            calls.start()
            page.show("deployments")
            page.until("return document.querySelectorAll('.chart polyline').length === 5")
            page.until("return document.querySelectorAll('.chart polyline')[1].points.length > 4")
            _take(page, "deployments", 480, target / "page-deployments.png")
            calls.join()
        finally:
            program.end()


if __name__ == "__main__":
    main(*sys.argv[1:])
