"""Policies that scale by what a Prometheus server says."""

from __future__ import annotations

import gc
import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from skate.serve.autoscaling_policy import (
    PrometheusQueryMixin,
    PrometheusSample,
    PrometheusScalar,
    PrometheusVector,
)
from tests.support import eventually

ANSWERS: dict[str, Any] = {
    "scalar": {"resultType": "scalar", "result": [10.5, "3"]},
    "one": {"resultType": "vector", "result": [{"metric": {"a": "b"}, "value": [11, "4.5"]}]},
    "two": {
        "resultType": "vector",
        "result": [{"metric": {}, "value": [11, "1"]}, {"metric": {"a": "c"}, "value": [12, "2"]}],
    },
    "none": {"resultType": "vector", "result": [{"metric": {}, "value": [11, "NaN"]}]},
    "infinite": {"resultType": "scalar", "result": [10, "+Inf"]},
    "range": {"resultType": "matrix", "result": []},
    "histogram": {"resultType": "vector", "result": [{"metric": {}, "histogram": [1, {}]}]},
}


_answering = threading.Lock()  # who has it keeps the server from answering


class _Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        with _answering:
            self._answer()

    def _answer(self) -> None:
        address = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(address.query)["query"][0]
        known = address.path == "/api/v1/query" and self.headers["X-Token"] == "secret"
        said = {"status": "success", "data": ANSWERS.get(query)} if known else {"status": "error"}
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("RAY_PROMETHEUS_HEADERS", '[["X-Token", "secret"]]')
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Base:
    def __init__(self, name: str) -> None:
        self.name = name


class _Policy(PrometheusQueryMixin, _Base):
    """What a user writes."""


def _policy(**settings: Any) -> _Policy:
    return _Policy(name="mine", **{"fetch_interval_s": 0.01, "cache_ttl_s": 1000, **settings})


def threads() -> int:
    return sum(one.name == "skate-prometheus" for one in threading.enumerate())


def test_answers_keep_their_kinds(address: str, caplog: pytest.LogCaptureFixture) -> None:
    policy = _policy(prometheus_address=f"http://{address}/", prometheus_queries=[*ANSWERS, "?"])
    assert policy.name == "mine"
    with _answering:
        assert policy.prometheus_results is None  # nobody waits for the first answers
    answers = {
        "scalar": PrometheusScalar(3.0, 10.5),
        "one": PrometheusVector((PrometheusSample({"a": "b"}, 4.5, 11.0),)),
        "two": PrometheusVector(
            (PrometheusSample({}, 1.0, 11.0), PrometheusSample({"a": "c"}, 2.0, 12.0))
        ),
        "none": PrometheusVector(()),
    }
    eventually(lambda: policy.prometheus_results == answers)
    assert policy.prometheus_metrics == {"scalar": 3.0, "one": 4.5}
    assert "scalar or a vector; this one is for a matrix" in caplog.text
    assert "native histograms are not supported" in caplog.text


def test_the_environment_names_the_server(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_PROMETHEUS_HOST", f"http://{address}/api/v1/query")
    policy = _policy(prometheus_queries=["scalar"])
    eventually(lambda: policy.prometheus_metrics == {"scalar": 3.0})


def test_old_answers_do_not_count(address: str) -> None:
    settings = {"prometheus_queries": ["one"], "fetch_interval_s": 1000.0}
    policy = _policy(prometheus_address=address, **settings)
    eventually(lambda: policy.prometheus_metrics)
    policy._time_to_live_s = 0.0
    assert policy.prometheus_metrics is None


@pytest.mark.parametrize("wrong", ["127.0.0.1:9", "file://somewhere"])
def test_where_nobody_answers_there_is_a_warning(
    wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    policy = _policy(prometheus_address=wrong, prometheus_queries=["x"])
    assert policy.prometheus_results is None
    eventually(lambda: "did not answer 'x'" in caplog.text)
    assert policy.prometheus_metrics is None


def test_the_thread_ends_with_the_policy(address: str) -> None:
    eventually(lambda: threads() == 0)  # of tests before this one
    policies = [_policy(prometheus_address=address, prometheus_queries=["one"])]
    assert threads() == 0
    eventually(lambda: policies[0].prometheus_metrics)
    assert threads() == 1
    policies.clear()
    gc.collect()
    eventually(lambda: threads() == 0)


@pytest.mark.parametrize("wrong", ["{", '{"a": 1}', "3", '["a"]'])
def test_headers_are_checked(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("RAY_PROMETHEUS_HEADERS", wrong)
    with pytest.raises(ValueError, match="RAY_PROMETHEUS_HEADERS takes JSON"):
        _policy()
