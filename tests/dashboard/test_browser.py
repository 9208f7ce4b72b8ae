"""The page in a real browser: what people see, and what hostile data cannot do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboard.browser import Browser, browser, what_is_missing
from tests.dashboard.programs import dashboard, started, told, up
from tests.dashboard.shown import HOSTILE
from tests.support import Program

pytestmark = [
    pytest.mark.skipif(bool(what_is_missing()), reason=what_is_missing()),
    pytest.mark.leaves("the browser's processes come and go"),
]

VIEWS = (
    "tasks", "memory", "waits", "actors", "datasets", "runs", "deployments", "errors", "logs",
)  # fmt: skip
OWNED = "return document.body.dataset.owned"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


@pytest.fixture
def page(chromium: Browser) -> Iterator[Browser]:
    """No test leaves a complaint of the browser's, and nothing hostile has run."""
    chromium.look(1400, "light")
    yield chromium
    owned, complaints = chromium.js(OWNED), chromium.complaints()
    chromium.driver.get("about:blank")
    chromium.complaints()  # of a page whose process has ended since
    assert not owned
    assert complaints == []


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Program, str]]:
    """One that runs tasks, has failed, holds an object, and is in a deadlock."""
    one = started(tmp_path_factory.mktemp("program"), "page")
    address = up(one)
    for line in ("tasks 12 0", "hold", "actors", "deadlock"):
        told(one, line)
    yield one, address
    told(one, "shutdown")
    Program.started.remove(one)
    one.end()


def test_tasks_are_drawn_as_they_end(page: Browser, program: tuple[Program, str]) -> None:
    page.open(program[1])
    assert "load" in page.texts("tbody td:first-child")
    drawn = int(page.js("return document.querySelector('canvas').dataset.bars"))
    assert drawn >= 13
    told(program[0], "tasks 30 0")
    page.until(f"return Number(document.querySelector('canvas').dataset.bars) >= {drawn + 30}")
    assert any(HOSTILE in text for text in page.texts("tbody td:first-child"))


def test_tables_are_sorted_and_filtered(page: Browser, program: tuple[Program, str]) -> None:
    page.open(program[1])
    page.click("th button", "function")
    names = page.texts("tbody td:first-child")
    assert names == sorted(names, key=str.lower)
    page.click("th button", "function")
    assert page.texts("tbody td:first-child") == names[::-1]
    assert page.js("return document.querySelector('th[aria-sort]').ariaSort") == "descending"
    page.type("input[type=search]", "failed>0")
    assert all(name.startswith("fails") for name in page.texts("tbody td:first-child"))
    page.type("input[type=search]", "loa")
    assert page.texts("tbody td:first-child") == ["load"]
    page.next_round()
    assert page.texts("tbody td:first-child") == ["load"]


def test_an_error_is_shown_as_text(page: Browser, program: tuple[Program, str]) -> None:
    page.open(program[1], "errors")
    page.click("summary")
    traceback = page.text("pre")
    assert "in fails" in traceback
    assert f"ValueError: {HOSTILE}" in traceback
    page.show("logs")
    page.until("return document.querySelector('.logs').innerText.includes('loading for')")
    assert HOSTILE in page.text(".logs")
    page.type("input[type=search]", "no such line")
    assert page.text(".logs") == "nothing was printed"


def test_a_deadlock(page: Browser, program: tuple[Program, str]) -> None:
    page.open(program[1], "waits")
    page.until("return document.querySelectorAll('.node.stuck').length >= 2")
    text = page.text()
    assert "A deadlock" in text
    assert "shown.py:" in text
    assert page.js("return document.querySelectorAll('.edge.stuck').length") >= 2


def test_memory_and_actors(page: Browser, program: tuple[Program, str]) -> None:
    page.open(program[1], "memory")
    page.until("return document.querySelectorAll('section').length === 4")
    page.until("return document.body.innerText.includes('put in the driver')")
    assert "3 MB" in page.text()
    page.show("actors")
    rows = page.texts("tbody tr")
    assert [row.count("ALIVE") for row in rows].count(1) == 2
    assert any("DEAD" in row and "killed" in row for row in rows)
    assert "it was killed by `skate.kill`" in page.texts("summary")


def test_dark_and_light_narrow_and_wide(page: Browser, program: tuple[Program, str]) -> None:
    page.open(program[1])
    ground = "return getComputedStyle(document.body).backgroundColor"
    found = {}
    for scheme in ("light", "dark"):
        page.look(1400, scheme)
        found[scheme] = page.js(ground)
    assert found["light"] != found["dark"]
    page.look(420, "dark")
    for view in VIEWS:
        page.js("location.hash = arguments[0]", view)
        page.until(f"return document.querySelector('nav a[aria-current]').hash === '#{view}'")
        assert page.js("return document.documentElement.scrollWidth") <= 420, view


def test_a_search(page: Browser, tmp_path: Path) -> None:
    program = started(tmp_path)
    up(program)
    told(program, "search")
    _, address = dashboard(tmp_path)
    page.open(address)
    page.until("return document.querySelectorAll('#trials tbody tr').length === 12")
    assert page.texts("nav a")[0].startswith("Runs")
    assert page.js("return document.querySelectorAll('.chart polyline').length") == 12
    assert page.js("return document.querySelectorAll('[data-axis]').length") == 4
    page.click("#trials th button", "loss")
    losses = [float(text) for text in page.texts("#trials tbody td:nth-child(4)")]
    assert losses == sorted(losses)
    page.type("#trials input", "lr<0.3")
    assert len(page.texts("#trials tbody tr")) == 10
    assert page.js("return document.querySelectorAll('.chart polyline').length") == 10
    page.type("#trials input", "")
    brush(page, "lr")
    assert len(page.texts("#trials tbody tr")) == 6
    assert "RuntimeError: diverged" in page.text("#trial-errors")


def brush(page: Browser, axis: str) -> None:
    """Drag over the lower half of an axis."""
    script = """
        const hit = document.querySelector(`[data-axis="${arguments[0]}"] .hit`);
        hit.setPointerCapture = () => {};
        const box = hit.getBoundingClientRect();
        const at = (kind, part) => hit.dispatchEvent(new PointerEvent(kind, {
          pointerId: 1, clientX: box.left + 5, clientY: box.top + part * box.height}));
        at("pointerdown", 0.5); at("pointermove", 1); at("pointerup", 1);
    """
    page.js(script, axis)


def test_a_training_a_dataset_and_a_deployment(page: Browser, tmp_path: Path) -> None:
    program = started(tmp_path, "page")
    address = up(program)
    for line in ("serve", "dataset", "train"):
        told(program, line)
    page.open(address, "runs")
    points = "return document.querySelector('.chart polyline')?.points.length ?? 0"
    page.until(f"{points} > 3")
    before = int(page.js(points))
    page.until(f"{points} > {before}")  # it goes on
    told(program, "finish")
    page.until("return document.querySelector('select').innerText.includes('TERMINATED')"
               "|| document.querySelector('select').innerText.includes('ENDED')")  # fmt: skip
    page.show("datasets")
    page.until("return document.querySelectorAll('tbody tr').length > 0")
    assert "Map(slow)" in page.text()
    page.show("deployments")
    page.until("return document.querySelectorAll('tbody tr').length === 2")
    assert "HEALTHY" in page.text()
    assert [one for one in page.texts("th") if one.startswith("p")] == [
        "process",
        "p50",
        "p90",
        "p99",
    ]
    told(program, "shutdown")
    page.until(
        "return document.getElementById('banner').innerText.includes('The program has ended')"
    )
    page.show("tasks")
    assert page.texts("tbody tr")
