"""A worker dies at every point of a task's life: a retry or a typed error, never a hang."""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import threading

import numpy as np
import psutil
import pytest

import skate
from tests.support import eventually, local_only, processes_of_session

pytestmark = local_only

Crashed = skate.exceptions.WorkerCrashedError


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(tally):
    if tally.add() == 1:
        die()
    return "survived"


class DiesOnArrival:
    """Kills the process that unpickles it, the first time."""

    def __init__(self, tally):
        self.tally = tally

    def __reduce__(self):
        return die_once, (self.tally,)


class DiesOnDeparture:
    """Kills the process that pickles it, the first time."""

    def __init__(self, tally):
        self.tally = tally

    def __reduce__(self):
        return str, (die_once(self.tally),)


@skate.remote
def identity(x):
    return x


@skate.remote
def running(tally):
    return die_once(tally)


@skate.remote
def departing(tally):
    return DiesOnDeparture(tally)


@skate.remote
def departing_late(tally):
    return [np.zeros(2_000_000), DiesOnDeparture(tally), np.zeros(2_000_000)]


@skate.remote
def writing(tally, delay):
    if tally.add() == 1:
        threading.Timer(delay, die).start()
    return np.ones(10_000_000)


@skate.remote
def pid():
    return os.getpid()


def kill(processes):
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # one that was not needed any more
            process.kill()


def usable():
    return skate.get(identity.remote("usable"), timeout=60) == "usable"


# -- where a worker can die -----------------------------------------------------------------------

POINTS = {
    "unpickling": (identity, DiesOnArrival),
    "unpickling a stored value": (identity, lambda tally: skate.put(DiesOnArrival(tally))),
    "running": (running, lambda tally: tally),
    "pickling the result": (departing, lambda tally: tally),
    "pickling the result with arrays": (departing_late, lambda tally: tally),
}


def submit(point, tally, **options):
    """The task that dies at this point, the first time."""
    task, argument = POINTS[point]
    return task.options(**options).remote(argument(tally))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("point", POINTS)
def test_a_task_is_retried(point, tally):
    value = skate.get(submit(point, tally), timeout=60)
    assert value == "survived" or value[1] == "survived"
    assert len(tally) == 2
    assert usable()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("point", POINTS)
def test_without_retries_it_is_a_typed_error(point, tally):
    with pytest.raises(Crashed, match="SIGKILL"):
        skate.get(submit(point, tally, max_retries=0), timeout=60)
    assert usable()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("delay", [0, 0.001, 0.005, 0.01, 0.02, 0.05])
def test_dying_while_writing_a_large_result(tally, delay):
    value = skate.get(writing.remote(tally, delay), timeout=60)
    assert value.sum() == 10_000_000
    assert usable()


