"""The part of `ray.serve._private.test_utils` that looks at metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray_test_helpers.prometheus import (
    PrometheusTimeseries,
    Sample,
    fetch_prometheus_metric_timeseries,
)
from ray_test_helpers.test_utils import wait_for_condition

TEST_METRICS_EXPORT_PORT = 9999
PROMETHEUS_METRICS_TIMEOUT_S = 5
METRICS_FIRST_EXPORT_TIMEOUT_S = 90
METRICS_WAIT_TIMEOUT_S = 45
METRICS_RETRY_INTERVAL_MS = 200


def _samples(
    name: str, timeseries: PrometheusTimeseries | None, timeout: float | None
) -> list[Sample]:
    known = PrometheusTimeseries() if timeseries is None else timeseries
    addresses = [f"127.0.0.1:{TEST_METRICS_EXPORT_PORT}"]
    return fetch_prometheus_metric_timeseries(addresses, known, timeout).get(name, [])


def _with_tags(samples: list[Sample], tags: dict[str, str] | None) -> list[Sample]:
    wanted = (tags or {}).items()
    return [sample for sample in samples if wanted <= sample.labels.items()]


def get_metric_float(
    metric: str,
    expected_tags: dict[str, str] | None,
    timeseries: PrometheusTimeseries | None = None,
    timeout: float = 20,
) -> float:
    found = _with_tags(_samples(metric, timeseries, timeout), expected_tags)
    return found[0].value if found else -1


def check_metric_float_eq(
    metric: str,
    expected: float,
    expected_tags: dict[str, str] | None,
    timeseries: PrometheusTimeseries | None = None,
    timeout: float = 20,
) -> bool:
    assert get_metric_float(metric, expected_tags, timeseries, timeout) == expected
    return True


def get_metric_dictionaries(
    name: str,
    timeout: float = 20,
    timeseries: PrometheusTimeseries | None = None,
    wait: bool = True,
) -> list[dict[str, str]]:
    """Return the labels of all samples of that name, once there are some if `wait` says so."""
    known = PrometheusTimeseries() if timeseries is None else timeseries
    if wait:
        wait_for_condition(lambda: _samples(name, known, timeout), timeout=timeout * 4)
    return [sample.labels for sample in _samples(name, known, timeout)]


def check_sum_metric_eq(
    metric_name: str,
    expected: float,
    tags: dict[str, str] | None = None,
    timeseries: PrometheusTimeseries | None = None,
) -> bool:
    samples = _samples(metric_name, timeseries, PROMETHEUS_METRICS_TIMEOUT_S)
    assert sum(sample.value for sample in _with_tags(samples, tags)) == expected, samples
    return True


def wait_for_metric(
    predicate: Callable[..., object], budget_s: float = METRICS_WAIT_TIMEOUT_S, **kwargs: Any
) -> None:
    wait_for_condition(
        predicate, timeout=budget_s, retry_interval_ms=METRICS_RETRY_INTERVAL_MS, **kwargs
    )


def wait_for_metric_export(
    metric_name: str, timeseries: PrometheusTimeseries | None, count: int | None = None
) -> None:
    def has_come() -> bool:
        found = len(get_metric_samples(metric_name, timeseries))
        return found > 0 if count is None else found == count

    wait_for_metric(has_come, METRICS_FIRST_EXPORT_TIMEOUT_S)


def check_metric_float(**kwargs: Any) -> bool:
    return check_metric_float_eq(timeout=PROMETHEUS_METRICS_TIMEOUT_S, **kwargs)


def get_metric_value(**kwargs: Any) -> float:
    return get_metric_float(timeout=PROMETHEUS_METRICS_TIMEOUT_S, **kwargs)


def get_metric_samples(
    metric_name: str, timeseries: PrometheusTimeseries | None = None
) -> list[dict[str, str]]:
    return get_metric_dictionaries(
        metric_name, PROMETHEUS_METRICS_TIMEOUT_S, timeseries, wait=False
    )
