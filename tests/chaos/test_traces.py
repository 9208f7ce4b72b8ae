"""What a session shows to others while it lives, and what it leaves."""

from __future__ import annotations

import random
import textwrap
import time

import pytest

from tests.chaos import drivers

pytestmark = pytest.mark.differs_from_ray("programs of their own, on the local engine")

BUSY = """
    import os, numpy, psutil, skate
    os.umask(0)
    context = skate.init(num_cpus=2, object_store_memory=30_000_000)

    @skate.remote
    class Actor:
        def hello(self):
            return os.getpid()

    @skate.remote
    def call(actor):
        return [skate.get(actor.hello.remote()) for _ in range(50)][-1]

    @skate.remote
    def make():
        return numpy.ones(10_000_000, "u1")

    actor = Actor.remote()
    skate.get(call.remote(actor))
    kept = [make.remote() for _ in range(6)] + [skate.put(b"x" * 10_000_000) for _ in range(6)]
    skate.wait(kept, num_returns=len(kept))
    skate.get(kept[0])
"""


def test_a_session_is_closed_to_others_whatever_the_umask():
    code = """
        import glob, stat, tempfile

        kinds = {"folder": 0, "file": 0, "socket": 0}
        for place in ("/dev/shm", tempfile.gettempdir()):
            for home in glob.glob(f"{place}/skate-{os.geteuid()}-{os.getpid()}-*"):
                paths = [os.path.join(root, name) for root, dirs, files in os.walk(home)
                         for name in dirs + files]
                for path in [home, *paths]:
                    mode = os.lstat(path).st_mode
                    kind = ("folder" if stat.S_ISDIR(mode) else
                            "socket" if stat.S_ISSOCK(mode) else "file")
                    kinds[kind] += 1
                    if kind != "socket":  # nobody comes to one through these folders
                        wanted = 0o700 if kind == "folder" else 0o600
                        assert stat.S_IMODE(mode) == wanted, (path, oct(mode))
        assert kinds["folder"] > 3 and kinds["file"] > 3 and kinds["socket"], kinds
        print("closed")
    """
    assert drivers.run_code(_joined(code)) == "closed\n"


def test_no_process_of_a_session_listens_on_a_port():
    code = """
        here = psutil.Process()
        for process in (here, *here.children(recursive=True)):
            open_ports = [c for c in process.net_connections("inet")]
            assert open_ports == [], (process.name(), open_ports)
        print("none of", len(here.children(recursive=True)) > 2)
    """
    assert drivers.run_code(_joined(code)) == "none of True\n"


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_kill_in_the_middle_of_puts_and_spilling_leaves_nothing(seed):
    """The check for leftovers does the rest."""
    code = """
        import threading
        print("busy", flush=True)

        def put():
            while True:
                held = [skate.put(numpy.ones(9_000_000, "u1")) for _ in range(5)]

        for _ in range(2):
            threading.Thread(target=put, daemon=True).start()
        while True:
            skate.get([make.remote() for _ in range(4)])
    """
    driver = drivers.spawn(_joined(code))
    assert drivers.line(driver) == "busy"
    time.sleep(0.3 * random.Random(seed).random())
    drivers.kill(driver)


def test_many_sessions_one_after_the_other_leave_nothing_in_the_program():
    code = """
        import gc, os, threading, skate

        def use():
            with skate.init(num_cpus=1):
                actor = skate.remote(Actor).remote()
                assert skate.get(actor.twice.remote(skate.put(b"x" * 200_000))) == 400_000

        class Actor:
            def twice(self, data):
                return 2 * len(data)

        def state():
            gc.collect()
            files = len(os.listdir("/proc/self/fd"))
            return files, threading.active_count(), len(gc.get_objects())

        for _ in range(5):
            use()
        before = state()
        for _ in range(25):
            use()
        after = state()
        assert after[:2] == before[:2], (before, after)
        assert after[2] - before[2] < 250, (before, after)  # 10 for each
        print("as before")
    """
    assert drivers.run_code(code) == "as before\n"


def test_many_starts_of_serve_leave_nothing_in_the_program():
    code = """
        import gc, os, threading, time, urllib.request, skate
        from skate import serve

        @serve.deployment
        class Model:
            def __call__(self):
                return "answer"

        def use():
            serve.start(http_options={"port": 0})
            assert serve.run(Model.bind()).remote().result(60) == "answer"
            with urllib.request.urlopen(serve.http_address(), timeout=60) as response:
                assert response.read() == b"answer"
            serve.shutdown()

        def state():
            gc.collect()
            files = len(os.listdir("/proc/self/fd"))
            return files, threading.active_count(), len(gc.get_objects())

        skate.init(num_cpus=2)
        for _ in range(2):
            use()
        before = state()
        for _ in range(5):
            use()

        def has_grown(after):
            files, threads, objects = (now - then for now, then in zip(after, before))
            return files > 1 or threads > 0 or objects >= 500

        deadline = time.monotonic() + 60
        while has_grown(after := state()):  # connections to processes that are just ending
            assert time.monotonic() < deadline, (before, after)
            time.sleep(0.01)
        print("as before")
    """
    assert drivers.run_code(code) == "as before\n"


def _joined(code):
    return textwrap.dedent(BUSY) + textwrap.dedent(code)
