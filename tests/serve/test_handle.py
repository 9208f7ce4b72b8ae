"""Calls on handles: results, errors, composition, streams, cancellation."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import skate
from skate import serve
from skate.exceptions import ActorDiedError
from skate.serve._identity import DeploymentID, ReplicaID
from skate.serve._routing.requests import NOT_YET, RoutedRequest
from skate.serve._routing.routed_replica import RoutedReplica
from skate.serve._routing.router import Router
from skate.serve._routing.routing_table import RoutingTable
from skate.serve.exceptions import (
    BackPressureError,
    ReplicaUnavailableError,
    RequestCancelledError,
    SkateServeError,
)
from skate.serve.handle import DeploymentHandle
from skate.util.state import list_actors
from tests.support import PATIENCE, Flag, Tally, eventually, reasons_for_waits, run_program

Run = Callable[..., Any]


@serve.deployment
def double(x: int) -> int:
    return 2 * x


@serve.deployment
class Adder:
    def __init__(self, amount: int = 1) -> None:
        self.amount = amount

    async def __call__(self, x: int) -> int:
        return x + self.amount

    def plain(self, x: int, *, times: int = 1) -> int:
        return x + times * self.amount

    def fail(self, text: str) -> None:
        raise ValueError(text)

    def count(self, limit: int) -> Iterator[int]:
        yield from range(limit)

    async def count_async(self, limit: int) -> AsyncIterator[int]:
        for number in range(limit):
            yield number

    def count_and_fail(self) -> Iterator[int]:
        yield 1
        raise ValueError("after one")


@serve.deployment
class Sum:
    """Asks two others, in various ways."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self.first, (self.second,) = parts["first"], parts["rest"]

    async def __call__(self, x: int) -> int:
        first, second = await asyncio.gather(self.first.remote(x), self.second.remote(x))
        return int(first + second)

    async def chained(self, x: int) -> int:
        return int(await self.first.remote(self.second.remote(x)))

    def blocking(self, x: int) -> int:
        return int(self.first.remote(x).result(timeout_s=PATIENCE))

    async def stream(self, limit: int) -> AsyncIterator[int]:
        async for number in self.first.options(stream=True).count.remote(limit):
            yield number * 10


def test_functions_and_classes_answer(run: Run) -> None:
    assert run(double.bind()).remote(4).result() == 8
    handle = run(Adder.bind(5), name="adder", route_prefix="/adder")
    assert handle.remote(1).result() == 6
    assert handle.plain.remote(1, times=3).result() == 16
    assert handle.options(method_name="plain").remote(1).result() == 6


def test_bound_deployments_become_handles_however_nested(run: Run) -> None:
    app = Sum.bind({"first": Adder.bind(1), "rest": [Adder.options(name="Other").bind(10)]})
    handle = run(app)
    assert handle.remote(0).result() == 11
    assert handle.chained.remote(0).result() == 11
    assert handle.blocking.remote(1).result() == 2
    assert list(handle.options(stream=True).stream.remote(3)) == [0, 10, 20]


def test_one_class_bound_twice_is_two_deployments_and_one_bound_object_is_one(run: Run) -> None:
    shared = Adder.bind(1)
    run(Sum.bind({"first": shared, "rest": [shared]}))
    assert set(serve.status().applications["default"].deployments) == {"Sum", "Adder"}
    run(Sum.bind({"first": Adder.bind(1), "rest": [Adder.bind(2)]}))
    names = set(serve.status().applications["default"].deployments)
    assert {"Sum", "Adder", "Adder_1"} <= names


def test_responses_are_arguments_of_other_calls(run: Run) -> None:
    handle = run(Adder.bind(1))
    chain = handle.remote(0)
    for _ in range(5):
        chain = handle.remote(chain)
    assert chain.result() == 6
    assert handle.plain.remote(chain, times=handle.remote(1)).result() == 8
    with pytest.raises(ValueError, match="upstream"):
        handle.remote(handle.fail.remote("upstream")).result()
    with pytest.raises(SkateServeError, match="an argument of its own"):
        handle.remote([chain]).result()


def test_references_are_resolved(run: Run) -> None:
    assert run(Adder.bind(1)).remote(skate.put(41)).result() == 42


