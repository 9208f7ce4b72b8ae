"""Times of Python, pandas and NumPy: what goes into a column comes out of it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from skate import data

pytestmark = pytest.mark.engines("inline")

NANOSECONDS = pd.Timestamp("2020-01-01 00:00:00.123456789")
DAY = pd.Timestamp("2020-01-01")
BERLIN = ZoneInfo("Europe/Berlin")
TWO_HOURS = timezone(timedelta(hours=2))


class Odd(tzinfo):
    """A zone that Arrow has no name for."""

    def utcoffset(self, when: datetime | None) -> timedelta:
        return timedelta(hours=1)

    def dst(self, when: datetime | None) -> timedelta:
        return timedelta(0)

    def tzname(self, when: datetime | None) -> str:
        return "odd"


def rows_of(values: list[object]) -> data.Dataset:
    return data.from_items([{"t": value} for value in values], override_num_blocks=1)


def type_of(values: list[object]) -> object:
    schema = rows_of(values).schema()
    assert schema is not None
    return schema.types[0]


class TestUnits:
    @pytest.mark.parametrize(
        "values",
        [
            [DAY.as_unit("s"), NANOSECONDS],
            [DAY.as_unit("us"), NANOSECONDS],
            [None, DAY.as_unit("ms"), pd.NaT, NANOSECONDS],
            [datetime(2020, 1, 1, 10), NANOSECONDS],
            [DAY.as_unit("s"), datetime(2020, 1, 1, 0, 0, 0, 5)],
            [pd.Timedelta(1, "s").as_unit("s"), pd.Timedelta(5, "ns")],
            [timedelta(seconds=1), pd.Timedelta(5, "ns")],
        ],
    )
    def test_the_finest_holds_for_all(self, values: list[object]) -> None:
        known = [None if value is pd.NaT else value for value in values]
        assert [row["t"] for row in rows_of(values).take_all()] == known
        batches = data.range(1).map_batches(lambda batch: {"t": values})
        assert [row["t"] for row in batches.take_all()] == known
        assert pa.types.is_temporal(type_of(values))

    def test_a_span_that_no_unit_has_stays_exact(self) -> None:
        values: list[object] = [pd.Timestamp("0001-01-01").as_unit("s"), NANOSECONDS]
        assert [row["t"] for row in rows_of(values).take_all()] == values


class TestZones:
    @pytest.mark.parametrize(
        "values",
        [
            [DAY, DAY.tz_localize(BERLIN)],
            [DAY.tz_localize(BERLIN), pd.NaT, DAY],
            [datetime(2020, 1, 1, 10), datetime(2020, 1, 1, 10, tzinfo=TWO_HOURS)],
            [datetime(2020, 1, 1, 10, tzinfo=BERLIN), DAY],
        ],
    )
    def test_times_with_and_without_one_stay_what_they_are(self, values: list[object]) -> None:
        rows = [row["t"] for row in rows_of(values).take_all()]
        known = [None if value is pd.NaT else value for value in values]
        assert [row and (row, row.tzinfo) for row in rows] == [
            value and (value, value.tzinfo) for value in known
        ]

    @pytest.mark.parametrize(
        ("when", "zone"),
        [
            (pd.Timestamp("2020-01-01T00:00:00+02:00"), "+02:00"),
            (pd.Timestamp("2020-01-01T00:00:00.123456789-02:30"), "-02:30"),
            (datetime(2020, 1, 1, tzinfo=TWO_HOURS), "+02:00"),
            (DAY.tz_localize("UTC"), "UTC"),
            (DAY.tz_localize(BERLIN), "Europe/Berlin"),
        ],
    )
    def test_can_be_read_back(self, when: datetime, zone: str) -> None:
        rows = rows_of([when])
        assert rows.take_all() == [{"t": when}]
        assert rows.to_pandas()["t"].tolist() == [when]
        assert getattr(type_of([when]), "tz", None) == zone

    def test_several_are_the_same_instants_in_the_first(self) -> None:
        values = [DAY.tz_localize("UTC"), NANOSECONDS.tz_localize(BERLIN)]
        assert [row["t"] for row in rows_of([*values]).take_all()] == values

    def test_one_that_arrow_does_not_know_is_kept(self) -> None:
        when = datetime(2020, 1, 1, tzinfo=Odd())
        assert [row["t"].tzname() for row in rows_of([when]).take_all()] == ["odd"]


@pytest.mark.parametrize("kind", ["M8[s]", "M8[D]", "M8[h]", "m8[ms]", "i4", "f8"])
@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_the_other_byte_order(kind: str, shape: tuple[int, ...]) -> None:
    swapped = np.arange(4).astype(kind).reshape(shape).astype(f">{kind}")
    batch = data.from_numpy({"t": swapped}).take_batch()["t"]
    np.testing.assert_array_equal(batch, swapped)
