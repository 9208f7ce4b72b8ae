"""The driver is killed, interrupted, or started in unusual ways."""

import contextlib
import os
import signal
import sys
import textwrap

import psutil
import pytest

import skate
from tests.chaos import drivers
from tests.support import local_only

pytestmark = pytest.mark.differs_from_ray("programs of their own, on the local engine")

BUSY = """
    import time, numpy, skate
    skate.init(num_cpus=2)

    @skate.remote
    def work():
        time.sleep(1000)

    @skate.remote
    class Actor:
        def hello(self):
            return "hello"

    actor = Actor.remote()
    skate.get(actor.hello.remote())
    keep = [skate.put(numpy.ones(5_000_000)) for _ in range(3)]
    running = [work.remote() for _ in range(5)]
    skate.wait(running, timeout=0.1)
    print("busy", flush=True)
    time.sleep(1000)
"""


def test_nothing_is_left_of_a_killed_driver():
    driver = drivers.spawn(BUSY)
    assert drivers.line(driver) == "busy"
    drivers.kill(driver)


def test_nothing_is_left_of_a_terminated_driver():
    driver = drivers.spawn(BUSY)
    assert drivers.line(driver) == "busy"
    driver.terminate()
    driver.communicate(timeout=drivers.SECONDS)


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "skate.shutdown()"])
def test_nothing_is_left_of_a_driver_that_ends(end):
    code = f"""
        import sys, skate
        f = skate.remote(lambda x: x)
        refs = [f.remote(i) for i in range(100)]
        assert skate.get(refs[0]) == 0
        keep = skate.put(b"k" * 1_000_000)
        {end or "pass"}
    """
    assert drivers.run_code(code) == ""


def test_a_driver_that_fails_shows_its_own_error_only():
    code = """
        import skate
        f = skate.remote(lambda x: x)
        skate.get(f.remote(1))
        raise ValueError("the user's own")
    """
    driver = drivers.spawn(code)
    out, _ = driver.communicate(timeout=drivers.SECONDS)
    assert driver.returncode == 1
    assert out.strip().endswith("ValueError: the user's own")
    assert out.count("Traceback") == 1


LATE = """
    import atexit

    def late():
        for call in calls:
            try:
                call()
                print("done")
            except Exception as error:
                print(type(error).__name__)
        print(skate.is_initialized())

    atexit.register(late)  # before the session, so that it runs after the end of that
    import skate

    @skate.remote
    class Actor:
        def hello(self):
            return "hello"

    actor, answer, task = Actor.remote(), skate.put(1), skate.remote(abs)
    skate.get(actor.hello.remote())
    calls = [
        lambda: skate.get(answer), lambda: skate.kill(actor), lambda: actor.hello.remote(),
        lambda: skate.get(task.remote(-1)), lambda: Actor.remote(), lambda: skate.put(1),
    ]
"""


def test_what_needs_the_session_after_the_programs_end_is_an_error():
    assert drivers.run_code(LATE).split() == [
        "StaleReferenceError", "ActorHandleNotFoundError", "ActorHandleNotFoundError",
        "SkateSystemError", "SkateSystemError", "SkateSystemError", "False",
    ]  # fmt: skip


@pytest.mark.parametrize("end", ["skate.kill(self.actor)", "self.pool.close()"])
def test_objects_that_end_their_actors_at_the_programs_end_say_nothing(end):
    code = f"""
        import skate
        from skate.util.multiprocessing import Pool

        class Holder:
            def __init__(self):
                self.actor = skate.remote(list).remote()
                self.pool = Pool(1)

            def __del__(self):
                {end}
                print("ended")

        holder = Holder()
    """
    assert drivers.run_code(code).split() == ["ended"]


@local_only
def test_the_next_start_sweeps_what_a_power_cut_left(start):
    driver = drivers.spawn(BUSY)
    assert drivers.line(driver) == "busy"
    family = [psutil.Process(driver.pid), *psutil.Process(driver.pid).children(recursive=True)]
    for act in (psutil.Process.suspend, psutil.Process.kill):
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):  # one that was not needed any more
                act(process)
    driver.communicate(timeout=drivers.SECONDS)
    start(num_cpus=1)  # and the check for leftovers does the rest


# -- interrupts -----------------------------------------------------------------------------------

INTERRUPTED = """
    import time, skate
    skate.init(num_cpus=2)

    @skate.remote
    def slow():
        time.sleep(1000)

    @skate.remote
    def quick(x):
        return x

    assert skate.get(quick.remote(1)) == 1
    try:
        print("waiting", flush=True)
        {wait}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    print(skate.get(quick.remote("usable"), timeout=60), flush=True)
    skate.shutdown()
"""

