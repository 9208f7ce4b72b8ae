"""The processes of workers as the hub sees them, with none that the system has."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from skate import exceptions
from skate.engine.local import forkserver
from skate.engine.local import messages as m
from skate.engine.local.wire import Connection, encode
from tests.local.fakes import worker_of
from tests.local.hub_bench import HubBench

NOBODY = 1 << 23  # higher than any pid


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The groups of processes that were killed."""
    found: list[int] = []

    def kill(group: int, number: int) -> None:
        assert number == signal.SIGKILL
        found.append(group)

    monkeypatch.setattr("os.killpg", kill)
    return found


class Server(SimpleNamespace):
    """A fork server that says what it is told to say."""

    def __init__(self, *messages: Any) -> None:
        super().__init__(busy=0, said=[*messages])

    def receive(self) -> Any:
        return self.said


def hear(bench: HubBench, server: Any, *messages: Any) -> None:
    server.said = [*messages]
    bench.hub.processes._server_readable(server)


def hang_up(bench: HubBench, worker: Any) -> None:
    worker.launch.socket.close()
    bench.hub.processes._readable(worker)


def test_who_does_not_exit_is_killed(hub_bench: HubBench, killed: list[int]) -> None:
    actor = hub_bench.create_actor()
    hub_bench.finish(actor.creation)
    worker = worker_of(actor.creation)
    worker.pid = NOBODY
    hub_bench.drop(actor.id)
    assert killed == []
    hub_bench.pass_time()
    assert killed == [NOBODY]


def test_who_has_exited_is_left_alone(hub_bench: HubBench, killed: list[int]) -> None:
    actor = hub_bench.create_actor()
    hub_bench.finish(actor.creation)
    worker = worker_of(actor.creation)
    worker.pid = NOBODY
    hub_bench.drop(actor.id)
    hub_bench.lose(worker, status=0)
    hub_bench.pass_time()
    assert killed == []


def test_what_others_write_into_the_socket_of_a_worker_ends_it(
    hub_bench: HubBench, killed: list[int]
) -> None:
    task = hub_bench.submit(max_retries=0)
    worker = worker_of(task)
    worker.pid = NOBODY
    assert worker.launch is not None
    worker.launch.socket.sendall(b"\4\0\0\0nonsense" * 10)
    hub_bench.hub.processes._readable(worker)
    assert worker.ending == "killed"
    assert NOBODY in killed


def test_a_worker_that_hangs_up_is_looked_for(hub_bench: HubBench, killed: list[int]) -> None:
    task = hub_bench.submit(max_retries=0)
    worker = worker_of(task)
    worker.pid = NOBODY
    hang_up(hub_bench, worker)
    looks = 0
    while not hub_bench.is_done(task.id):
        assert not killed
        hub_bench.pass_time()
        looks += 1
        assert looks < 10_000
    assert isinstance(hub_bench.error_of(task.id), exceptions.WorkerCrashedError)
    assert killed == [NOBODY]  # what it has started itself goes with it
    hub_bench.hub.processes._readable(worker)  # it is forgotten: nothing to do


def test_a_worker_that_is_known_to_be_gone_is_not_looked_for(hub_bench: HubBench) -> None:
    task = hub_bench.submit(max_retries=0)
    worker = worker_of(task)
    hang_up(hub_bench, worker)
    hub_bench.lose(worker, status=9)
    assert hub_bench.is_done(task.id)
    hub_bench.pass_time()


def test_a_server_says_when_it_imports_and_how_workers_end(hub_bench: HubBench) -> None:
    task = hub_bench.submit(max_retries=0)
    worker = worker_of(task)
    server = Server()
    hear(hub_bench, server, (forkserver.BUSY,))
    assert server.busy == 1
    worker.end_launch()
    worker.pid = NOBODY
    hear(hub_bench, server, (forkserver.EXITED, 12345, 0), (forkserver.EXITED, worker.number, 11))
    assert "SIGSEGV" in str(hub_bench.error_of(task.id))


