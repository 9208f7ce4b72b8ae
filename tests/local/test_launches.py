"""Workers are asked for until there is one, or until there is a reason why there can be none."""

from __future__ import annotations

import errno
import marshal
import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skate.engine.local import forkserver
from skate.engine.local.hub import launches as launches_module
from skate.engine.local.hub.launches import WorkerLaunches
from skate.engine.local.hub.servers import _MOST_UNDER_WAY, ForkRequests, ForkServer
from skate.engine.local.hub.workers import Launch, WorkerProcess
from tests.local.fakes import new_worker


class Server:
    """A fork server without a process: the other end of its socket."""

    pid = 17

    def __init__(self) -> None:
        self.workers: dict[int, WorkerProcess] = {}
        self.control, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self.control, self.far):
            end.setblocking(False)
        self.requests = ForkRequests(self.control)

    def asked_for(self) -> list[int]:
        """The workers in the requests that have come."""
        numbers: list[int] = []
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self.far, 1 << 16, 4)
            except BlockingIOError:
                return numbers
            for fd in fds:
                os.close(fd)
            operation, number = marshal.loads(data)
            assert operation == forkserver.FORK
            numbers.append(number)

    def close(self) -> None:
        self.control.close()
        self.far.close()


class Bench:
    """Births on servers without processes; time passes when a test says so."""

    def __init__(self) -> None:
        self.servers = [Server()]
        self.wanted: list[bool] = []  # whether the server was to have the module, per choice
        self.cannot_choose: OSError | None = None
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.lost: list[WorkerProcess] = []
        chooser: Any = self
        self.launches = WorkerLaunches(
            chooser, lambda *timer: self.timers.append(timer), self._gone
        )
        self._ends: list[socket.socket] = []

    def choose(self, wants: Callable[[list[str]], bool], interpreter: object) -> Any:
        if self.cannot_choose is not None:
            raise self.cannot_choose
        self.wanted.append(wants(["module"]))
        return self.servers[-1]

    def _gone(self, worker: WorkerProcess) -> None:
        self.lost.append(worker)
        worker.end_launch()

    def begin(self, count: int = 1) -> list[WorkerProcess]:
        workers = [new_worker() for _ in range(count)]
        for worker in workers:
            ours, theirs = socket.socketpair()
            self._ends.append(ours)
            worker.launch = Launch({"a": 1}, theirs, [1, 2], lambda modules: "module" in modules)
            self.launches.begin(worker)
        return workers

    def kill_server(self) -> None:
        dead = self.servers[-1]
        self.servers.append(Server())
        self.launches.server_lost(dead)  # type: ignore[arg-type]

    def answer(self, worker: WorkerProcess, pid: int) -> None:
        self.launches.forked(self.servers[-1], worker, pid)  # type: ignore[arg-type]

    def pass_time(self) -> list[float]:
        """Let the timers run; for how long they waited."""
        due, self.timers[:] = self.timers[:], []
        for _, callback in due:
            callback()
        return [delay for delay, _ in due]

    def close(self) -> None:
        for server in self.servers:
            for worker in server.workers.values():
                worker.end_launch()
            server.close()
        for end in self._ends:
            end.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.close()


def numbers(workers: list[WorkerProcess]) -> list[int]:
    return [worker.number for worker in workers]


def test_a_worker_is_there_when_its_server_says_so(bench: Bench) -> None:
    (worker,) = bench.begin()
    assert bench.servers[0].asked_for() == [worker.number]
    assert worker.pid == 0
    bench.answer(worker, 100)
    assert worker.pid == 100
    assert worker.launch is None
    assert bench.pass_time() == []


def test_what_a_dead_server_did_not_start_is_started_by_the_next(bench: Bench) -> None:
    born, *unborn = bench.begin(_MOST_UNDER_WAY + 5)
    bench.answer(born, 100)
    bench.kill_server()
    assert set(bench.pass_time()) == {0}
    bench.answer(unborn[0], 101)
    assert set(bench.servers[1].asked_for()) < set(numbers(unborn))
    assert set(bench.servers[1].workers.values()) == set(unborn)
    assert born.number in bench.servers[0].workers
    assert bench.lost == []