def test_errors_are_the_users_with_the_users_lines(run: Run) -> None:
    handle = run(Adder.bind())
    with pytest.raises(ValueError, match="deliberate") as caught:
        handle.fail.remote("deliberate").result()
    assert isinstance(caught.value, skate.exceptions.TaskError)
    assert "raise ValueError(text)" in str(caught.value)
    with pytest.raises(
        SkateServeError, match=r"'plane' .*does not exist\. .* Did you mean 'plain'"
    ):
        handle.plane.remote(1).result()
    # The words that programs for Ray look for.
    streams = re.escape("`handle.options(stream=True)`")
    several = f"Method 'count' returned a generator, .*{streams}"
    with pytest.raises(TypeError, match=several):
        handle.count.remote(3).result()
    one = f"method 'plain' did not return a generator, .*{streams}.*without stream"
    with pytest.raises(TypeError, match=one):
        list(handle.options(stream=True).plain.remote(3))


@pytest.mark.parametrize("method", ["count", "count_async"])
def test_generators_stream(run: Run, method: str) -> None:
    handle = run(Adder.bind()).options(stream=True)
    assert list(getattr(handle, method).remote(5)) == [0, 1, 2, 3, 4]

    async def collect() -> list[int]:
        return [number async for number in getattr(handle, method).remote(3)]

    assert asyncio.run(collect()) == [0, 1, 2]
    items = handle.count_and_fail.remote()
    assert next(items) == 1
    with pytest.raises(ValueError, match="after one"):
        next(items)
    with pytest.raises(TypeError, match="for item in response"):
        handle.count.remote(1).result()


@pytest.mark.parametrize("method", ["items", "one", "batch"])
def test_code_that_ends_by_generator_exit_gives_its_place_back(run: Run, method: str) -> None:
    @serve.deployment(max_ongoing_requests=1)
    class Leaving:
        def items(self) -> Iterator[int]:
            yield 1
            raise GeneratorExit

        def one(self) -> None:
            raise GeneratorExit

        @serve.batch(max_batch_size=1)
        async def _leave(self, many: list[int]) -> list[int]:
            raise GeneratorExit

        async def batch(self) -> int:
            return int(await self._leave(1))

        def ready(self) -> str:
            return "ready"

    handle = run(Leaving.bind())

    def call() -> None:
        if method == "items":
            list(handle.options(stream=True).items.remote())
        else:
            getattr(handle, method).remote().result(timeout_s=PATIENCE)

    for _ in range(2):
        with pytest.raises(
            (RuntimeError, serve.exceptions.SkateServeError), match="GeneratorExit"
        ):
            call()
    assert handle.ready.remote().result(timeout_s=PATIENCE) == "ready"


def test_async_callers(run: Run) -> None:
    handle = run(Adder.bind(1))

    async def main() -> list[int]:
        with pytest.raises(RuntimeError, match="await response"):
            handle.remote(1).result()
        return list(await asyncio.gather(*(handle.remote(x) for x in range(20))))

    assert asyncio.run(main()) == list(range(1, 21))


def test_a_handle_travels(run: Run) -> None:
    handle = run(Adder.bind(1))

    @skate.remote
    def call(handle: DeploymentHandle) -> Any:
        return handle.remote(1).result()

    assert skate.get(call.remote(handle)) == 2


# -- waiting ------------------------------------------------------------------------------------


@serve.deployment(max_ongoing_requests=2)
class Gate:
    """Answers once its flag is set."""

    def __init__(self, flag: Flag, tally: Tally) -> None:
        self.flag = flag
        self.tally = tally

    async def __call__(self) -> str:
        self.tally.add("in")
        try:
            while not self.flag.is_set():
                await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            self.tally.add("cancelled")
            raise
        return "through"


@serve.deployment
class Passage:
    def __init__(self, gate: DeploymentHandle) -> None:
        self.gate = gate

    async def __call__(self) -> Any:
        return await self.gate.remote()


def test_no_more_than_max_ongoing_requests_at_a_time(
    run: Run, flag: Callable[[str], Flag], tally: Tally
) -> None:
    handle = run(Gate.bind(flag("go"), tally))
    responses = [handle.remote() for _ in range(5)]
    eventually(lambda: len(tally.words()) == 2)
    with pytest.raises(TimeoutError, match="had no result within"):
        responses[0].result(timeout_s=0.05)
    with pytest.raises(TimeoutError):
        responses[4].result(timeout_s=0.05)
    assert len(tally.words()) == 2
    flag("go").set()
    assert [response.result() for response in responses] == ["through"] * 5


