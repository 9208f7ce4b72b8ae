"""What libraries have under way, and what remains of it."""

import gc

import pytest

from skate._core import live_rows


class Owner:
    state = "RUNNING"


@pytest.fixture(autouse=True)
def _nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.collect()  # what other tests have left says good-bye where it was announced
    monkeypatch.setattr(live_rows, "_announced", {})
    monkeypatch.setattr(live_rows, "_remaining", {})


def describe(owner: Owner) -> list[dict[str, object]]:
    return [{"state": owner.state}]


def test_rows_live_as_long_as_their_owner() -> None:
    owner = Owner()
    live_rows.announce("things", owner, describe)
    owner.state = "DONE"
    assert live_rows.all_live_rows() == {"things": [{"state": "DONE"}]}
    del owner
    gc.collect()
    assert live_rows.live_rows("things") == []
    assert live_rows.all_live_rows() == {}


def test_what_remains() -> None:
    for number in range(150):
        live_rows.announce("things", Owner(), describe, remains={"number": number})
    gc.collect()
    owner = Owner()
    live_rows.announce("things", owner, describe, remains={"number": 150})
    rows = live_rows.all_live_rows()["things"]
    assert rows == [*({"number": number} for number in range(50, 150)), {"state": "RUNNING"}]