def test_the_last_try_needs_no_imports(bench: Bench) -> None:
    (worker,) = bench.begin()
    for _ in range(2):
        bench.kill_server()
        bench.pass_time()
    assert bench.wanted == [True, True, False]
    bench.kill_server()
    bench.pass_time()
    assert bench.lost == [worker]
    assert "fork server 17 died" in worker.never_started


def test_a_fork_that_fails_is_tried_again_later(bench: Bench) -> None:
    (worker,) = bench.begin()
    bench.answer(worker, -errno.EAGAIN)
    (first,) = bench.pass_time()
    bench.answer(worker, -errno.EAGAIN)
    (second,) = bench.pass_time()
    assert 0 < first < second
    bench.answer(worker, 100)
    assert worker.pid == 100
    assert bench.lost == []


def test_a_fork_that_fails_again_and_again_says_why(bench: Bench) -> None:
    (worker,) = bench.begin()
    for _ in range(launches_module._MOST_TRIES):
        bench.answer(worker, -errno.ENOMEM)
        bench.pass_time()
    assert bench.lost == [worker]
    assert os.strerror(errno.ENOMEM) in worker.never_started


def test_a_process_that_ends_before_it_begins_is_replaced(bench: Bench) -> None:
    (worker,) = bench.begin()
    bench.launches.died(worker)
    bench.pass_time()
    assert bench.servers[0].asked_for() == [worker.number] * 2
    bench.answer(worker, 100)
    assert worker.pid == 100


def test_a_server_that_cannot_be_started_says_why(bench: Bench) -> None:
    bench.cannot_choose = OSError(errno.EAGAIN, "")
    (worker,) = bench.begin()
    for _ in range(launches_module._MOST_TRIES):
        bench.pass_time()
    assert bench.lost == [worker]
    assert "ulimit -u" in worker.never_started


def test_a_busy_server_is_sent_a_few_requests_and_the_rest_when_it_answers(bench: Bench) -> None:
    workers = bench.begin(2 * _MOST_UNDER_WAY)
    server = bench.servers[0]
    assert server.asked_for() == numbers(workers[:_MOST_UNDER_WAY])
    for pid, worker in enumerate(workers[:10], 100):
        bench.answer(worker, pid)
    assert server.asked_for() == numbers(workers[_MOST_UNDER_WAY : _MOST_UNDER_WAY + 10])


def no_descriptors(name: str) -> int:
    raise OSError(errno.EMFILE, "")


def test_too_few_descriptors_wait_for_those_that_others_give_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = bench.begin()
    with monkeypatch.context() as patched:
        patched.setattr(os, "memfd_create", no_descriptors)
        (second,) = bench.begin()
    assert bench.servers[0].asked_for() == [first.number]
    bench.answer(first, 100)
    assert bench.servers[0].asked_for() == [second.number]
    assert bench.lost == []


def test_too_few_descriptors_are_an_error_that_names_the_limit(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "memfd_create", no_descriptors)
    (worker,) = bench.begin()
    for _ in range(launches_module._MOST_TRIES):
        bench.pass_time()
    assert bench.lost == [worker]
    assert "ulimit -n" in worker.never_started
    assert bench.servers[0].workers == {}


def test_a_request_can_be_withdrawn_until_it_is_sent(bench: Bench) -> None:
    *sent, waiting = bench.begin(_MOST_UNDER_WAY + 1)
    assert not bench.launches.withdraw(sent[-1])
    assert bench.launches.withdraw(waiting)
    bench.pass_time()
    assert bench.lost == [waiting]
    assert waiting.status == signal.SIGKILL
    bench.answer(sent[0], 100)
    assert bench.servers[0].asked_for() == numbers(sent)


def test_what_a_dead_server_told_is_heard_although_it_left_requests_unread(bench: Bench) -> None:
    (worker,) = bench.begin()
    server: Any = bench.servers[0]
    told = (forkserver.FORKED, worker.number, 100)
    server.far.send(marshal.dumps(told))
    server.far.close()
    assert ForkServer.receive(server) == [told]
    assert ForkServer.receive(server) is None


def test_what_nobody_wants_any_more_is_not_tried_again(bench: Bench) -> None:
    (worker,) = bench.begin()
    worker.ending = "killed"
    bench.kill_server()
    bench.pass_time()
    bench.pass_time()
    assert bench.lost == [worker]
    assert bench.servers[1].asked_for() == []
