"""What routers of users are told, and that HTTP asks them too: in sessions of their own."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any, ClassVar

import httpx
import pytest

import skate
from skate import serve
from skate.serve._identity import DeploymentID
from skate.serve._routing import user_routing
from skate.serve._routing.router import Router
from skate.serve._routing.routing_table import RoutingTable
from skate.serve._routing.user_routing import plan_of
from skate.serve.config import RequestRouterConfig
from skate.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica
from tests.support import PATIENCE, eventually


class Records(RequestRouter):
    """Sends to the first by name, and keeps what it is told in this process."""

    told: ClassVar[list[Any]] = []

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: Any = None
    ) -> list[list[RunningReplica]]:
        self.told.append(pending_request)
        return [[min(candidate_replicas, key=lambda replica: replica.replica_id.unique_id)]]

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any
    ) -> None:
        self.told.append((pending_request.metadata.internal_request_id, replica_id.unique_id))

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        self.told.append((internal_request_id, replica_id.unique_id))


@serve.deployment(
    num_replicas=3, request_router_config=RequestRouterConfig(request_router_class=Records)
)
def name(request: object) -> str:
    return serve.get_replica_context().replica_id.unique_id


def test_it_chooses_for_requests_over_http() -> None:
    skate.init(num_cpus=2)
    serve.start(http_options={"port": 0})
    handle = serve.run(name.bind())
    answers = {httpx.get(serve.http_address()).text for _ in range(6)}
    assert answers == {handle.remote(0).result()}
    serve.shutdown()
    skate.shutdown()


def test_what_a_router_is_told() -> None:
    skate.init(engine="inline")
    serve.start(proxy_location="Disabled")
    handle = serve.run(name.bind())
    Records.told.clear()
    who = handle.options(session_id="s", multiplexed_model_id="m").remote(5).result()
    eventually(lambda: len(Records.told) == 3)
    pending, sent, answered = Records.told
    known = pending.metadata
    assert pending.args == [5]
    assert [known.call_method, known.session_id, known.multiplexed_model_id] == [
        "__call__",
        "s",
        "m",
    ]
    assert sent == answered == (known.internal_request_id, who)
    serve.shutdown()
    skate.shutdown()
    eventually(lambda: "skate-serve-routing" not in [t.name for t in threading.enumerate()])


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_its_thread_ends_with_the_session(engine: str) -> None:
    skate.init(engine=engine, num_cpus=2)
    serve.start(proxy_location="Disabled")
    handle = serve.run(name.bind())
    assert handle.remote(5).result(timeout_s=PATIENCE)
    skate.shutdown()
    eventually(lambda: "skate-serve-routing" not in [t.name for t in threading.enumerate()])
    assert not skate.is_initialized()  # nothing that was left has begun another session


def test_news_that_come_too_late_begin_nothing() -> None:
    router = Router(DeploymentID("late"))
    router.close(RuntimeError("it is over"))
    router.update(RoutingTable(router=plan_of(RequestRouterConfig(request_router_class=Records))))
    assert "skate-serve-routing" not in [thread.name for thread in threading.enumerate()]


class Answers(RequestRouter):
    """Returns what the request brings along."""

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: Any = None
    ) -> Any:
        chosen = pending_request.args[0]
        return candidate_replicas if chosen == "flat" else chosen


@serve.deployment(request_router_config=RequestRouterConfig(request_router_class=Answers))
def unreached(chosen: object) -> None: ...


def test_what_is_no_list_of_replicas_is_named() -> None:
    skate.init(engine="inline")
    serve.start(proxy_location="Disabled")
    handle = serve.run(unreached.bind())
    for wrong in ("flat", [["stranger"]], 7):
        with pytest.raises(TypeError, match=r"choose_replicas of Answers returns lists .*; got"):
            handle.remote(wrong).result(timeout_s=5)
    serve.shutdown()
    skate.shutdown()


def _is_told(request: Any) -> bool:
    return "times" in request.why_unsent


def test_a_router_that_chooses_none_is_the_reason_of_late_requests(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(user_routing, "_PATIENCE_S", 0)
    skate.init(engine="inline")
    serve.start(proxy_location="Disabled")
    handle = serve.run(unreached.bind())
    nobody: list[Any]
    for nobody in ([], [[]]):
        response = handle.remote(nobody)
        request: Any = response._request
        eventually(partial(_is_told, request))
        told = r"within 0\.1 s: choose_replicas of Answers has returned no replica \d+ times"
        with pytest.raises(TimeoutError, match=told):
            response.result(timeout_s=0.1)
        response.cancel()
    lines = [line for line in caplog.messages if "has returned no replica" in line]
    assert len(lines) == 1  # however many wait
    serve.shutdown()
    skate.shutdown()


def test_a_router_without_its_method_is_refused_at_once() -> None:
    class Lacks(RequestRouter): ...

    config = RequestRouterConfig(request_router_class=Lacks)
    skate.init(engine="inline")
    with pytest.raises(TypeError, match="Lacks does not define choose_replicas"):
        serve.run(unreached.options(request_router_config=config).bind())
    serve.shutdown()
    skate.shutdown()


class Counts(RequestRouter):
    """Sends to the replica whose number the request says, by rank, and counts how often."""

    asked = 0
    go_on = threading.Event()

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: Any = None
    ) -> list[list[RunningReplica]]:
        Counts.asked += 1
        await asyncio.sleep(0)
        ordered = sorted(candidate_replicas, key=lambda each: each.replica_id.unique_id)
        return [[ordered[pending_request.args[0]]]]


@serve.deployment(max_ongoing_requests=1)
def gate(number: int, waits: bool = False) -> None:
    if waits:
        Counts.go_on.wait(PATIENCE)


ONLY_WHEN_TOLD = RequestRouterConfig(
    request_router_class=Counts, initial_backoff_s=600, max_backoff_s=600
)


def test_an_answer_wakes_no_more_than_can_be_sent() -> None:
    skate.init(engine="inline")
    serve.start(proxy_location="Disabled")
    app = gate.options(request_router_config=ONLY_WHEN_TOLD)
    handle = serve.run(app.bind())
    Counts.asked, count = 0, 100
    Counts.go_on.clear()
    responses = [handle.remote(0, True) for _ in range(count)]
    eventually(lambda: Counts.asked >= count)
    Counts.go_on.set()
    for response in responses:
        response.result(timeout_s=PATIENCE)
    assert Counts.asked <= 4 * count
    serve.shutdown()
    skate.shutdown()


def test_those_who_wait_for_a_busy_replica_do_not_keep_others_waiting() -> None:
    skate.init(engine="inline")
    serve.start(proxy_location="Disabled")
    app = gate.options(request_router_config=ONLY_WHEN_TOLD, num_replicas=2)
    handle = serve.run(app.bind())
    Counts.go_on.clear()
    waiting = [handle.remote(0, True) for _ in range(3)]
    others = [handle.remote(1) for _ in range(5)]
    for response in others:
        response.result(timeout_s=PATIENCE)
    Counts.go_on.set()
    for response in waiting:
        response.result(timeout_s=PATIENCE)
    serve.shutdown()
    skate.shutdown()


class Hesitates(RequestRouter):
    """Never comes to a decision, and notes who gave up waiting for one."""

    given_up: ClassVar[list[Any]] = []

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: Any = None
    ) -> list[list[RunningReplica]]:
        try:
            await asyncio.Event().wait()
        finally:
            self.given_up.append(pending_request.args)
        return []


def test_a_router_that_hangs_is_not_asked_any_longer_than_the_request_lasts() -> None:
    skate.init(engine="inline")
    serve.start(proxy_location="Disabled")
    config = RequestRouterConfig(request_router_class=Hesitates)
    handle = serve.run(unreached.options(request_router_config=config).bind())
    responses = [handle.remote(number) for number in range(3)]
    with pytest.raises(TimeoutError):
        responses[2].result(timeout_s=0.1)
    responses[1].cancel()
    eventually(lambda: Hesitates.given_up == [[1]])
    serve.shutdown()
    skate.shutdown()
