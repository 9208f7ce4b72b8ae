"""as_completed and map_unordered, and the small helpers beside them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import skate
from skate.util import as_completed, debug, list_named_actors, log_once, map_unordered
from tests.support import PATIENCE, Flag, Tally, parallel

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
def square(x: int) -> int:
    return x * x


@skate.remote
def after(flag: Flag, value: str) -> str:
    flag.wait()
    return value


@skate.remote
def noted(tally: Tally, x: int) -> int:
    tally.add(x)
    return x


@pytest.mark.parametrize("chunk_size", [1, 3, 100])
def test_every_result_comes_once(chunk_size: int) -> None:
    refs = [square.remote(i) for i in range(10)]
    assert sorted(as_completed(refs, chunk_size=chunk_size)) == [i * i for i in range(10)]
    results = map_unordered(square, range(10), backpressure_size=2, chunk_size=chunk_size)
    assert sorted(results) == [i * i for i in range(10)]


def test_references_instead_of_results() -> None:
    refs = [square.remote(i) for i in range(3)]
    assert set(as_completed(refs, yield_obj_refs=True)) == set(refs)
    assert sorted(skate.get(list(map_unordered(square, [2, 3], yield_obj_refs=True)))) == [4, 9]


def test_nothing_in_nothing_out() -> None:
    assert list(as_completed([])) == []
    assert list(map_unordered(square, [])) == []


@parallel
def test_what_is_ready_comes_before_what_is_not(flag: Callable[[str], Flag]) -> None:
    gate = flag("gate")
    results = as_completed([after.remote(gate, "slow"), square.remote(3)])
    assert next(results) == 9
    gate.set()
    assert list(results) == ["slow"]


def test_backpressure_lets_the_items_be_endless(tally: Tally) -> None:
    def call() -> Iterator[Any]:
        return map_unordered(Call(tally), itertools.count(), backpressure_size=4)

    assert len(list(itertools.islice(call(), 10))) == 10
    assert len(tally) <= 10 + 4


class Call:
    """A remote function with its first argument given."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    def remote(self, x: int) -> Any:
        return noted.remote(self.tally, x)


@parallel
@pytest.mark.differs_from_ray("a timeout is not noticed there")
def test_a_timeout_is_an_error(flag: Callable[[str], Flag]) -> None:
    gate = flag("gate")
    ref = after.remote(gate, "slow")
    with pytest.raises(skate.exceptions.GetTimeoutError, match="1 are outstanding"):
        list(as_completed([ref], timeout=0.01))
    gate.set()
    assert skate.get(ref, timeout=PATIENCE) == "slow"


def test_bad_arguments_are_refused_at_the_call() -> None:
    with pytest.raises(ValueError, match="chunk_size"):
        as_completed([], chunk_size=0)
    with pytest.raises(ValueError, match="chunk_size"):
        map_unordered(square, [], num_returns=3)
    with pytest.raises(ValueError, match="backpressure_size"):
        map_unordered(square, [], backpressure_size=0)


def test_named_actors_are_listed() -> None:
    @skate.remote
    class Actor:
        def ping(self) -> None: ...

    assert list_named_actors() == []
    actor = Actor.options(name="bob").remote()
    skate.get(actor.ping.remote())
    assert list_named_actors() == ["bob"]
    (entry,) = list_named_actors(all_namespaces=True)
    assert isinstance(entry, dict)
    assert entry["name"] == "bob"


def test_log_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "_logged", {})
    monkeypatch.setattr(debug, "_disabled", False)
    assert [log_once("a"), log_once("a"), log_once("b")] == [True, False, True]
    debug.reset_log_once("a")
    assert [log_once("a"), log_once("b")] == [True, False]
    debug.disable_log_once_globally()
    assert not log_once("c")


def test_the_address_of_this_machine() -> None:
    assert skate.util.get_node_ip_address() == skate.nodes()[0]["NodeManagerAddress"]
    assert skate.util.get_node_ip_address("127.0.0.1:53") == "127.0.0.1"
    with pytest.raises(ValueError, match="host:port"):
        skate.util.get_node_ip_address("localhost")


def test_log_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debug, "_logged", {})
    monkeypatch.setattr(debug, "_periodic", False)
    now = [1000.0]
    monkeypatch.setattr(debug.time, "monotonic", lambda: now[0])
    assert [log_once("a"), log_once("a")] == [True, False]
    debug.enable_periodic_logging()
    assert log_once("a") is False
    now[0] += 61
    assert [log_once("a"), log_once("a")] == [True, False]
