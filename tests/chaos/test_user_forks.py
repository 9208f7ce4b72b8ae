"""User code that forks, spawns and pools inside tasks and in the driver."""

import asyncio
import glob
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import textwrap

import psutil
import pytest

import skate
from tests.chaos import drivers
from tests.chaos.drivers import run_code
from tests.support import error_in_a_fork, eventually, local_only

pytestmark = local_only


@skate.remote
def identity(x):
    return x


@pytest.mark.usefixtures("engine")
def test_a_task_forks_a_child_that_exits():
    @skate.remote
    def fork():
        child = os.fork()
        if child == 0:
            os._exit(5)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert skate.get(fork.remote(), timeout=60) == 5


@pytest.mark.usefixtures("engine")
def test_a_forked_child_that_returns_answers_nothing():
    @skate.remote(max_retries=0)
    def fork():
        child = os.fork()
        if child == 0:
            return "from the child"
        os.waitpid(child, 0)
        return "from the parent"

    for _ in range(3):
        assert skate.get(fork.remote(), timeout=60) == "from the parent"
    assert skate.get([identity.remote(i) for i in range(20)], timeout=60) == list(range(20))


def waits_in_a_fork():
    """What a forked child is told that awaits what its parent has begun; the last item is of the
    parent."""

    @skate.remote
    class Gate:
        def __init__(self):
            self.opened = asyncio.Event()

        async def open(self):
            self.opened.set()

        async def wait(self):
            await self.opened.wait()
            return "through"

        async def items(self):
            await self.opened.wait()
            yield "first"

    gate = Gate.remote()
    pending, stream = gate.wait.remote(), gate.items.remote()

    async def result():
        return await pending

    async def item():
        return await stream.__anext__()

    calls = [
        lambda: asyncio.run(result()),
        lambda: pending.future().result(),
        lambda: asyncio.run(item()),
    ]
    told = [error_in_a_fork(call).partition(":")[0] for call in calls]
    skate.get(gate.open.remote())
    return [*told, skate.get(pending), skate.get(next(stream))]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("place", ["driver", "task"])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_what_a_fork_awaits_of_its_parent_is_an_error(place):
    if place == "driver":
        found = waits_in_a_fork()
    else:
        found = skate.get(skate.remote(waits_in_a_fork).remote(), timeout=60)
    assert found == ["StaleReferenceError"] * 3 + ["through", "first"]