def test_dying_at_import(start, tmp_path, tally, monkeypatch):
    (tmp_path / "skate_dies_at_import.py").write_text(
        "import os, signal\n"
        "def task(): return 'imported'\n"
        f"if os.getpid() != {os.getpid()}:\n"
        f"    with open({tally.path!r}, 'a') as file: file.write('x\\n')\n"
        f"    if len(open({tally.path!r}).read().split()) == 1:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import skate_dies_at_import

    start(num_cpus=1)
    assert skate.get(skate.remote(skate_dies_at_import.task).remote(), timeout=60) == "imported"
    del sys.modules["skate_dies_at_import"]


@pytest.mark.usefixtures("engine")
def test_dying_while_idle():
    for _ in range(5):
        os.kill(skate.get(pid.remote(), timeout=60), signal.SIGKILL)
    assert usable()


@pytest.mark.usefixtures("engine")
def test_all_workers_die_while_idle():
    found = set(skate.get([pid.remote() for _ in range(20)]))
    for victim in found:
        os.kill(victim, signal.SIGKILL)
    assert skate.get([identity.remote(i) for i in range(20)], timeout=60) == list(range(20))


@pytest.mark.usefixtures("engine")
def test_dying_while_waiting_for_another_task(tally):
    @skate.remote
    def outer():
        if tally.add() == 1:
            threading.Timer(0.005, die).start()
            skate.get(hold.remote())
        return skate.get(identity.remote("inner"))

    @skate.remote
    def hold():
        threading.Event().wait(0.05)

    assert skate.get(outer.remote(), timeout=60) == "inner"
    assert usable()


@pytest.mark.usefixtures("engine")
def test_what_a_dead_worker_had_put_is_lost_or_kept_but_never_hangs(tally):
    @skate.remote(max_retries=0)
    def put_and_die():
        tally.add(skate.put("orphan").hex())
        die()

    with pytest.raises(Crashed):
        skate.get(put_and_die.remote(), timeout=60)
    assert usable()


@pytest.mark.usefixtures("engine")
def test_a_stream_dies_in_the_middle():
    @skate.remote(max_retries=0)
    def stream():
        yield 1
        die()

    refs = stream.remote()
    assert skate.get(next(refs), timeout=60) == 1
    with pytest.raises(Crashed):
        skate.get(next(refs), timeout=60)


# -- how a worker can die -------------------------------------------------------------------------


def segfault():
    ctypes.string_at(0)


def overflow():
    sys.setrecursionlimit(10**9)
    nested = []
    for _ in range(500_000):
        nested = [nested]
    repr(nested)


def abort():
    os.abort()


WAYS = {
    "kill -9": (die, "SIGKILL"),
    "segfault": (segfault, "SIGSEGV"),
    "abort": (abort, "SIGABRT"),
    "os._exit": (lambda: os._exit(7), "7"),
    "terminate": (lambda: os.kill(os.getpid(), signal.SIGTERM), "SIGTERM|15"),
}


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("way", WAYS)
def test_the_error_names_how_the_worker_died(way):
    function, word = WAYS[way]

    @skate.remote(max_retries=0)
    def task():
        function()
        threading.Event().wait(20)

    with pytest.raises(Crashed, match=word):
        skate.get(task.remote(), timeout=60)
    assert usable()


def sockets(pid):
    """What a process has open that another one may have open, too."""
    found = set()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it was closed in between
            found.add(os.readlink(entry.path))
    return {place for place in found if place.startswith("socket:")}


@pytest.mark.usefixtures("engine")
def test_the_error_names_the_signal_although_the_fork_server_is_busy():
    worker = skate.get(pid.remote(), timeout=60)
    servers = [p for p in processes_of_session() if p.pid != worker]
    # A server that is stopped between its fork and its next line would keep the worker's socket.
    eventually(lambda: not any(sockets(worker) & sockets(server.pid) for server in servers))
    for server in servers:
        server.suspend()
    try:
        with pytest.raises(Crashed, match="SIGKILL"):
            skate.get(skate.remote(die).options(max_retries=0).remote(), timeout=60)
    finally:
        for server in servers:
            server.resume()
    assert usable()


@pytest.mark.usefixtures("engine")
def test_a_stack_overflow():
    @skate.remote(max_retries=0)
    def task():
        overflow()

    with pytest.raises((Crashed, RecursionError)):
        skate.get(task.remote(), timeout=60)
    assert usable()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("code", [0, 1, "a text"])
def test_sys_exit(code):
    @skate.remote(max_retries=0)
    def task():
        sys.exit(code)

    with pytest.raises(skate.exceptions.RayError):
        skate.get(task.remote(), timeout=60)
    assert usable()


@pytest.mark.usefixtures("engine")
def test_a_task_that_always_kills_its_worker_comes_to_an_end(tally):
    @skate.remote
    def poison():
        tally.add()
        die()

    with pytest.raises(Crashed, match="SIGKILL"):
        skate.get(poison.remote(), timeout=60)
    assert len(tally) == 4
    assert usable()


@pytest.mark.usefixtures("engine")
def test_innocent_neighbours_survive(tally):
    @skate.remote
    def poison():
        die()

    bad = [poison.remote() for _ in range(5)]
    good = [identity.remote(i) for i in range(50)]
    assert skate.get(good, timeout=60) == list(range(50))
    for ref in bad:
        with pytest.raises(Crashed):
            skate.get(ref, timeout=60)


# -- the processes behind the workers -------------------------------------------------------------


@pytest.mark.usefixtures("engine")
def test_everything_but_the_driver_dies():
    skate.get([pid.remote() for _ in range(4)])
    kill(processes_of_session())
    assert skate.get([identity.remote(i) for i in range(10)], timeout=60) == list(range(10))


@pytest.mark.usefixtures("engine")
def test_a_fork_server_dies():
    workers = set(skate.get([pid.remote() for _ in range(10)]))
    servers = [p for p in processes_of_session() if p.pid not in workers]
    assert servers
    kill(servers)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
    assert usable()


@pytest.mark.usefixtures("engine")
def test_a_fork_server_dies_while_it_is_asked_for_a_worker(monkeypatch):
    """The packet cannot be sent any more, and nobody has noticed before."""
    send, failed = socket.send_fds, []

    def send_fails_once(sock, *rest):
        if failed:
            return send(sock, *rest)
        failed.append(sock)
        raise BrokenPipeError

    large = skate.put(np.ones(1 << 20))
    monkeypatch.setattr(socket, "send_fds", send_fails_once)
    assert skate.get(skate.remote(lambda array: array.sum()).remote(large), timeout=60) == 1 << 20
    assert failed


@pytest.mark.usefixtures("engine")
def test_a_fork_server_dies_under_running_tasks(flag):
    @skate.remote
    def hold(flag):
        flag.wait()
        return os.getpid()

    go = flag("go")
    refs = [hold.remote(go) for _ in range(4)]
    eventually(lambda: skate.available_resources().get("CPU", 0) == 0)
    kill(processes_of_session())
    go.set()
    assert len(skate.get(refs, timeout=60)) == 4


# -- neighbours and streams -----------------------------------------------------------------------


@pytest.mark.init(num_cpus=1)
@pytest.mark.usefixtures("engine")
def test_without_retries_a_task_runs_once_whatever_its_neighbours_are(flag, tally):
    @skate.remote(max_retries=0)
    def once(started, go):
        tally.add()
        started.set()
        go.wait()
        die()

    skate.get([identity.remote(i) for i in range(200)])  # known to be short
    started, go = flag("started"), flag("go")
    ref = once.remote(started, go)
    started.wait()
    neighbours = [identity.remote(i) for i in range(5)]
    go.set()
    with pytest.raises(Crashed, match="SIGKILL"):
        skate.get(ref, timeout=60)
    assert skate.get(neighbours, timeout=60) == list(range(5))
    assert len(tally) == 1


@pytest.mark.usefixtures("engine")
def test_a_stream_with_backpressure_dies_in_the_middle_and_goes_on(tally):
    @skate.remote(_generator_backpressure_num_objects=2)
    def stream():
        for i in range(20):
            if i == 6 and tally.add() == 1:
                die()
            yield i

    assert [skate.get(ref, timeout=60) for ref in stream.remote()] == list(range(20))