WAITS = {
    "get": "skate.get(quick.options(num_cpus=0).remote(slow.remote()))",
    "wait": "skate.wait([slow.remote()])",
    "submit": "while True: quick.remote(b'x' * 1000)",
    "put": "while True: skate.put(b'x' * 1_000_000)",
    "stream": "next(skate.remote(lambda: (yield skate.get(slow.remote()))).remote())",
}


@pytest.mark.parametrize("whole_group", [False, True], ids=["driver", "group"])
@pytest.mark.parametrize("wait", WAITS)
def test_control_c_returns_the_prompt_and_leaves_the_engine_usable(wait, whole_group):
    driver = drivers.spawn(INTERRUPTED.replace("{wait}", WAITS[wait]))
    assert drivers.line(driver) == "waiting"
    signal_soon(driver, whole_group)
    out = drivers.finish(driver)
    assert "interrupted" in out
    assert "usable" in out


def signal_soon(driver, whole_group):
    import time

    time.sleep(0.2)  # there is no event for "has entered the call"
    if whole_group:
        os.killpg(driver.pid, signal.SIGINT)
    else:
        os.kill(driver.pid, signal.SIGINT)


# -- ways to start a program ----------------------------------------------------------------------

PROGRAM = textwrap.dedent(
    """
    import skate

    FACTOR = 3

    def helper(x):
        return x * FACTOR

    @skate.remote
    def task(x):
        return helper(x)

    @skate.remote
    class Actor:
        def method(self, x):
            return helper(x)

    actor = Actor.remote()
    print(skate.get([task.remote(1), actor.method.remote(2)]))
    """
)


def test_python_c():
    assert drivers.run([sys.executable, "-c", PROGRAM]) == "[3, 6]\n"


def test_a_script_without_a_main_guard(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    assert drivers.run([sys.executable, str(script)]) == "[3, 6]\n"


def test_a_script_that_imports_its_neighbour(tmp_path):
    (tmp_path / "neighbour.py").write_text("def helper(x):\n    return x + 100\n")
    script = tmp_path / "program.py"
    script.write_text(
        "import skate\nfrom neighbour import helper\n"
        "print(skate.get(skate.remote(helper).remote(1)))\n"
    )
    assert drivers.run([sys.executable, str(script)]) == "101\n"


def test_python_m(tmp_path):
    (tmp_path / "skate_program.py").write_text(PROGRAM)
    path = os.pathsep.join([str(tmp_path), drivers.environment()["PYTHONPATH"]])
    assert drivers.run([sys.executable, "-m", "skate_program"], PYTHONPATH=path) == "[3, 6]\n"


def test_a_program_on_standard_input():
    assert drivers.run([sys.executable, "-"], text=PROGRAM) == "[3, 6]\n"


def test_the_interactive_prompt():
    out = drivers.run([sys.executable, "-i", "-q"], text=PROGRAM)
    assert "[3, 6]" in out


def test_under_another_working_directory(tmp_path):
    code = f"""
        import os, skate
        os.chdir({str(tmp_path)!r})
        print(skate.get(skate.remote(lambda: os.getcwd()).remote()))
    """
    assert drivers.run_code(code).strip() == str(tmp_path)


# -- other users and small machines ---------------------------------------------------------------


def nobodys_command(code):
    prefix, python = drivers.as_nobody()
    return [*prefix, python, "-c", textwrap.dedent(code)]


def nobodys_environment():
    paths = [p for p in sys.path if p.endswith("site-packages")]
    path = os.pathsep.join([drivers.environment()["PYTHONPATH"], *paths])
    return {"PYTHONPATH": path, "HOME": "/nonexistent", "TMPDIR": "/tmp"}


SMALL = """
    import skate
    with skate.init(num_cpus=2):
        f = skate.remote(lambda x: len(x))
        print(skate.get(f.remote(skate.put(b"u" * 1_000_000))))
"""


def test_without_root():
    assert drivers.run(nobodys_command(SMALL), **nobodys_environment()).strip() == "1000000"


@local_only
def test_two_users_at_once(engine):
    identity = skate.remote(lambda x: x)
    assert skate.get(identity.remote(1)) == 1
    assert drivers.run(nobodys_command(SMALL), **nobodys_environment()).strip() == "1000000"
    assert skate.get(identity.remote(2)) == 2


def test_two_sessions_of_one_user_at_once():
    first, second = drivers.spawn(SMALL), drivers.spawn(SMALL)
    assert drivers.finish(first).strip() == drivers.finish(second).strip() == "1000000"
