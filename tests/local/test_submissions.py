"""What workers tell of others, when the others or they themselves are gone."""

from __future__ import annotations

from typing import Any

import pytest

from skate.engine import current_engine
from skate.engine.local import messages as m
from skate.engine.local.hub.values import NONE
from skate.engine.local.objects import INLINE
from skate.engine.local.wire import encode
from skate.engine.specs import CallOptions
from tests.local.fakes import new_worker
from tests.support import local_only

pytestmark = [local_only, pytest.mark.usefixtures("engine")]


def test_a_lost_call_of_a_dead_caller_leaves_nothing() -> None:
    """The caller tells of a call to an actor whose end the hub has not seen, and dies too."""
    engine: Any = current_engine()
    caller, callee = new_worker(), new_worker()
    caller.options[1] = CallOptions()
    id, actor_id = 5 << 64, 4 << 64
    call = m.SubmitCall(id, actor_id, "method", INLINE, NONE, [], (), 1, 0)
    lost = m.LostCall(callee.number, tuple(call))
    with engine.lock:
        before = set(engine.entries)
        engine.hub.state.workers[callee.number] = callee
        engine.hub.received(caller, [encode(lost)])
        engine.hub.counts.release(caller, list(caller.holds))  # as at its end
        del engine.hub.state.workers[callee.number]
        for follow_up in callee.when_lost:
            follow_up()
        assert set(engine.entries) == before
