"""What `skate.util.state` says of what there is."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import skate
from skate.job_submission import JobSubmissionClient
from skate.util import placement_group, remove_placement_group, state
from tests.support import eventually, local_only, parallel

pytestmark = [pytest.mark.usefixtures("engine"), pytest.mark.engines("inline", "local")]


@skate.remote
class Sleeper:
    def pid(self) -> int:
        return os.getpid()

    def wait(self, flag: Any) -> None:
        flag.wait()

    def fall(self) -> None:
        os._exit(1)

    def leave(self, code: int) -> None:
        sys.exit(code)


def of_actor(actor: Any) -> Any:
    return state.get_actor(actor._actor_id.hex())


def test_a_live_actor() -> None:
    actor = Sleeper.options(name="sleeper", resources={}, namespace="bed").remote()
    pid = skate.get(actor.pid.remote())
    (row,) = state.list_actors(filters=[("name", "=", "sleeper")])
    assert state.list_actors(filters=[("NAME", "=", "sleeper"), ("State", "=", "alive")]) == [row]
    assert row == of_actor(actor)
    assert (row.state, row.class_name, row.pid) == ("ALIVE", "Sleeper", pid)
    assert (row["ray_namespace"], row["is_detached"], row["num_restarts"]) == ("bed", False, 0)
    assert row["death_cause"] is None
    with pytest.raises(AttributeError, match="class_name"):
        row.spam  # noqa: B018


def test_what_an_actor_calls_itself() -> None:
    @skate.remote
    class Named:
        def __init__(self, name: str) -> None:
            self.name = name

        def __repr__(self) -> str:
            return self.name

        def greet(self) -> None:
            pass

    plain, named = Sleeper.remote(), Named.remote("ada")
    skate.get([plain.pid.remote(), named.greet.remote()])
    skate.get(named.greet.options(name="other").remote())
    assert (of_actor(plain).repr_name, of_actor(named).repr_name) == ("", "ada")


@local_only
def test_calls_of_an_actor_have_the_name_that_it_gives_itself() -> None:
    @skate.remote
    class Named:
        def __repr__(self) -> str:
            return "ada"

        def greet(self) -> None:
            pass

    named = Named.remote()
    skate.get([named.greet.remote(), named.greet.options(name="other").remote()])
    rows = state.list_tasks(filters=[("type", "=", "ACTOR_TASK")])
    assert {row.name for row in rows} == {"ada.greet", "other"}
    assert {row.func_or_class_name.rpartition(".")[2] for row in rows} == {"greet"}


def test_an_actor_that_was_killed() -> None:
    actor = Sleeper.remote()
    skate.get(actor.pid.remote())
    skate.kill(actor)
    assert of_actor(actor).state == "DEAD"
    assert "kill" in of_actor(actor).death_cause["actor_died_error_context"]["error_message"]
    assert state.list_actors(filters=[("state", "!=", "dead")]) == []


@parallel
def test_an_actor_that_has_restarted() -> None:
    actor = Sleeper.options(max_restarts=1, max_task_retries=1).remote()
    first = skate.get(actor.pid.remote())
    actor.fall.options(max_task_retries=0).remote()
    eventually(lambda: skate.get(actor.pid.remote()) != first)
    assert (of_actor(actor).num_restarts, of_actor(actor).state) == (1, "ALIVE")


@local_only
def test_an_actor_that_waits(flag: Any) -> None:
    gate = flag("gate")

    @skate.remote
    def argument() -> int:
        gate.wait()
        return 1

    @skate.remote
    class Taker:
        def __init__(self, value: int) -> None: ...

    @skate.remote(num_cpus=2)
    class Large: ...

    unready, first, second = Taker.remote(argument.remote()), Large.remote(), Large.remote()
    assert of_actor(unready).state == "DEPENDENCIES_UNREADY"
    assert of_actor(second).state == "PENDING_CREATION"
    assert of_actor(second).required_resources == {"CPU": 2}
    gate.set()
    del first


@local_only
def test_tasks_that_have_not_ended(flag: Any) -> None:
    gate, begun = flag("gate"), flag("begun")

    @skate.remote(num_cpus=2)
    def running() -> None:
        begun.set()
        gate.wait()

    @skate.remote(num_cpus=2)
    def queued(value: Any = None) -> None: ...

    run = running.remote()
    begun.wait()
    refs = [run, queued.remote(), queued.options(name="later").remote(run)]
    states = {row.name: row.state for row in state.list_tasks()}
    assert states == {
        "running": "RUNNING",
        "queued": "PENDING_NODE_ASSIGNMENT",
        "later": "PENDING_ARGS_AVAIL",
    }
    row = state.get_task(run)
    assert row is not None
    assert row == state.get_task(run.task_id().hex())
    assert (row.type, row.func_or_class_name) == ("NORMAL_TASK", "running")
    (worker,) = state.list_workers(filters=[("worker_id", "=", row.worker_id)])
    assert worker == state.get_worker(row.worker_id)
    assert worker.pid == row.worker_pid
    summary = state.summarize_tasks()["cluster"]["summary"]
    assert summary["queued"]["state_counts"] == {
        "PENDING_NODE_ASSIGNMENT": 1,
        "PENDING_ARGS_AVAIL": 1,
    }
    gate.set()
    skate.get(refs)
    ended = state.list_tasks()
    assert [(row.name, row.state) for row in ended] == [
        ("later", "FINISHED"),
        ("queued", "FINISHED"),
        ("running", "FINISHED"),
    ]
    assert state.get_task(run) == ended[-1]
    assert ended[-1].worker_pid == row.worker_pid
    assert 0 < ended[-1].start_time_ms <= ended[-1].end_time_ms
    assert row.start_time_ms is row.end_time_ms is None


@local_only
def test_tasks_that_have_failed() -> None:
    @skate.remote(max_retries=0)
    def end(how: str) -> None:
        if how == "crash":
            os._exit(1)
        raise ValueError(how)

    @skate.remote
    def wants(value: Any) -> None: ...

    refs = [end.options(name=how).remote(how) for how in ("error", "crash")]
    refs.append(wants.remote(refs[0]))
    sleeper = Sleeper.remote()
    refs.append(sleeper.fall.remote())
    assert skate.wait(refs, num_returns=4, timeout=60)[1] == []
    states = {row.name: (row.state, row.type) for row in state.list_tasks()}
    assert states == {
        "error": ("FAILED", "NORMAL_TASK"),
        "crash": ("FAILED", "NORMAL_TASK"),
        "wants": ("FAILED", "NORMAL_TASK"),
        "Sleeper.fall": ("FAILED", "ACTOR_TASK"),
        "Sleeper.__init__": ("FINISHED", "ACTOR_CREATION_TASK"),
    }
    why = {row.name: (row.error_type, row.error_message) for row in state.list_tasks()}
    assert why["error"][0] == "TASK_EXECUTION_EXCEPTION"
    assert "ValueError: error" in why["error"][1]
    assert "ValueError: error" in why["wants"][1]
    assert (why["crash"][0], why["Sleeper.fall"][0]) == ("WORKER_DIED", "ACTOR_DIED")
    assert "exited with code 1" in why["crash"][1]
    assert "exited with code 1" in why["Sleeper.fall"][1]
    assert why["Sleeper.__init__"] == (None, None)


@local_only
def test_the_error_of_a_cancelled_task_and_of_one_that_holds_much(flag: Any) -> None:
    gate, begun = flag("gate"), flag("begun")

    @skate.remote
    def waits() -> None:
        begun.set()
        gate.wait()

    @skate.remote
    def fails() -> None:
        raise ValueError(b"x" * (1 << 20))

    ref = waits.remote()
    begun.wait()
    skate.cancel(ref)
    with pytest.raises(skate.exceptions.TaskCancelledError):
        skate.get(ref, timeout=60)
    with pytest.raises(ValueError, match="xxx"):
        skate.get(fails.remote(), timeout=60)
    why = {row.name: (row.error_type, row.error_message) for row in state.list_tasks()}
    assert why["waits"][0] == "TASK_CANCELLED"
    assert why["fails"] == ("TASK_EXECUTION_EXCEPTION", None)


@local_only
def test_calls_of_an_actor(flag: Any) -> None:
    gate = flag("gate")
    actor = Sleeper.remote()
    skate.get(actor.pid.remote())
    refs = [actor.wait.remote(gate), actor.pid.remote()]
    rows = state.list_tasks(filters=[("type", "=", "ACTOR_TASK")])
    assert [(row.name, row.state) for row in rows] == [
        ("Sleeper.wait", "RUNNING"),
        ("Sleeper.pid", "SUBMITTED_TO_WORKER"),
        ("Sleeper.pid", "FINISHED"),
    ]
    assert {row.actor_id for row in rows} == {actor._actor_id.hex()}
    gate.set()
    skate.get(refs)


@local_only
def test_objects() -> None:
    large, small = skate.put(bytes(1_000_000)), skate.put(1)
    sizes = {row.object_id: row.object_size for row in state.list_objects()}
    assert sizes[large.hex()] >= 1_000_000 > sizes[small.hex()]
    assert state.get_objects(large.hex())[0]["task_status"] == "FINISHED"
    assert state.summarize_objects()["cluster"]["total_objects"] == 2
    id = large.hex()
    del large
    assert state.get_objects(id) == []


@local_only
def test_from_inside_a_task() -> None:
    @skate.remote
    def own_row() -> Any:
        return state.get_task(skate.get_runtime_context().get_task_id())

    row = skate.get(own_row.remote())
    assert (row.name, row.state) == ("own_row", "RUNNING")


def test_machines_and_groups() -> None:
    (node,) = state.list_nodes()
    assert (node.state, node.resources_total["CPU"]) == ("ALIVE", 2)
    assert state.get_node(node.node_id) == node
    group = placement_group([{"CPU": 1}], name="together")
    skate.get(group.ready())
    assert [row.state for row in state.list_placement_groups()] == ["CREATED"]
    remove_placement_group(group)
    row = state.get_placement_group(group.id.hex())
    assert row is not None
    assert row.state == "REMOVED"


def test_limits_and_summaries() -> None:
    keep = [Sleeper.remote() for _ in range(3)]
    skate.get([actor.pid.remote() for actor in keep])
    assert len(state.list_actors(limit=2)) == 2
    summary = state.summarize_actors()["cluster"]
    assert summary["summary"]["Sleeper"]["state_counts"] == {"ALIVE": 3}
    assert summary["total"] == 3


@pytest.mark.parametrize(
    "wrong", [("state", "~", "ALIVE"), ("spam", "=", "ALIVE")], ids=["predicate", "key"]
)
def test_filters_that_cannot_be(wrong: tuple[str, str, str]) -> None:
    actor = Sleeper.remote()
    with pytest.raises(ValueError, match="a filter"):
        state.list_actors(filters=[wrong])
    del actor


@local_only
def test_workers_that_have_ended_say_why(flag: Any) -> None:
    @skate.remote
    class Broken:
        def __init__(self, tell: Any) -> None:
            skate.get(tell.tell.remote(os.getpid()))
            raise ValueError("no construction")

    @skate.remote(num_cpus=0)
    class Told:
        def __init__(self) -> None:
            self.pid = 0

        def tell(self, pid: int) -> None:
            self.pid = pid

        def told(self) -> int:
            return self.pid

    @skate.remote(max_retries=0)
    def hold(begun: Any, never: Any) -> None:
        begun.set()
        never.wait()

    def started(name: str) -> tuple[Any, int]:
        actor = Sleeper.options(name=name, num_cpus=0).remote()
        pid = skate.get(actor.pid.remote(), timeout=60)
        (row,) = state.list_workers(filters=[("pid", "=", pid)])
        assert (row.is_alive, row.exit_type, row.exit_detail) == (True, None, None)
        assert row.start_time_ms > 0
        assert row.end_time_ms == 0
        return actor, pid

    def ended(pid: int, exit_type: str, word: str) -> None:
        eventually(lambda: not state.list_workers(filters=[("pid", "=", pid)])[0].is_alive)
        (row,) = state.list_workers(filters=[("pid", "=", pid)])
        assert row.exit_type == exit_type
        assert word in row.exit_detail
        assert row.end_time_ms >= row.start_time_ms
        assert state.get_worker(row.worker_id) == row

    _, pid = started("killed from outside")
    os.kill(pid, signal.SIGKILL)
    ended(pid, "SYSTEM_ERROR", "SIGKILL; the system's OOM killer")
    actor, pid = started("killed")
    skate.kill(actor)
    ended(pid, "INTENDED_SYSTEM_EXIT", "kill")
    actor, pid = started("falling")
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(actor.fall.remote(), timeout=60)
    ended(pid, "SYSTEM_ERROR", "code 1")
    for code, exit_type in ((0, "INTENDED_USER_EXIT"), (4, "SYSTEM_ERROR")):
        actor, pid = started(f"leaving with {code}")
        with pytest.raises(skate.exceptions.ActorDiedError):
            skate.get(actor.leave.remote(code), timeout=60)
        ended(pid, exit_type, f"exit code {code}")
    told = Told.remote()
    broken = Broken.options(num_cpus=0).remote(told)
    eventually(lambda: skate.get(told.told.remote()))
    ended(skate.get(told.told.remote()), "USER_ERROR", "the initialization method")
    del broken
    held = hold.remote(flag("begun"), flag("never"))
    flag("begun").wait()
    task = state.get_task(held)
    assert task is not None
    skate.cancel(held, force=True)
    ended(task.worker_pid, "INTENDED_USER_EXIT", "cancel")


def test_jobs_are_this_program_and_what_was_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (own,) = state.list_jobs()
    assert (own.type, own.status) == ("DRIVER", "RUNNING")
    assert own.job_id == skate.get_runtime_context().get_job_id()
    client = JobSubmissionClient()
    job = client.submit_job(entrypoint="true")
    eventually(lambda: client.get_job_status(job).is_terminal())
    (found,) = state.list_jobs(filters=[("type", "=", "SUBMISSION")])
    assert found == state.get_job(job)
    assert (found.submission_id, found.status) == (job, "SUCCEEDED")
    assert state.get_job("none") is None
