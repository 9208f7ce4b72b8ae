"""Requests of a session, and where they go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from skate import serve
from skate.serve.config import RequestRouterConfig
from skate.serve.experimental.consistent_hash_router import ConsistentHashRouter
from skate.serve.experimental.round_robin_router import RoundRobinRouter
from tests.support import Flag, eventually

Run = Callable[..., Any]


@serve.deployment(
    num_replicas=3,
    max_ongoing_requests=1,
    request_router_config=RequestRouterConfig(request_router_class=ConsistentHashRouter),
)
class Named:
    def __call__(self, wait_for: Flag | None = None) -> str:
        if wait_for is not None:
            wait_for.wait()
        return serve.get_replica_context().replica_id.unique_id


def test_requests_of_a_session_go_to_one_replica(run: Run) -> None:
    handle = run(Named.bind())

    def places(session: str) -> set[str]:
        return {handle.options(session_id=session).remote().result() for _ in range(5)}

    found = [places(f"session {number}") for number in range(20)]
    assert all(len(each) == 1 for each in found)
    assert len(set().union(*found)) > 1
    assert handle.remote().result()


def test_where_its_replica_has_no_room_another_answers(
    run_locally: Run, flag: Callable[[str], Flag]
) -> None:
    go = flag("go")
    handle = run_locally(Named.bind()).options(session_id="mine")
    first = handle.remote(go)
    eventually(lambda: first._request.ref is not None)
    other = handle.remote().result()
    go.set()
    home = first.result()
    assert other != home
    assert handle.remote().result() == home


def test_replicas_in_turn(run: Run) -> None:
    config = RequestRouterConfig(request_router_class=RoundRobinRouter)
    handle = run(Named.options(request_router_config=config).bind())
    names = [handle.remote().result() for _ in range(6)]
    assert len(set(names[:3])) == 3
    assert names[:3] == names[3:]