def test_a_worker_that_dies_before_it_is_one_is_asked_for_again(hub_bench: HubBench) -> None:
    task = hub_bench.submit(max_retries=0)
    worker = worker_of(task)
    assert worker.launch is not None
    tries = worker.launch.tries
    hear(hub_bench, Server(), (forkserver.EXITED, worker.number, 9))
    hub_bench.pass_time()
    assert worker_of(task) is worker
    assert worker.launch.tries == tries + 1


def test_what_a_worker_had_written_before_its_end_counts(hub_bench: HubBench) -> None:
    task = hub_bench.submit(max_retries=0)
    worker = worker_of(task)
    read: list[Any] = [encode(m.WorkResult(task.id, 0, b"", (), 5))]

    def garbled() -> Any:
        yield read
        raise ValueError("somebody else has written this")

    worker.end_launch()
    worker.connection = _Drained(worker.connection, garbled)
    hear(hub_bench, Server(), (forkserver.EXITED, worker.number, 0))
    assert hub_bench.entries[task.id].kind == 0
    assert worker not in hub_bench.workers


class _Drained:
    def __init__(self, real: Any, drain: Callable[[], Any]) -> None:
        self._real, self.drain = real, drain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_a_forked_child_of_the_driver_lets_go_of_the_workers(hub_bench: HubBench) -> None:
    worker = worker_of(hub_bench.submit())
    hub_bench.hub.processes.detach_in_child()
    assert worker.launch is None


def test_a_defect_is_shown_and_takes_no_others_along(
    hub_bench: HubBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("sys.excepthook", lambda kind, *_: shown.append(kind))
    task = hub_bench.submit()
    unknown = m.SubmitTask(hub_bench.new_id(), 12345, 0, b"", [], (), 12345, 0)
    hub_bench.receive(worker_of(task), unknown, m.WorkResult(task.id, 0, b"", (), 5))
    assert shown == [KeyError]
    assert hub_bench.is_done(task.id)


def test_a_worker_whose_end_is_known_is_gone_with_its_socket(hub_bench: HubBench) -> None:
    task = hub_bench.submit(max_retries=0)
    worker = worker_of(task)
    worker.pid, worker.status = NOBODY, 9
    hang_up(hub_bench, worker)
    assert "SIGKILL" in str(hub_bench.error_of(task.id))


def test_what_a_lost_server_has_not_started_is_asked_for_again(hub_bench: HubBench) -> None:
    processes = hub_bench.hub.processes
    started, waiting = hub_bench.submit(), hub_bench.submit()
    worker_of(started).end_launch()
    server = worker_of(waiting).server
    lost: Any = server
    lost.receive = lambda: None
    lost.control = worker_of(waiting).connection  # some descriptor
    lost.ended, lost.forgotten = [], []
    lost.end_at_once = lambda: lost.ended.append(True)
    processes._servers.forget = lost.forgotten.append  # type: ignore[method-assign]
    launch = worker_of(waiting).launch
    assert launch is not None
    tries = launch.tries
    processes._server_readable(lost)
    assert (lost.ended, lost.forgotten) == ([True], [lost])
    assert worker_of(waiting).server is None
    hub_bench.pass_time()
    assert worker_of(waiting).launch is launch
    assert launch.tries == tries + 1
    assert not hub_bench.is_done(started.id)  # its process lives on


def test_in_a_forked_child_the_workers_are_those_of_the_parent(hub_bench: HubBench) -> None:
    hub_bench.submit()
    (worker,) = hub_bench.workers
    hub_bench.hub.processes.detach_in_child()
    assert worker.connection.closed
    assert worker.launch is None


def test_where_lines_are_counted_workers_end_by_themselves(
    hub_bench: HubBench, monkeypatch: pytest.MonkeyPatch, killed: list[int]
) -> None:
    monkeypatch.setattr("skate.engine.local.hub.processes.is_measured", lambda: True)
    worker = worker_of(hub_bench.submit())
    assert worker.launch is not None
    theirs = Connection(worker.launch.socket.dup())
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        worker.pid = ended.pid
        worker.connection.outbox.clear()
        hub_bench.hub.processes.shutdown()
    assert theirs.receive() == [encode(m.ExitWorker())]
    theirs.close()
    assert killed == [ended.pid]  # in case that it had started others
