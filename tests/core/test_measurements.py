"""The text format of Prometheus."""

from __future__ import annotations

from skate._core.measurements import Family, Sample, prometheus_text


def test_numbers_of_the_same_thing_are_one() -> None:
    first = Family("sold", "counter", "Hats.", [Sample("_total", {"kind": "top"}, 1)])
    second = first._replace(
        samples=[Sample("_total", {"kind": "top"}, 2), Sample("_total", {"kind": "cap"}, 4)]
    )
    other_kind = Family("sold", "gauge", "", [Sample("", {}, 8)])
    assert prometheus_text([first, second, other_kind], "ray_").splitlines() == [
        "# HELP ray_sold_total Hats.",
        "# TYPE ray_sold_total counter",
        'ray_sold_total{kind="top"} 3.0',
        'ray_sold_total{kind="cap"} 4.0',
    ]
