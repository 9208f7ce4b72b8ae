"""User code that forks, spawns and pools inside tasks and in the driver."""

import glob
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile

import psutil
import pytest

import skate
from tests.chaos import drivers
from tests.chaos.drivers import run_code
from tests.support import eventually, local_only

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
