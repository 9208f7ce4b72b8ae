"""Chromium without a window, for tests of the page and for the pictures of the guide."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import PATIENCE, eventually

_OPTIONS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-extensions", "--disable-background-networking", "--disable-component-update",
)  # fmt: skip


def what_is_missing() -> str:
    """Why there is no browser here; "" if there is one."""
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed"
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return (
        f"there is no {' and no '.join(missing)} (Debian: apt-get install chromium-driver)"
        * bool(missing)
    )


class Browser:
    """A page in a browser."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.js: Callable[..., Any] = driver.execute_script

    def open(self, address: str, view: str = "") -> None:
        """Open a page, and wait until it has asked for the first time."""
        self.driver.get("about:blank")  # else only the view would change
        self.driver.get(f"http://{address}{f'#{view}' if view else ''}")
        self.until("return document.body.dataset.round !== undefined")

    def show(self, view: str) -> None:
        """Show another view, with news that came after that."""
        self.js("location.hash = arguments[0]", view)
        self.next_round()

    def next_round(self) -> None:
        """Wait until it has asked again, from the beginning."""
        now = int(self.js("return document.body.dataset.round"))
        self.until(f"return Number(document.body.dataset.round) > {now + 1}")

    def until(self, script: str) -> None:
        """Wait until a script returns something true."""
        eventually(lambda: self.js(script), PATIENCE)

    def text(self, selector: str = "main") -> str:
        return str(self.js("return document.querySelector(arguments[0]).innerText", selector))

    def texts(self, selector: str) -> list[str]:
        script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)"
        return list(self.js(script, selector))

    def click(self, selector: str, text: str = "") -> None:
        script = (
            "[...document.querySelectorAll(arguments[0])]"
            ".find((one) => one.innerText.trim().startsWith(arguments[1])).click()"
        )
        self.js(script, selector, text)

    def type(self, selector: str, text: str) -> None:
        script = (
            "const field = document.querySelector(arguments[0]); field.value = arguments[1];"
            "field.dispatchEvent(new Event('input'))"
        )
        self.js(script, selector, text)

    def look(self, width: int, scheme: str, height: int = 900) -> None:
        """Have a window of this width, and prefer light or dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        prefers = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": prefers})

    def complaints(self) -> list[str]:
        """What the browser has written to its console since the last time."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """Start a browser whose own files are in a folder."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for option in (*_OPTIONS, f"--user-data-dir={folder}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield Browser(driver)
    finally:
        driver.quit()
