"""Processes that are killed: what is lost, and what comes back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import serve
from skate.exceptions import ActorDiedError
from skate.serve._identity import CONTROLLER, NAMESPACE, STATE_STORE
from skate.serve.exceptions import SkateServeError
from skate.util.state import list_actors
from tests.serve.test_controller_redeploying import Load
from tests.support import PATIENCE, Flag, Program, Tally, eventually

Run = Callable[..., Any]


def processes(prefix: str) -> list[int]:
    actors: list[Any] = list(list_actors(detail=True))
    alive = [actor for actor in actors if actor["state"] == "ALIVE" and actor["name"]]
    return [actor["pid"] for actor in alive if actor["name"].startswith(prefix)]


def kill(prefix: str) -> int:
    eventually(lambda: processes(prefix))  # it may be about to be started again
    pid = processes(prefix)[0]
    os.kill(pid, signal.SIGKILL)
    return pid


def kill_all(prefix: str) -> None:
    for pid in processes(prefix):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def remembers() -> bool:
    """Whether what must outlive the controller is safe."""
    try:
        memory = skate.get_actor(STATE_STORE, namespace=NAMESPACE)
        return skate.get(memory.load.remote()) is not None
    except (ValueError, ActorDiedError):
        return False


@serve.deployment(num_replicas=2, max_ongoing_requests=2)
class Model:
    async def __call__(self) -> tuple[int, None, int]:
        await asyncio.sleep(0.002)
        return 1, None, os.getpid()


def test_there_is_no_memory_before_there_is_something_to_keep() -> None:
    skate.init(num_cpus=2)
    try:
        serve.start(proxy_location="Disabled")
        assert [actor["name"] for actor in list_actors()] == [CONTROLLER]
        serve.run(Model.bind(), route_prefix=None)
        eventually(remembers)
    finally:
        skate.shutdown()


def test_a_killed_replica_loses_only_what_it_had(run_locally: Run) -> None:
    handle = run_locally(Model.bind())
    with Load(handle, threads=4) as load:
        for _ in range(3):
            _kill_and_wait(load)
    assert len(load.errors) <= 3 * 4  # what was on its way: one request of each thread
    assert all(isinstance(error, ActorDiedError) for error in load.errors)
    eventually(lambda: serve.status().applications["default"].status == "RUNNING")


def _kill_and_wait(load: Load) -> None:
    before = sum(load.answers.values())
    pid = kill("SERVE_REPLICA")
    eventually(lambda: pid not in processes("SERVE_REPLICA"))
    eventually(lambda: len(processes("SERVE_REPLICA")) == 2)
    eventually(lambda: sum(load.answers.values()) > before + 20)


def test_handles_do_not_need_the_controller(run_locally: Run) -> None:
    handle = run_locally(Model.bind())
    replicas = set(processes("SERVE_REPLICA"))
    with Load(handle) as load:
        kill(CONTROLLER)
        assert serve.status().applications["default"].status == "RUNNING"
        assert set(processes("SERVE_REPLICA")) == replicas
        before = sum(load.answers.values())
        eventually(lambda: sum(load.answers.values()) > before + 20)
    assert load.errors == []


def test_handles_outlive_a_controller_that_does_not_come_back(run_locally: Run) -> None:
    handle = run_locally(Model.bind())
    assert _pid_of(handle) in processes("SERVE_REPLICA")  # from now on it knows them
    eventually(remembers)
    skate.kill(skate.get_actor(CONTROLLER, namespace=NAMESPACE))
    eventually(lambda: processes(CONTROLLER) == [])
    gone = kill("SERVE_REPLICA")
    eventually(lambda: gone not in processes("SERVE_REPLICA"))
    (left,) = processes("SERVE_REPLICA")
    eventually(lambda: _pid_of(handle) == left)
    assert {_pid_of(handle) for _ in range(10)} == {left}
    kill("SERVE_REPLICA")
    eventually(lambda: _pid_of(handle) is None)  # nobody is left, and nobody would start another
    with pytest.raises(SkateServeError, match="no Serve instance is running"):
        handle.remote()


def _pid_of(handle: Any) -> int | None:
    try:
        pid: int = handle.remote().result(timeout_s=PATIENCE)[2]
    except ActorDiedError:
        return -1
    except SkateServeError:
        return None
    return pid


def test_what_a_killed_controller_has_left_behind_is_found_and_ended(run_locally: Run) -> None:
    handle = run_locally(Model.bind())
    eventually(remembers)
    skate.kill(skate.get_actor(CONTROLLER, namespace=NAMESPACE))
    eventually(lambda: processes(CONTROLLER) == [])
    replicas = set(processes("SERVE_REPLICA"))
    serve.start(proxy_location="Disabled")
    assert serve.status().applications["default"].status == "RUNNING"
    assert handle.remote().result(timeout_s=PATIENCE)[2] in replicas
    skate.kill(skate.get_actor(CONTROLLER, namespace=NAMESPACE))
    serve.shutdown()
    eventually(lambda: processes("SERVE_") == [])


def test_a_new_controller_goes_on_where_the_former_was(run_locally: Run) -> None:
    handle = run_locally(Model.bind())
    kill(CONTROLLER)
    gone = kill("SERVE_REPLICA")
    eventually(lambda: gone not in processes("SERVE_REPLICA"))
    eventually(lambda: len(processes("SERVE_REPLICA")) == 2)
    assert handle.remote().result(timeout_s=PATIENCE)[0] == 1
    kill(STATE_STORE)
    kill(CONTROLLER)
    assert list(serve.status().applications) == ["default"]
    eventually(remembers)
    serve.delete("default")
    eventually(lambda: processes("SERVE_REPLICA") == [])


def test_what_could_not_be_deployed_is_not_forgotten(run_locally: Run) -> None:
    controller: Any = skate.get_actor(CONTROLLER, namespace=NAMESPACE)
    skate.get(controller.fail.remote({"lost": "no module named shop"}))
    before = serve.status().applications["lost"]
    eventually(remembers)
    kill(CONTROLLER)
    assert serve.status().applications["lost"] == before
    serve.delete("lost")
    kill(CONTROLLER)
    assert serve.status().applications == {}


def test_applications_may_be_called_anything(run_locally: Run) -> None:
    handle = run_locally(Model.bind(), name="shop::eu")

    @skate.remote
    class Stranger: ...

    name = "SERVE_REPLICA::of nobody"
    stranger = Stranger.options(name=name, namespace=NAMESPACE, lifetime="detached").remote()
    replicas = set(processes("SERVE_REPLICA::shop"))
    kill(CONTROLLER)
    assert serve.status().applications["shop::eu"].status == "RUNNING"
    assert set(processes("SERVE_REPLICA::shop")) == replicas
    assert handle.remote().result(timeout_s=PATIENCE)[0] == 1
    skate.kill(stranger)


def test_requests_wait_while_the_only_replica_comes_back(run_locally: Run) -> None:
    handle = run_locally(Model.options(num_replicas=1).bind())
    pid = kill("SERVE_REPLICA")
    eventually(lambda: pid not in processes("SERVE_REPLICA"))
    answers = [handle.remote().result(timeout_s=PATIENCE) for _ in range(5)]
    assert pid not in {answer[2] for answer in answers}


def test_an_unhealthy_replica_is_replaced(run_locally: Run, flag: Callable[[str], Flag]) -> None:
    sick = flag("sick")

    @serve.deployment(health_check_period_s=0.01, health_check_timeout_s=PATIENCE)
    class Patient:
        def __init__(self) -> None:
            self.pid = os.getpid()

        def check_health(self) -> None:
            if Path(sick.path).exists() and Path(sick.path).read_text() == str(self.pid):
                raise RuntimeError("not well")

        def __call__(self) -> int:
            return self.pid

    handle = run_locally(Patient.bind())
    pid = handle.remote().result()
    Path(sick.path).write_text(str(pid))
    eventually(lambda: pid not in processes("SERVE_REPLICA"))
    assert handle.remote().result(timeout_s=PATIENCE) != pid


def test_a_replica_that_is_not_well_from_the_start(run_locally: Run) -> None:
    @serve.deployment(max_constructor_retry_count=1)
    class Patient:
        async def check_health(self) -> None:
            raise RuntimeError("born ill")

    with pytest.raises(RuntimeError, match="born ill"):
        run_locally(Patient.bind())


def test_a_request_that_kills_its_replica(run_locally: Run, tally: Tally) -> None:
    @serve.deployment
    class Fragile:
        def __init__(self) -> None:
            tally.add("made")

        def __call__(self, deadly: bool) -> str:
            if deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            return "fine"

    handle = run_locally(Fragile.bind())
    with pytest.raises(ActorDiedError):
        handle.remote(True).result(timeout_s=PATIENCE)
    assert handle.remote(False).result(timeout_s=PATIENCE) == "fine"
    assert tally.words() == ["made", "made"]


def test_a_replica_that_does_not_end_is_killed(
    run_locally: Run, flag: Callable[[str], Flag]
) -> None:
    begun = flag("begun")

    @serve.deployment(graceful_shutdown_timeout_s=0.01)
    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    response = run_locally(endless.bind()).remote()
    begun.wait()
    serve.delete("default")
    with pytest.raises(ActorDiedError):
        response.result(timeout_s=PATIENCE)


PROGRAM = """
    import os
    import signal
    from skate import serve

    signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup has it ignored

    @serve.deployment
    class Model:
        def __init__(self):
            print(os.getpid(), flush=True)

    serve.start(proxy_location="Disabled")
    try:
        serve.run(Model.bind(), blocking=True)
    except KeyboardInterrupt:
        print("interrupted", serve.status().applications)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nothing_outlives_its_driver(how: signal.Signals) -> None:
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM)]
    with Program(command, stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        replica = int(driver.stdout.readline().split()[-1])
        driver.send_signal(how)
        said = driver.stdout.read()
    assert said == ("interrupted {}\n" if how == signal.SIGINT else "")
    eventually(lambda: not _is_alive(replica))


def test_ctrl_c_is_the_quiet_way_out() -> None:
    before, after = PROGRAM.split("    try:\n")
    program = textwrap.dedent(before) + textwrap.dedent(after.split("    except")[0])
    command = [sys.executable, "-c", program]
    pipe = subprocess.PIPE
    with Program(command, stdout=pipe, stderr=pipe) as driver:
        assert driver.stdout is not None
        assert driver.stderr is not None
        driver.stdout.readline()
        driver.send_signal(signal.SIGINT)
        assert driver.stdout.read() == ""
        assert driver.stderr.read() in ("", "skate: serving default; Ctrl-C ends it\n")
    assert driver.returncode == 130


def test_a_program_that_serves_says_where() -> None:
    program = textwrap.dedent(PROGRAM).replace(
        'proxy_location="Disabled"', 'http_options={"port": 0}'
    )
    with Program([sys.executable, "-c", program], stderr=subprocess.PIPE) as driver:
        assert driver.stderr is not None
        said = driver.stderr.readline()
        driver.send_signal(signal.SIGINT)
        driver.stderr.read()
    address = r"http://127\.0\.0\.1:\d+"
    assert re.fullmatch(rf"skate: serving default at {address}; Ctrl-C ends it\n", said)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it ended in between
        return False


@serve.deployment(health_check_period_s=60)
class Patient:
    def __init__(self, began: Flag, go: Flag) -> None:
        self.began, self.go = began, go

    async def waiting(self) -> int:
        self.began.set()
        while not self.go.is_set():  # the flag is a file, of another process
            await asyncio.sleep(0.01)
        return os.getpid()

    async def __call__(self) -> int:
        return os.getpid()


def test_a_replica_that_is_asked_to_end_finishes_its_requests(
    run_locally: Run, tmp_path: Path
) -> None:
    """By SIGTERM, as an operator or a machine that is shut down asks."""
    began, go = Flag(tmp_path / "began"), Flag(tmp_path / "go")
    handle = run_locally(Patient.bind(began, go), route_prefix=None)
    running = handle.waiting.remote()
    eventually(began.is_set)
    pid = handle.remote().result(timeout_s=PATIENCE)
    os.kill(pid, signal.SIGTERM)
    later = handle.remote()  # answered by it, or by the next one
    go.set()
    assert running.result(timeout_s=PATIENCE) == pid
    assert later.result(timeout_s=PATIENCE)
    eventually(lambda: handle.remote().result(timeout_s=PATIENCE) != pid)
