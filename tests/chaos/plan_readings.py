"""The rows of a random plan, read in all ways that datasets have: they must be the same ones."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np

from skate import data
from tests.chaos.plan_steps import PlanMaker, Row, columns_of, same

Rows = list[Row]


def check_reading(make: PlanMaker) -> None:
    """Raise if some way to read a random plan gives other rows than `take_all`."""
    rows = make.source()
    try:
        for _ in range(make.chance.randrange(3)):
            rows = make.step(columns_of(rows)).apply(rows)
        expected = plain_rows(rows.take_all())
    except Exception:  # whether it must fail is for `check_plan`
        return
    if expected and expected[0]:
        reading = make.chance.choice(READINGS)
        make.drawn.append(reading.__name__.strip("_"))
        reading(make, rows, expected)


def plain_rows(rows: list[Any]) -> list[Any]:
    """Return rows whose values can be compared: NaN equals NaN, sums may differ in their ends."""
    return [_plain(row) for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return "nan" if value != value else round(value, 9) + 0.0  # which is never -0.0
    return value


def _without_types(value: Any) -> Any:
    """Return what is left of a plain value in pandas: no difference between None and NaN, nor
    between 1 and 1.0."""
    if isinstance(value, dict):
        return {name: _without_types(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_types(each) for each in value]
    if value is None or str(value) in ("nan", "NaT", "<NA>"):
        return None
    return float(value) if isinstance(value, Number) and not isinstance(value, bool) else value


def _check_same(found: list[Any], expected: Rows) -> None:
    found = _without_types(plain_rows(found))
    assert found == _without_types(expected), f"{found}\nrather than\n{expected}"


def _check_any_order(found: Rows, expected: Rows) -> None:
    _check_same(sorted(plain_rows(found), key=repr), sorted(expected, key=repr))


def _iter_batches(make: PlanMaker, rows: data.Dataset, expected: Rows) -> None:
    size, form = make.chance.choice([1, 3, 7, 100, None]), make.chance.choice(list(ROWS_OF))
    drop_last = size is not None and make.chance.random() < 0.3
    make.drawn[-1] += f" of {size}, {form}, drop_last={drop_last}"
    batches = rows.iter_batches(batch_size=size, batch_format=form, drop_last=drop_last)
    found = [ROWS_OF[form](batch) for batch in batches]
    if size is not None:
        assert all(len(batch) == size for batch in found[:-1]), [len(batch) for batch in found]
    if size is not None and drop_last:
        expected = expected[: len(expected) // size * size]
    _check_same(list(itertools.chain(*found)), expected)


def _split(make: PlanMaker, rows: data.Dataset, expected: Rows) -> None:
    count, equal = make.chance.choice([1, 2, 3, 5]), make.chance.random() < 0.5
    make.drawn[-1] += f" into {count}, equal={equal}"
    parts = [part.take_all() for part in rows.split(count, equal=equal)]
    if equal:
        assert {len(part) for part in parts} == {len(expected) // count}
    else:
        _check_any_order(list(itertools.chain(*parts)), expected)


def _split_at_indices(make: PlanMaker, rows: data.Dataset, expected: Rows) -> None:
    places = sorted(make.chance.sample(range(len(expected) + 3), make.chance.choice([1, 2])))
    make.drawn[-1] += f" {places}"
    parts = rows.split_at_indices(places)
    for part, start, end in zip(parts, [0, *places], [*places, None], strict=True):
        _check_same(part.take_all(), expected[start:end])


def _shuffle(make: PlanMaker, rows: data.Dataset, expected: Rows) -> None:
    _check_any_order(rows.random_shuffle(seed=make.chance.randrange(9)).take_all(), expected)


def _write_parquet(make: PlanMaker, rows: data.Dataset, expected: Rows) -> None:
    folder = tempfile.mkdtemp(dir=make.folder)
    rows.write_parquet(folder)
    _check_same(data.read_parquet(folder).take_all(), expected)


def _write_json(make: PlanMaker, rows: data.Dataset, expected: Rows) -> None:
    folder = tempfile.mkdtemp(dir=make.folder)
    rows.write_json(folder)
    _check_same(data.read_json(folder).take_all(), expected)


def _to_pandas(make: PlanMaker, rows: data.Dataset, expected: Rows) -> None:
    _check_same(ROWS_OF["pandas"](rows.to_pandas()), expected)


def _unchanged(make: PlanMaker, rows: data.Dataset, expected: Rows) -> None:
    size, form = make.chance.choice([None, 4]), make.chance.choice(["numpy", "pandas"])
    make.drawn[-1] += f" batches of {size}, {form}"
    _check_same(rows.map_batches(same, batch_format=form, batch_size=size).take_all(), expected)


def _rows_of_arrays(batch: dict[str, Any]) -> Rows:
    return [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]


ROWS_OF: dict[str, Callable[[Any], Rows]] = {
    "numpy": _rows_of_arrays,
    "pandas": lambda frame: frame.to_dict("records"),
    "pyarrow": lambda table: table.to_pylist(),
}
"""Formats of batches, and how to get the rows of one."""

READINGS = [
    _iter_batches, _iter_batches, _iter_batches, _split, _split_at_indices, _shuffle,
    _write_parquet, _write_json, _to_pandas, _unchanged,
]  # fmt: skip