def test_the_limit_holds_for_many_callers(
    run: Run, flag: Callable[[str], Flag], tally: Tally
) -> None:
    """Two routers: each could use all places by itself."""
    run(Passage.bind(Gate.bind(flag("go"), tally)))
    gate = serve.get_deployment_handle("Gate", "default")
    with pytest.raises(KeyError, match=r"^Deployment.*Gates.* does not exist"):
        serve.get_deployment_handle("Gates", "default")
    passage = serve.get_app_handle("default")
    responses = [passage.remote() for _ in range(3)]
    eventually(lambda: len(tally.words()) == 2)
    responses += [gate.remote() for _ in range(3)]
    with pytest.raises(TimeoutError):
        responses[-1].result(timeout_s=0.1)
    assert len(tally.words()) == 2
    flag("go").set()
    assert [response.result() for response in responses] == ["through"] * 6


def test_too_many_waiting_requests_are_refused(
    run: Run, flag: Callable[[str], Flag], tally: Tally
) -> None:
    handle = run(Gate.options(max_queued_requests=1).bind(flag("go"), tally))
    responses = [handle.remote() for _ in range(2)]
    eventually(lambda: len(tally.words()) == 2)
    responses.append(handle.remote())
    with pytest.raises(BackPressureError, match="max_queued_requests=1") as caught:
        handle.remote().result()
    assert caught.value.status_code == 503
    flag("go").set()
    assert [response.result() for response in responses] == ["through"] * 3


def test_the_limit_holds_before_anything_is_known_of_the_replicas() -> None:
    router = Router(DeploymentID("d", "app"))
    requests = [RoutedRequest(router, str(number), "__call__", (), {}) for number in range(5)]
    for request in requests:
        router.assign(request)
    router.update(RoutingTable(max_queued_requests=2))
    assert [request.outcome for request in requests[:2]] == [NOT_YET] * 2
    for request in requests[2:]:
        assert isinstance(request.outcome.error, BackPressureError)


def test_too_many_of_a_burst_are_refused(
    run: Run, flag: Callable[[str], Flag], tally: Tally
) -> None:
    handle = run(Gate.options(max_queued_requests=1).bind(flag("go"), tally))
    responses = [handle.remote() for _ in range(10)]
    eventually(lambda: len(tally.words()) == 2)
    for response in responses[3:]:
        with pytest.raises(BackPressureError):
            response.result()
    flag("go").set()
    assert [response.result() for response in responses[:3]] == ["through"] * 3


def test_requests_are_cancelled_with_what_they_called(
    run: Run, flag: Callable[[str], Flag], tally: Tally
) -> None:
    handle = run(Passage.bind(Gate.bind(flag("go"), tally)))
    response = handle.remote()
    eventually(lambda: tally.words() == ["in"])
    assert not response.cancelled()
    response.cancel()
    with pytest.raises(RequestCancelledError) as caught:
        response.result()
    assert isinstance(caught.value, skate.exceptions.TaskCancelledError)
    eventually(lambda: tally.words() == ["in", "cancelled"])


