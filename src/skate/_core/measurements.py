"""What this process has measured, for who collects it, and the text format of Prometheus.

Whoever counts something announces how to describe it; nothing is computed until somebody asks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from skate._core.live_rows import MEASUREMENTS, Row, announce, live_rows

Owner = TypeVar("Owner")

_port = 0


def note_port(number: int) -> None:
    """Remember the port on which this process offers what its session measures; 0 is none."""
    global _port
    _port = number


def port_of_session() -> int:
    """Return the port on which this process offers what its session measures, 0 for none."""
    return _port


class Sample(NamedTuple):
    """One number.

    Attributes:
        suffix: What follows the name of the family.
        tags: What the number is about.
        value: The number.
    """

    suffix: str
    tags: dict[str, str]
    value: float


class Family(NamedTuple):
    """All numbers of one name.

    Attributes:
        name: The name, without what counters and histograms have at the end.
        kind: "counter", "gauge" or "histogram".
        description: What is measured.
        samples: The numbers.
    """

    name: str
    kind: str
    description: str
    samples: list[Sample]


def announce_measurements(owner: Owner, describe: Callable[[Owner], Iterable[Family]]) -> None:
    """Let others collect what an object has measured, for as long as it lives.

    Args:
        owner: The object.
        describe: Makes families of it, from any thread and at any time.
    """
    announce(MEASUREMENTS, owner, lambda one: [family._asdict() for family in describe(one)])


def families_of(rows: Iterable[Row], more: dict[str, str]) -> list[Family]:
    """Return families as they were announced, maybe in another process.

    Args:
        rows: What `live_rows(MEASUREMENTS)` returns there.
        more: Tags that all of these numbers have besides.
    """
    return [
        Family(
            row["name"],
            row["kind"],
            row["description"],
            [Sample(suffix, {**more, **tags}, value) for suffix, tags, value in row["samples"]],
        )
        for row in rows
    ]


def own_measurements() -> list[Row]:
    """Return what this process has measured."""
    return live_rows(MEASUREMENTS)


def histogram_samples(
    tags: dict[str, str], boundaries: Sequence[float], counts: Sequence[int], total: float
) -> Iterator[Sample]:
    """Return the numbers of a histogram.

    Args:
        tags: What they are about.
        boundaries: The upper limits of its ranges.
        counts: How many values were in each range, and above the last.
        total: The sum of the values.
    """
    limits = [*map(str, boundaries), "+Inf"]
    seen = list(accumulate(counts))
    for limit, count in zip(limits, seen, strict=True):
        yield Sample("_bucket", {**tags, "le": limit}, count)
    yield Sample("_sum", tags, total)
    yield Sample("_count", tags, seen[-1])


def prometheus_text(families: Iterable[Family], prefix: str = "") -> str:
    """Return families in the text format of Prometheus.

    Families of the same name become one; of two kinds the first counts. Numbers of the same tags,
    as several objects of one process have them, are added up: Prometheus takes one of each.

    Args:
        families: What is shown.
        prefix: What all names begin with.
    """
    together: dict[str, Family] = {}
    for family in families:
        first = together.setdefault(family.name, family._replace(samples=[]))
        if first.kind == family.kind:
            first.samples.extend(family.samples)
    lines = (line for family in together.values() for line in _lines(family, prefix))
    return "".join(f"{line}\n" for line in lines)


def _lines(family: Family, prefix: str) -> Iterator[str]:
    name = prefix + family.name
    shown = f"{name}_total" if family.kind == "counter" else name
    if family.description:
        yield f"# HELP {shown} {_escaped(family.description)}"
    yield f"# TYPE {shown} {family.kind}"
    sums = defaultdict[str, float](float)
    for suffix, tags, value in family.samples:
        sums[suffix + _labels(tags)] += value
    for what, total in sums.items():
        yield f"{name}{what} {total}"


def _labels(tags: dict[str, Any]) -> str:
    if not tags:
        return ""
    pairs = (f'{key}="{_escaped(value, quotes=True)}"' for key, value in tags.items())
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str, quotes: bool = False) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text
