"""The part of `ray._common.test_utils` that reads what Prometheus would collect."""

from __future__ import annotations

import re
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

_LINE = re.compile(r"([^\s{]+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Sample(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


@dataclass
class PrometheusTimeseries:
    """The last values of all that was collected, also of what is gone meanwhile."""

    components_dict: dict[str, set[str]] = field(default_factory=dict)
    metric_descriptors: dict[str, str] = field(default_factory=dict)
    metric_samples: dict[frozenset[tuple[str, str]], Sample] = field(default_factory=dict)

    def flush(self) -> None:
        for known in (self.components_dict, self.metric_descriptors, self.metric_samples):
            known.clear()


def samples_in(text: str) -> Iterator[Sample]:
    for line in text.splitlines():
        found = None if line.startswith("#") else _LINE.fullmatch(line)
        if found is not None:
            name, labels, value = found.groups()
            yield Sample(name, dict(_LABEL.findall(labels or "")), float(value))


def fetch_raw_prometheus(
    prom_addresses: list[str], timeout: float | None = None
) -> Iterator[tuple[str, str]]:
    for address in prom_addresses:
        try:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=timeout) as answer:
                yield address, answer.read().decode()
        except OSError:  # nobody is there, or not yet
            continue


def fetch_prometheus(
    prom_addresses: list[str], timeout: float | None = None
) -> tuple[dict[str, set[str]], dict[str, str], list[Sample]]:
    components: dict[str, set[str]] = {address: set() for address in prom_addresses}
    texts = fetch_raw_prometheus(prom_addresses, timeout)
    samples = [sample for _, text in texts for sample in samples_in(text)]
    return components, {sample.name: sample.name for sample in samples}, samples


def fetch_prometheus_timeseries(
    prom_addreses: list[str], result: PrometheusTimeseries, timeout: float | None = None
) -> PrometheusTimeseries:
    components, descriptors, samples = fetch_prometheus(prom_addreses, timeout)
    result.components_dict.update(components)
    result.metric_descriptors.update(descriptors)
    for sample in samples:
        key = frozenset({*sample.labels.items(), ("_metric_name_", sample.name)})
        result.metric_samples[key] = sample
    return result


def fetch_prometheus_metrics(prom_addresses: list[str]) -> dict[str, list[Sample]]:
    return _by_name(fetch_prometheus(prom_addresses)[2])


def fetch_prometheus_metric_timeseries(
    prom_addresses: list[str], result: PrometheusTimeseries, timeout: float | None = None
) -> dict[str, list[Sample]]:
    found = fetch_prometheus_timeseries(prom_addresses, result, timeout)
    return _by_name(list(found.metric_samples.values()))


def _by_name(samples: list[Sample]) -> dict[str, list[Sample]]:
    found = defaultdict(list)
    for sample in samples:
        found[sample.name].append(sample)
    return found
