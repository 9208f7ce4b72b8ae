"""Messages of workers on their way to the components of the hub."""

from __future__ import annotations

from typing import Any

import pytest

from skate.engine import current_engine
from tests.local.fakes import new_worker
from tests.support import local_only

pytestmark = [local_only, pytest.mark.usefixtures("engine")]


def test_a_defect_after_an_answer_is_not_the_error_of_whoever_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine: Any = current_engine()
    seen: list[type[BaseException]] = []
    monkeypatch.setattr("sys.excepthook", lambda kind, error, trace: seen.append(kind))
    monkeypatch.setattr(engine.hub.scheduler, "refill", lambda worker: 1 // 0)
    with engine.lock:
        engine.hub.state.answered += [new_worker(), new_worker()]
        engine.hub.received(new_worker(), [])
        assert engine.hub.state.answered == []
    assert seen == [ZeroDivisionError] * 2
