"""The site needs no network: what its pages load is beside them, its search as well."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.dashboard.browser import browser, what_is_missing
from tests.docs.pages import ROOT

SETTINGS = (ROOT / "mkdocs.yml").read_text()
SHIM = ROOT / "docs" / "assets" / "iframe-worker.js"

PAGE = """
<body><script src="iframe-worker.js"></script><script>
  const worker = new Worker("sub/worker.js");
  worker.addEventListener("message", (event) => { document.body.dataset.answer = event.data; });
  worker.postMessage({ number: 20 });
</script></body>
"""
WORKER = """
addEventListener("message", async (event) => {
  await importScripts("sub/double.js", "sub/named.js");
  postMessage(named(double(event.data.number)) + ", framed: " + ("IFrameWorker" in parent));
});
"""


def test_no_page_asks_another_site() -> None:
    """The theme would, for the worker of the search, its font, and news of the repository."""
    assert re.search(r"polyfills:\n +- assets/iframe-worker\.js", SETTINGS)
    assert "font: false" in SETTINGS
    assert not re.search(r"^repo_url", SETTINGS, re.MULTILINE)


@pytest.mark.skipif(bool(what_is_missing()), reason=what_is_missing())
def test_a_worker_of_a_page_that_is_opened_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name, text in {
        "page.html": PAGE,
        "iframe-worker.js": SHIM.read_text(),
        "sub/worker.js": WORKER,
        "sub/double.js": "function double(x) { return 2 * x; }",
        "sub/named.js": "function named(x) { return `${double.name} ${x}`; }",
    }.items():
        (tmp_path / name).write_text(text)
    with browser(tmp_path / "browser") as page:
        page.driver.get((tmp_path / "page.html").as_uri())
        page.until("return document.body.dataset.answer")
        assert page.js("return document.body.dataset.answer") == "double 40, framed: true"