@pytest.mark.usefixtures("engine")
def test_a_task_runs_a_program():
    @skate.remote
    def program():
        command = [sys.executable, "-c", "print(6 * 7)"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert skate.get(program.remote(), timeout=60) == "42"


@pytest.mark.usefixtures("engine")
def test_a_task_uses_a_pool_of_processes():
    @skate.remote
    def pool():
        with multiprocessing.get_context("fork").Pool(2) as workers:
            return workers.map(abs, [-1, -2, -3])

    assert skate.get(pool.remote(), timeout=60) == [1, 2, 3]


@pytest.mark.usefixtures("engine")
def test_children_of_a_task_print_while_it_talks_to_the_driver(capfd):
    @skate.remote
    def parent():
        context = multiprocessing.get_context("fork")
        children = [context.Process(target=chatter) for _ in range(2)]
        for child in children:
            child.start()
        values = [skate.get([identity.remote("v" * 5000) for _ in range(5)]) for _ in range(40)]
        for child in children:
            child.join(60)
        return sum(map(len, values)), [child.exitcode for child in children]

    def chatter():
        for _ in range(300):
            print("y" * 2000)

    assert skate.get(parent.remote(), timeout=60) == (200, [0, 0])
    assert skate.get(identity.remote("usable"), timeout=60) == "usable"
    assert "Traceback" not in capfd.readouterr().err


def test_the_driver_forks_a_child_that_exits_normally():
    code = """
        import os, sys, skate
        skate.init(num_cpus=2)
        f = skate.remote(lambda x: x)
        assert skate.get(f.remote(1)) == 1
        ref = skate.put(b"x" * 1_000_000)
        child = os.fork()
        if child == 0:
            del ref
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(skate.get(ref)) == 1_000_000
        print(skate.get(f.remote("still works")))
    """
    assert "still works" in run_code(code)


def test_the_driver_uses_a_pool_of_processes():
    code = """
        import multiprocessing, skate
        skate.init(num_cpus=2)
        f = skate.remote(lambda x: x)
        assert skate.get(f.remote(1)) == 1
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(abs, [-1, -2]) == [1, 2]
        print(skate.get(f.remote("still works")))
    """
    assert "still works" in run_code(code)


def test_a_pool_of_the_parents_is_an_error_in_a_forked_child():
    code = """
        import os
        from skate.util.multiprocessing import Pool
        with Pool(2) as pool:
            assert pool.map(abs, [-1, -2]) == [1, 2]
            parent = os.getpid()
            child = os.fork()
            if child == 0:
                try:
                    pool.map(abs, [-1])
                except RuntimeError as error:
                    assert f"process {parent}" in str(error)
                    with Pool(1) as own:
                        os._exit(10 + own.apply(abs, (-1,)))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 11
            print("still", pool.map(abs, [-3]))
    """
    assert "still [3]" in run_code(code)


def test_an_engine_that_has_ended_closes_nothing_in_forked_children():
    """The numbers of its descriptors belong to others by then."""
    code = """
        import os, skate
        from skate.engine import installed_engine
        skate.init(num_cpus=1)
        ended = installed_engine()
        skate.shutdown()
        ends = [end for _ in range(20) for end in os.pipe()]
        child = os.fork()
        if child == 0:
            for end in ends:
                os.fstat(end)
            os._exit(7)
        print("exit code", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    assert "exit code 7" in run_code(code)


GENERATIONS = """
    import multiprocessing, os, sys

    def child_of_child():
        # The grandchild must find the files open that the child has opened.
        child = os.fork()
        if child == 0:
            ends = [end for _ in range(20) for end in os.pipe()]
            grandchild = os.fork()
            if grandchild == 0:
                for end in ends:
                    os.fstat(end)
                os._exit(7)
            os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def pool_in_a_child():
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()

        def compute():
            with context.Pool(2) as pool:
                theirs.send(pool.map(abs, [-1, -2, -3]))

        child = context.Process(target=compute)
        child.start()
        assert ours.poll(60)
        child.join(60)
        return ours.recv(), child.exitcode
"""


def test_children_of_forked_children_keep_their_files():
    code = """
        import skate
        skate.init(num_cpus=2)
        f = skate.remote(lambda x: x)
        assert skate.get(f.remote(1)) == 1
        print(child_of_child(), *pool_in_a_child(), skate.get(f.remote("still works")))
    """
    said = run_code(textwrap.dedent(GENERATIONS) + textwrap.dedent(code))
    assert said == "7 [1, 2, 3] 0 still works\n"


def test_children_of_forked_children_of_a_task_keep_their_files():
    code = """
        import skate
        skate.init(num_cpus=2)
        twice, pooled = skate.remote(child_of_child), skate.remote(pool_in_a_child)
        print(skate.get(twice.remote(), timeout=60), *skate.get(pooled.remote(), timeout=60))
    """
    said = run_code(textwrap.dedent(GENERATIONS) + textwrap.dedent(code))
    assert said == "7 [1, 2, 3] 0\n"


def test_a_forked_child_starts_an_engine_of_its_own_and_forks_again():
    code = """
        import skate
        skate.init(num_cpus=1)
        f = skate.remote(lambda x: x)
        assert skate.get(f.remote(1)) == 1
        child = os.fork()
        if child == 0:
            assert skate.get(f.remote(2)) == 2
            code = child_of_child()
            assert skate.get(f.remote(3)) == 3
            skate.shutdown()
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), skate.get(f.remote("works")))
    """
    assert run_code(textwrap.dedent(GENERATIONS) + textwrap.dedent(code)) == "7 works\n"


def test_nothing_is_left_of_a_killed_driver_although_its_child_lives():
    code = """
        import os, time, skate
        skate.init(num_cpus=1)
        worker = skate.get(skate.remote(os.getpid).remote())
        child = os.fork()
        if child == 0:
            for stream in (0, 1, 2):
                os.dup2(os.open(os.devnull, os.O_RDWR), stream)
            time.sleep(1000)
        print(worker, child, flush=True)
        time.sleep(1000)
    """
    driver = drivers.spawn(code)
    worker, child = map(int, drivers.line(driver).split())
    try:
        drivers.kill(driver)
        eventually(lambda: not psutil.pid_exists(worker))
        eventually(lambda: not session_files(driver.pid))
        assert psutil.Process(child).status() != psutil.STATUS_ZOMBIE
    finally:
        os.kill(child, signal.SIGKILL)


def session_files(pid):
    places = ("/dev/shm", tempfile.gettempdir())
    return [found for place in places for found in glob.glob(f"{place}/skate-*-{pid}-*")]
