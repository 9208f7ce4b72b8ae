"""The page as an application: who may ask, and what is answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from skate.dashboard.app import Visits, page
from skate.dashboard.folder_source import RunShelf

TOKEN = "a-token"
HERE = "http://127.0.0.1:1234"


class Source:
    def __init__(self) -> None:
        self.runs = RunShelf()
        self.seen: dict[str, int] = {}

    def news(self, seen: dict[str, int]) -> dict[str, Any]:
        self.seen = seen
        return {"kind": "session", "values": [float("nan"), float("inf"), 1.5, "</script>"]}

    def libraries(self) -> dict[str, Any]:
        return {}

    def waits(self) -> dict[str, Any]:
        return {}

    def objects(self) -> list[dict[str, Any]]:
        return []


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def visits() -> Visits:
    return Visits()


@pytest.fixture
def client(source: Source, visits: Visits) -> Iterator[TestClient]:
    with TestClient(page(source, TOKEN, visits), HERE) as client:
        yield client


def test_the_page_and_its_files(client: TestClient, visits: Visits) -> None:
    assert visits.seconds_ago == float("inf")
    answer = client.get(f"/{TOKEN}/")
    assert answer.status_code == 200
    assert "main.js" in answer.text
    script = client.get(f"/{TOKEN}/main.js")
    assert script.headers["content-type"].startswith(("text/javascript", "application/javascript"))
    assert visits.seconds_ago < 60


@pytest.mark.parametrize("path", ["/", "/other/", "/a-toke/", f"/{TOKEN}", "/api/news"])
def test_who_does_not_know_the_token_gets_nothing(
    client: TestClient, visits: Visits, path: str
) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert TOKEN not in answer.text
    assert visits.seconds_ago == float("inf")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:1234",
        "127.0.0.1.evil.example",
        "10.0.0.1:1234",
        "",
        "127.0.0.1:8@evil",
        "[::1]:",
    ],
)
def test_other_names_of_this_machine_are_refused(client: TestClient, host: str) -> None:
    assert client.get(f"/{TOKEN}/api/news", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost:9", "localhost", "[::1]:5", "[::1]"])
def test_its_own_names_are_not(client: TestClient, host: str) -> None:
    assert client.get(f"/{TOKEN}/api/news", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(client: TestClient, method: str) -> None:
    assert client.request(method, f"/{TOKEN}/api/news").status_code == 405


@pytest.mark.parametrize(
    "path", ["/%2e%2e/app.py", "/..%2fapp.py", "/static/../app.py", "/%2fetc/passwd", "/none.js"]
)
def test_no_other_file_is_served(client: TestClient, path: str) -> None:
    assert client.get(f"/{TOKEN}{path}").status_code == 404


@pytest.mark.parametrize("path", ["", "main.js", "api/news", "none"])
def test_every_answer_says_what_a_browser_may_do_with_it(client: TestClient, path: str) -> None:
    headers = client.get(f"/{TOKEN}/{path}").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


def test_numbers_that_json_does_not_have_are_text(client: TestClient) -> None:
    answer = client.get(f"/{TOKEN}/api/news")
    assert json.loads(answer.text, parse_constant=pytest.fail)["values"] == [
        "nan", "inf", 1.5, "</script>",
    ]  # fmt: skip
    assert answer.headers["content-type"] == "application/json"


def test_odd_numbers_in_a_question_are_none(client: TestClient, source: Source) -> None:
    client.get(f"/{TOKEN}/api/news?tasks=7&logs=-1&failures=x&memory={'9' * 99}&other=1")
    assert source.seen == {"tasks": 7, "failures": 0, "ended_actors": 0, "logs": 0, "memory": 0}
    assert client.get(f"/{TOKEN}/api/run?number=5").status_code == 404


def test_the_page_names_no_other_place() -> None:
    from pathlib import Path

    import skate.dashboard

    folder = Path(skate.dashboard.__file__).parent / "static"
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    assert len(texts) > 10
    for name, text in texts.items():
        own = text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in own, name
        assert "https://" not in own, name
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert word not in text, name
