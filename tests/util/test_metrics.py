"""Counters, gauges and histograms."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from skate.util import metrics
from skate.util.metrics import Counter, Gauge, Histogram, collect


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_families", {})


def test_a_counter_adds_up_by_tags() -> None:
    requests = Counter("requests", "How many came.", tag_keys=("route",))
    requests.inc(tags={"route": "/a"})
    requests.inc(2.5, tags={"route": "/a"})
    requests.inc(tags={"route": "/b"})
    assert collect().splitlines() == [
        "# HELP requests_total How many came.",
        "# TYPE requests_total counter",
        'requests_total{route="/a"} 3.5',
        'requests_total{route="/b"} 1.0',
    ]


def test_a_gauge_keeps_the_last_value() -> None:
    depth = Gauge("depth")
    depth.set(3)
    depth.set(1)
    depth.set(None)
    assert collect().splitlines() == ["# TYPE depth gauge", "depth 1.0"]


def test_a_histogram_counts_cumulatively_with_inclusive_limits() -> None:
    latency = Histogram("latency", boundaries=[1, 10])
    for value in (0.5, 1, 5, 100):
        latency.observe(value)
    assert collect().splitlines() == [
        "# TYPE latency histogram",
        'latency_bucket{le="1"} 2.0',
        'latency_bucket{le="10"} 3.0',
        'latency_bucket{le="+Inf"} 4.0',
        "latency_sum 106.5",
        "latency_count 4.0",
    ]


def test_tags_override_default_tags_and_are_escaped() -> None:
    size = Gauge("size", tag_keys=("a", "b")).set_default_tags({"a": "1", "b": "2"})
    size.set(7, tags={"b": 'say "hi"\n\\'})
    assert r'size{a="1",b="say \"hi\"\n\\"} 7' in collect()


def test_metrics_of_the_same_name_share_their_values() -> None:
    Counter("jobs").inc()
    Counter("jobs").inc()
    assert "jobs_total 2.0" in collect()
    with pytest.raises(ValueError, match="is a counter"):
        Gauge("jobs").set(1)


@pytest.mark.parametrize(
    "metric",
    [Counter("c", "d", ("t",)), Gauge("g", "d", ("t",)), Histogram("h", "d", [1.0, 2.0], ("t",))],
)
def test_a_metric_can_be_sent_with_its_default_tags(metric: Any) -> None:
    metric.set_default_tags({"t": "x"})
    assert pickle.loads(pickle.dumps(metric)).info == metric.info


def test_info() -> None:
    assert Histogram("h", "what", [1], ("t",)).set_default_tags({"t": "x"}).info == {
        "name": "h",
        "description": "what",
        "tag_keys": ("t",),
        "default_tags": {"t": "x"},
        "boundaries": [1],
    }


def test_tags_are_checked() -> None:
    counter = Counter("c", tag_keys=("t",))
    with pytest.raises(ValueError, match=r"no value for the tag keys \['t'\]"):
        counter.inc()
    with pytest.raises(TypeError, match="tag values are strings"):
        counter.inc(tags={"t": 1})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match=r"unknown tag keys \['u'\]"):
        counter.set_default_tags({"u": "1"})
    with pytest.raises(TypeError, match="tuple of strings"):
        Counter("c", tag_keys=["t"])  # type: ignore[arg-type]


def test_values_are_checked() -> None:
    with pytest.raises(ValueError, match="more than 0"):
        Counter("c").inc(0)
    for record in (Counter("c").inc, Gauge("g").set, Histogram("h", boundaries=[1]).observe):
        with pytest.raises(TypeError, match="int or a float"):
            record("1")  # type: ignore[arg-type]
    assert "c_total" not in collect().replace("# TYPE c_total counter", "")


@pytest.mark.parametrize("boundaries", [None, [], [0, 1], [2, 1], [1, 1]])
def test_boundaries_are_checked(boundaries: Any) -> None:
    with pytest.raises(ValueError, match="boundaries must be"):
        Histogram("h", boundaries=boundaries)


def test_an_invalid_name_warns_and_records_nothing() -> None:
    with pytest.warns(UserWarning, match="not a valid metric name") as caught:
        counter = Counter("1-2")
    counter.inc()
    assert collect() == ""
    assert caught[0].filename == __file__
    with pytest.raises(ValueError, match="name of a metric"):
        Counter("")
