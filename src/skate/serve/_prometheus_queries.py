"""What a Prometheus server answers, kept fresh for policies that scale by it.

    policy ── prometheus_results ──► the last answers ◄── a thread that asks again and again

The thread knows the answers and not the policy, and ends when that is forgotten: a policy that is
replaced needs no method to end it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
import urllib.parse
import urllib.request
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

_ADDRESS = "RAY_PROMETHEUS_HOST"
_HEADERS = "RAY_PROMETHEUS_HEADERS"
_PATH = "/api/v1/query"
_PATIENCE_SECONDS = 5.0  # with a server, for one query

logger = logging.getLogger("skate.serve")


@dataclass(frozen=True)
class PrometheusScalar:
    """The answer to a query for one number.

    Args:
        value: The number.
        timestamp: When it was computed, in seconds since 1970.
    """

    value: float
    timestamp: float


@dataclass(frozen=True)
class PrometheusSample:
    """One of the numbers of a vector.

    Args:
        labels: What it is about.
        value: The number.
        timestamp: When it was computed, in seconds since 1970.
    """

    labels: Mapping[str, str]
    value: float
    timestamp: float


@dataclass(frozen=True)
class PrometheusVector:
    """The answer to a query for a number per set of labels.

    Args:
        samples: The numbers; those that are not finite are left out.
    """

    samples: tuple[PrometheusSample, ...]


Answer: TypeAlias = PrometheusScalar | PrometheusVector


class PrometheusQueryMixin:
    """Give a policy what a Prometheus server says, without making it wait.

    The first look at a result starts a thread that asks the server. A query that fails is left
    out, with a warning.

    Args:
        prometheus_address: The server, such as "localhost:9090"; None is what the environment
            variable RAY_PROMETHEUS_HOST says. Headers of the requests are in
            RAY_PROMETHEUS_HEADERS, as JSON.
        prometheus_queries: What to ask, in PromQL.
        fetch_interval_s: Seconds between two rounds of questions.
        cache_ttl_s: For how many seconds answers count.
        **kwargs: For the class that comes next.

    Raises:
        ValueError: If the headers are no JSON of names and values.
    """

    def __init__(
        self,
        *,
        prometheus_address: str | None = None,
        prometheus_queries: Sequence[str] | None = None,
        fetch_interval_s: float = 5.0,
        cache_ttl_s: float = 15.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._server: str = prometheus_address or os.environ.get(_ADDRESS, "")
        self._headers: dict[str, str] = _headers_of(os.environ.get(_HEADERS, "{}"))
        self._queries: list[str] = list(prometheus_queries or ())
        self._interval_s: float = fetch_interval_s
        self._time_to_live_s: float = cache_ttl_s
        self._answers: _Answers | None = None

    @property
    def prometheus_results(self) -> dict[str, PrometheusScalar | PrometheusVector] | None:
        """The last answers by their queries; None if there are none, or they are too old."""
        if self._answers is None:
            self._answers = self._asked_from_now_on()
        came, found = self._answers.latest
        is_old = time.monotonic() - came > self._time_to_live_s
        return dict(found) if found and not is_old else None

    @property
    def prometheus_metrics(self) -> dict[str, float] | None:
        """The answers that are a single number; None if there are none."""
        numbers = {
            query: number
            for query, answer in (self.prometheus_results or {}).items()
            if (number := _single_number(answer)) is not None
        }
        return numbers or None

    def _asked_from_now_on(self) -> _Answers:
        answers = _Answers()
        if self._server and self._queries:
            address = _url_of(self._server)
            given = answers, address, self._queries, self._headers, self._interval_s
            threading.Thread(
                target=_ask_again_and_again, args=given, name="skate-prometheus", daemon=True
            ).start()
            weakref.finalize(self, answers.ended.set)
        return answers


class _Answers:
    """What a thread has found, and whether it shall go on."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.latest: tuple[float, dict[str, Answer]] = (0.0, {})  # and when it came


def _ask_again_and_again(
    answers: _Answers, url: str, queries: list[str], headers: dict[str, str], seconds: float
) -> None:
    while not answers.ended.is_set():
        found = {}
        for query in queries:
            try:
                answer = _answer_to(url, query, headers)
            except Exception as error:  # a server that is away, or a wrong query
                logger.warning("Prometheus at %s did not answer %r: %s", url, query, error)
            else:
                if answer is not None:
                    found[query] = answer
        answers.latest = time.monotonic(), found
        answers.ended.wait(seconds)


def _answer_to(url: str, query: str, headers: dict[str, str]) -> Answer | None:
    address = f"{url}?{urllib.parse.urlencode({'query': query})}"
    request = urllib.request.Request(address, headers=headers)
    with urllib.request.urlopen(request, timeout=_PATIENCE_SECONDS) as response:
        said = json.load(response)
    if said["status"] != "success":
        raise ValueError(said.get("error", said["status"]))
    kind, result = said["data"]["resultType"], said["data"]["result"]
    if kind == "scalar":
        timestamp, value = map(float, result)
        return PrometheusScalar(value, timestamp) if math.isfinite(value) else None
    if kind != "vector":
        raise ValueError(f"a query has to be for a scalar or a vector; this one is for a {kind}")
    samples = (_sample_of(item) for item in result)
    return PrometheusVector(tuple(one for one in samples if math.isfinite(one.value)))


def _sample_of(item: dict[str, Any]) -> PrometheusSample:
    if "value" not in item:
        raise ValueError("native histograms are not supported: ask for a quantile of them")
    timestamp, value = map(float, item["value"])
    return PrometheusSample(item.get("metric", {}), value, timestamp)


def _single_number(answer: Answer) -> float | None:
    if isinstance(answer, PrometheusScalar):
        return answer.value
    return answer.samples[0].value if len(answer.samples) == 1 else None


def _url_of(server: str) -> str:
    """Return where queries go; only over HTTP, whatever else `urllib` can open."""
    server = server.rstrip("/")
    if not server.startswith(("http://", "https://")):
        server = f"http://{server}"
    return server if server.endswith(_PATH) else server + _PATH


def _headers_of(text: str) -> dict[str, str]:
    """Read headers: an object, or a list of names and values."""
    try:
        found = dict(json.loads(text))
    except (TypeError, ValueError):
        found = {"": None}
    if not all(isinstance(one, str) for pair in found.items() for one in pair):
        raise ValueError(f'{_HEADERS} takes JSON, such as {{"name": "value"}}; got {text!r}')
    return found