def test_a_request_is_cancelled_while_it_is_sent(
    run: Run, flag: Callable[[str], Flag], tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = run(Gate.bind(flag("go"), tally))
    usual = RoutedReplica.method_for

    class Late:
        def __init__(self, replica: RoutedReplica, request: RoutedRequest) -> None:
            self.method, self.request = usual(replica, request), request

        def remote(self, *args: object, **kwargs: object) -> Any:
            ref = self.method.remote(*args, **kwargs)
            eventually(lambda: tally.words() == ["in"])
            self.request.router.cancel(self.request)
            return ref

    monkeypatch.setattr(RoutedReplica, "method_for", lambda *of: Late(*of))
    with pytest.raises(RequestCancelledError):
        handle.remote().result()
    eventually(lambda: tally.words() == ["in", "cancelled"])


def test_waiting_requests_are_cancelled(
    run: Run, flag: Callable[[str], Flag], tally: Tally
) -> None:
    handle = run(Gate.bind(flag("go"), tally))
    running = [handle.remote() for _ in range(2)]
    waiting = handle.remote()
    eventually(lambda: len(tally.words()) == 2)
    waiting.cancel()
    with pytest.raises(RequestCancelledError):
        waiting.result()
    flag("go").set()
    assert [response.result() for response in running] == ["through"] * 2
    assert len(tally.words()) == 2


def test_nobody_has_to_ask_for_the_result(run: Run, flag: Callable[[str], Flag]) -> None:
    @serve.deployment
    def note() -> None:
        flag("noted").set()

    run(note.bind()).remote()
    flag("noted").wait()


def test_threads_share_a_handle(run: Run) -> None:
    handle = run(Adder.bind(1))
    results: list[int] = []

    def ask() -> None:
        results.extend(handle.remote(x).result() for x in range(25))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(results) == sorted([*range(1, 26)] * 4)


def test_every_replica_is_called(run_locally: Run) -> None:
    @serve.deployment(num_replicas=2, graceful_shutdown_timeout_s=0.1)  # one call never ends
    class Replica:
        async def pid(self) -> int:
            return os.getpid()

        async def odd(self) -> str:
            rank = serve.get_replica_context().rank.rank
            if rank % 2:
                raise ValueError("odd")
            return "even"

        async def never(self) -> None:
            await asyncio.Event().wait()

    handle = run_locally(Replica.bind())
    assert len(set(handle.broadcast("pid").results(timeout_s=PATIENCE))) == 2
    with pytest.raises(ValueError, match="odd"):
        handle.broadcast("odd").results()
    found = handle.broadcast("odd").results(return_exceptions=True)
    assert {type(each) for each in found} > {str}
    assert [each for each in found if isinstance(each, ValueError)]
    with pytest.raises(TimeoutError, match=r"within 0\.01 s"):
        handle.broadcast("never").results(timeout_s=0.01)
    with pytest.raises(ValueError, match="timeout_s takes None or a number of seconds"):
        handle.broadcast("pid").results(timeout_s=-1)

    async def asynchronously() -> None:
        assert len(set(await handle.broadcast("pid"))) == 2
        answers = await handle.broadcast("odd").results_async(return_exceptions=True)
        assert [each for each in answers if isinstance(each, ValueError)]
        with pytest.raises(ValueError, match="odd"):
            await handle.broadcast("odd").results_async()
        with pytest.raises(TimeoutError, match=r"within 0\.01 s"):
            await handle.broadcast("never").results_async(timeout_s=0.01)
        with pytest.raises(RuntimeError, match="results_async"):
            handle.broadcast("pid").results()

    asyncio.run(asynchronously())


def test_a_handle_lets_go_of_its_replicas(run: Run) -> None:
    @serve.deployment
    def answer() -> int:
        return 1

    handle = run(answer.bind())
    assert handle.remote().result() == 1
    assert handle.is_initialized
    assert handle.running_replicas_populated()
    handle.shutdown()
    assert not handle.is_initialized
    assert not handle.running_replicas_populated()
    assert handle.remote().result() == 1
    asyncio.run(handle.shutdown_async())
    assert not handle.is_initialized


def test_a_replica_may_be_chosen_before_the_request(run_locally: Run) -> None:
    @serve.deployment(num_replicas=2, max_ongoing_requests=1)
    class Backend:
        def name(self, word: str) -> tuple[str, str]:
            return serve.get_replica_context().replica_id.unique_id, word

        def names(self, count: int) -> Iterator[str]:
            for _ in range(count):
                yield serve.get_replica_context().replica_id.unique_id

    handle = run_locally(Backend.bind())

    async def choose() -> None:
        async with handle.name.choose_replica() as first, handle.name.choose_replica() as second:
            assert first.replica_id != second.replica_id
            waiting = asyncio.ensure_future(handle.name.remote("waits")._fetch())
            assert await handle.name.dispatch(first, "a") == (first.replica_id, "a")
            assert await waiting  # the place of the first is free again
            with pytest.raises(ValueError, match="dispatched already"):
                handle.name.dispatch(first, "b")
        with pytest.raises(ValueError, match="block has ended"):
            handle.name.dispatch(second, "b")
        async with handle.options(stream=True).names.choose_replica() as selection:
            items = [item async for item in handle.dispatch(selection, 3)]
            assert items == 3 * [selection.replica_id]
        with pytest.raises(ValueError, match="of Deployment"):
            DeploymentHandle("Other").dispatch(selection)
        assert len({(await handle.name.remote(str(n)))[1] for n in range(10)}) == 10

    asyncio.run(choose())


def test_a_dispatched_request_keeps_its_place_from_those_that_wait(run_locally: Run) -> None:
    @serve.deployment(max_ongoing_requests=1)
    class Backend:
        def __init__(self) -> None:
            self.ongoing, self.most = 0, 0

        async def work(self, word: str) -> str:
            self.ongoing += 1
            self.most = max(self.most, self.ongoing)
            await asyncio.sleep(0.05)
            self.ongoing -= 1
            return word

        def peak(self) -> int:
            return self.most

    @serve.deployment
    def broken() -> None:
        raise ValueError("no argument")

    handle = run_locally(Backend.bind())
    other = serve.run(broken.bind(), name="other", route_prefix=None)

    async def choose() -> None:
        async with handle.work.choose_replica() as selection:
            waiting = [
                asyncio.ensure_future(handle.work.remote(str(n))._fetch()) for n in range(3)
            ]
            while handle._find_router().waiting() < 3:
                await asyncio.sleep(0.01)
            assert await handle.work.dispatch(selection, "chosen") == "chosen"
            assert await asyncio.gather(*waiting) == ["0", "1", "2"]
        assert await handle.peak.remote() == 1
        async with handle.work.choose_replica() as selection:
            with pytest.raises(ValueError, match="no argument"):
                await handle.work.dispatch(selection, other.remote())
        assert await asyncio.wait_for(handle.work.remote("next")._fetch(), PATIENCE) == "next"

    asyncio.run(choose())


def test_a_chosen_replica_that_is_gone(run_locally: Run) -> None:
    @serve.deployment
    class Backend:
        def pid(self) -> int:
            return os.getpid()

    handle = run_locally(Backend.bind())

    async def choose() -> None:
        async with handle.pid.choose_replica() as selection:
            os.kill(await handle.pid.remote(), signal.SIGKILL)
            with pytest.raises((ReplicaUnavailableError, ActorDiedError)):
                await handle.pid.dispatch(selection)

    asyncio.run(choose())
    assert handle.pid.remote().result(timeout_s=PATIENCE)


def test_a_handle_is_initialized_once() -> None:
    handle = DeploymentHandle("Model")
    with pytest.raises(RuntimeError, match="has been initialized"):
        handle.options(stream=True)._init()


def test_a_request_that_hangs_is_looked_for_in_the_deployment(run_locally: Run, flag: Any) -> None:
    raised = flag("raised")

    @serve.deployment
    class Slow:
        def __call__(self) -> str:
            raised.wait()
            return "done"

    handle = run_locally(Slow.bind())
    asking = threading.Thread(target=lambda: handle.remote().result(timeout_s=PATIENCE))
    asking.start()
    said = r"a request to the deployment 'Slow', whose functions are at .*\.py:\d+, in "
    eventually(lambda: re.search(said, reasons_for_waits()))
    raised.set()
    asking.join()


def test_the_name_of_a_replica_says_which_it_is() -> None:
    replica = ReplicaID("tag", DeploymentID("model", "app"))
    assert ReplicaID.from_full_id_str(replica.to_full_id_str()) == replica
    with pytest.raises(ValueError, match="no name of a replica"):
        ReplicaID.from_full_id_str("SERVE_CONTROLLER_ACTOR")


def test_the_state_of_actors_says_whose_replicas_they_are(run_locally: Run) -> None:
    run_locally(Adder.bind(1), name="shop")
    classes = {row["class_name"] for row in list_actors() if row["state"] == "ALIVE"}
    assert "ServeReplica:shop:Adder" in classes


ENDS_WHILE_REQUESTS_WAIT = """
import asyncio
from skate import serve

@serve.deployment(max_ongoing_requests=2)
class Waits:
    async def __call__(self):
        await asyncio.sleep(1000)
    async def begun(self):
        return True

handle = serve.run(Waits.bind(), route_prefix=None)
responses = [handle.remote()]
assert handle.begun.remote().result()
responses += [handle.remote() for _ in range(9)]
"""


def test_a_program_that_ends_while_requests_wait_is_quiet() -> None:
    run = run_program([sys.executable, "-c", ENDS_WHILE_REQUESTS_WAIT], check=True)
    assert run.stderr == ""
