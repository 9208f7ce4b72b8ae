"""What `skate.util.state` says of what there is."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import skate
from skate.job_submission import JobSubmissionClient
from skate.util import placement_group, remove_placement_group, state
from skate.util._state_kinds import ROWS_OF
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


def test_the_class_of_an_actor_is_named_with_what_is_around_it() -> None:
    @skate.remote(num_cpus=0)
    class Inner:
        def ping(self) -> None:
            pass

    @skate.remote
    def made_by_a_task() -> Any:
        inner = Inner.remote()
        skate.get(inner.ping.remote())
        return inner

    outer, inner = Inner.remote(), skate.get(made_by_a_task.remote())
    skate.get(outer.ping.remote())
    around = test_the_class_of_an_actor_is_named_with_what_is_around_it.__name__
    qualified = f"{around}.<locals>.Inner"
    assert {of_actor(actor).class_name for actor in (outer, inner)} == {qualified}
    assert list(state.summarize_actors()["cluster"]["summary"]) == [qualified]


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


class Quiet:
    def usual(self) -> None:
        pass

    @skate.method(enable_task_events=True)
    def shown(self) -> None:
        pass

    @skate.method(enable_task_events=False)
    def hidden(self) -> None:
        pass


def listed() -> set[tuple[str | None, str]]:
    return {(row.actor_id, row.name) for row in state.list_tasks()}


@local_only
def test_calls_that_are_not_to_be_listed() -> None:
    plain = skate.remote(Quiet).remote()
    quiet = skate.remote(enable_task_events=False)(Quiet).remote()
    for actor in (plain, quiet):
        skate.get([actor.usual.remote(), actor.shown.remote(), actor.hidden.remote()])
    one, other = plain._actor_id.hex(), quiet._actor_id.hex()
    expected: set[tuple[str | None, str]]
    expected = {(one, f"Quiet.{name}") for name in ("__init__", "usual", "shown")}
    assert listed() == expected | {(other, "Quiet.shown")}
    events = {event["name"] for event in skate.timeline() or [] if event["ph"] == "X"}
    assert events <= {name for _, name in expected}
    skate.get(plain.hidden.options(enable_task_events=True).remote())
    assert (one, "Quiet.hidden") in listed()


@local_only
def test_tasks_that_are_not_to_be_listed(flag: Any) -> None:
    begun, go_on = flag("begun"), flag("go on")

    @skate.remote(enable_task_events=False)
    def secret() -> None:
        begun.set()
        go_on.wait()

    @skate.remote
    def public() -> None:
        skate.get(secret.remote())

    ref = public.remote()
    begun.wait()
    assert listed() == {(None, "public")}
    go_on.set()
    skate.get(ref)
    assert listed() == {(None, "public")}


@local_only
def test_tasks_and_calls_that_nobody_refers_to(flag: Any) -> None:
    begun, go_on = flag("begun"), flag("go on")

    @skate.remote(num_cpus=2)
    def stay() -> None:
        begun.set()
        go_on.wait()

    @skate.remote(num_cpus=0)
    class Host:
        def stay(self) -> None:
            go_on.wait()

    @skate.remote
    def follow(before: Any) -> None:
        pass

    follow.remote(stay.remote())
    begun.wait()
    stay.remote()  # which has to wait, as the first one has all CPUs
    host = Host.remote()
    for _ in range(2):
        host.stay.remote()

    def states() -> list[tuple[str, str]]:
        rows = [row for row in state.list_tasks() if row.state != "FINISHED"]
        return sorted((row.name, row.state) for row in rows)

    running, waiting = "RUNNING", "SUBMITTED_TO_WORKER"
    calls = [("Host.stay", running), ("Host.stay", waiting)]
    tasks = [("follow", "PENDING_ARGS_AVAIL"), ("stay", "PENDING_NODE_ASSIGNMENT")]
    eventually(lambda: states() == [*calls, *tasks, ("stay", running)])
    go_on.set()
    eventually(lambda: states() == [])
    ended = [row.name for row in state.list_tasks()]
    assert sorted(ended) == ["Host.__init__", "Host.stay", "Host.stay", "follow", "stay", "stay"]


@local_only
def test_tasks_that_wait_for_an_argument_and_are_cancelled_are_not_listed(flag: Any) -> None:
    go_on = flag("go on")

    @skate.remote(num_cpus=0)
    def stay() -> None:
        go_on.wait()

    @skate.remote(num_cpus=0)
    def follow(before: Any) -> None:
        pass

    first = stay.remote()
    second = follow.remote(first)
    skate.cancel(second)
    with pytest.raises(skate.exceptions.TaskCancelledError):
        skate.get(second)
    assert [row.state for row in state.list_tasks() if row.name == "follow"] == ["FAILED"]
    go_on.set()
    skate.get(first)


@local_only
@pytest.mark.parametrize("way", ["exit_actor", "sys.exit", "__ray_terminate__"])
def test_a_call_that_has_ended_its_actor_as_it_was_to_has_not_failed(way: str) -> None:
    @skate.remote
    class Leaver:
        def leave(self, way: str) -> None:
            if way == "exit_actor":
                skate.actor.exit_actor()
            sys.exit(0)

    actor = Leaver.remote()
    ended = actor.__ray_terminate__.remote() if "ray" in way else actor.leave.remote(way)
    with pytest.raises(skate.exceptions.ActorDiedError):
        skate.get(ended)
    (row,) = state.list_tasks(filters=[("type", "=", "ACTOR_TASK")])
    assert (row.state, row.error_type) == ("FINISHED", None)


@local_only
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
    assert summary["queued"]["state_counts"] == {"PENDING_NODE_ASSIGNMENT": 1}
    assert summary["later"]["state_counts"] == {"PENDING_ARGS_AVAIL": 1}
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
    assert 0 < row.start_time_ms <= ended[-1].start_time_ms
    assert row.end_time_ms is None


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
@pytest.mark.parametrize("variable", ["SKATE_CALL_SITES", "RAY_record_ref_creation_sites"])
def test_the_lines_that_made_objects(
    variable: str, start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    skate.shutdown()
    monkeypatch.setenv(variable, "1")
    start(num_cpus=2)

    @skate.remote
    def puts() -> list[Any]:
        return [skate.put(1)]

    @skate.remote
    def sees() -> list[str]:
        return [row.call_site for row in state.list_objects()]

    actor = Sleeper.remote()
    held = [skate.put(1), actor.pid.remote(), puts.remote()]
    inner = skate.get(held)[-1]
    sites = {row.object_id: row.call_site for row in state.list_objects()}
    for ref, call in zip(held, ("put object", "actor call", "task call"), strict=True):
        assert re.match(rf"\({call}\) .*test_state\.py:\d+ in test_the_lines", sites[ref.hex()])
    assert re.match(r"\(put object\) .*test_state\.py:\d+ in puts$", sites[inner[0].hex()])
    assert sites[inner[0].hex()] in skate.get(sees.remote())
    assert state.summarize_objects()["cluster"]["callsite_enabled"]


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
    (row,) = state.list_placement_groups()
    assert row.state == "CREATED"
    (bundle,) = row.bundles
    assert bundle["unit_resources"] == {"CPU": 1.0}
    assert bundle["bundle_id"] == {"placement_group_id": group.id.hex(), "bundle_index": 0}
    assert bundle["node_id"] == node.node_id
    assert state.list_tasks() == []  # what `ready` waits by is no task of the program
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
    assert summary["total_actors"] == 3


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


def test_what_a_job_prints_is_followed_until_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    go = tmp_path / "go"
    until = f"while ! test -e {go}; do sleep 0.01; done"
    job = JobSubmissionClient().submit_job(entrypoint=f"echo one; {until}; echo two")
    texts = state.get_log(submission_id=job, follow=True, _interval=0.01)
    assert next(texts) == "one\n"
    go.touch()  # the second line is printed after the first was told
    assert "".join(texts) == "two\n"
    assert list(state.get_log(submission_id=job, tail=1)) == ["two\n"]


@local_only
def test_each_attempt_of_a_task_is_a_row(tally: Any) -> None:
    @skate.remote(max_retries=2, retry_exceptions=True)
    def flaky() -> None:
        raise ValueError(f"not at the try {tally.add()}")

    ref = flaky.remote()
    with pytest.raises(ValueError, match="not at the try 3"):
        skate.get(ref)
    rows = state.get_task(ref)
    assert [(row.attempt_number, row.state) for row in rows] == [
        (attempt, "FAILED") for attempt in range(3)
    ]
    assert {row.error_type for row in rows} == {"TASK_EXECUTION_EXCEPTION"}
    for number, row in enumerate(rows, start=1):
        assert f"not at the try {number}" in row.error_message


@local_only
def test_an_attempt_that_ended_with_its_process_is_a_row(flag: Any) -> None:
    once = flag("once")

    @skate.remote(max_retries=1)
    def falls() -> None:
        if not once.is_set():
            once.set()
            os._exit(1)

    ref = falls.remote()
    skate.get(ref)
    first, second = state.get_task(ref)
    assert (first.state, first.error_type) == ("FAILED", "WORKER_DIED")
    assert (second.state, second.error_type) == ("FINISHED", None)
    (event,) = state.list_cluster_events()
    assert (event.severity, event.custom_fields["pid"]) == ("ERROR", first.worker_pid)
    assert str(first.worker_pid) in event.message


@local_only
def test_what_a_task_asked_for_and_when() -> None:
    @skate.remote
    def work() -> None: ...

    group = placement_group([{"CPU": 1}])
    skate.get(group.ready())
    ref = work.options(placement_group=group).remote()
    skate.get(ref)
    row = state.get_task(ref)
    assert (row.placement_group_id, row.required_resources) == (group.id.hex(), {"CPU": 1})
    assert row.creation_time_ms <= row.start_time_ms <= row.end_time_ms
    assert [event["state"] for event in row.events] == [
        "PENDING_ARGS_AVAIL",
        "RUNNING",
        "FINISHED",
    ]
    remove_placement_group(group)


@local_only
def test_as_many_calls_of_an_actor_run_as_it_has_threads(flag: Any) -> None:
    gate = flag("gate")
    actor = Sleeper.options(max_concurrency=2).remote()
    skate.get(actor.pid.remote())
    refs = [actor.wait.remote(gate) for _ in range(5)]
    calls = state.list_tasks(filters=[("name", "=", "Sleeper.wait")])
    states = sorted(row.state for row in calls)
    assert states == ["PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY"] * 3 + ["RUNNING"] * 2
    gate.set()
    skate.get(refs)


@local_only
def test_the_driver_is_listed_with_the_workers() -> None:
    (driver,) = state.list_workers(filters=[("worker_type", "=", "DRIVER")])
    assert (driver.pid, driver.is_alive) == (os.getpid(), True)
    assert driver.worker_id == skate.get_runtime_context().get_worker_id()
    assert state.get_worker(driver.worker_id) == driver


@local_only
def test_who_holds_an_object(flag: Any) -> None:
    ref = skate.put(bytes(200_000))
    (row,) = state.get_objects(ref.hex())
    assert (row.type, row.pid, row.reference_type) == ("DRIVER", os.getpid(), "LOCAL_REFERENCE")
    gate = flag("gate")

    @skate.remote
    def reads(value: bytes) -> None:
        gate.wait()

    running = reads.remote(ref)
    (row,) = state.get_objects(ref.hex())
    assert row.reference_type == "USED_BY_PENDING_TASK"
    summary = state.summarize_objects()["cluster"]
    assert summary["summary"]["disabled"]["total_objects"] == summary["total_objects"] == 2
    gate.set()
    skate.get(running)


@local_only
def test_tasks_are_summed_up_by_kind() -> None:
    @skate.remote
    def plain() -> None: ...

    actor = Sleeper.remote()
    named = plain.options(name="by name")
    skate.get([plain.remote(), plain.remote(), named.remote(), actor.pid.remote()])
    found = state.summarize_tasks()["cluster"]
    assert found["summary"]["plain"]["type"] == "NORMAL_TASK"
    assert found["summary"]["plain"]["state_counts"] == {"FINISHED": 2}
    assert found["summary"]["by name"]["func_or_class_name"] == "by name"
    totals = [found[f"total_{kind}"] for kind in ("tasks", "actor_tasks", "actor_scheduled")]
    assert totals == [3, 1, 1]


@local_only
def test_the_runtime_environments_in_use() -> None:
    assert state.list_runtime_envs() == []
    actor = Sleeper.options(runtime_env={"env_vars": {"SPAM": "1"}}).remote()
    skate.get(actor.pid.remote())
    (row,) = state.list_runtime_envs()
    assert (row.runtime_env["env_vars"], row.success, row.ref_cnt) == ({"SPAM": "1"}, True, 1)
    assert row.node_id == skate.get_runtime_context().get_node_id()


@local_only
def test_the_machine_is_the_head() -> None:
    (node,) = state.list_nodes()
    assert (node.is_head_node, node.state_message) == (True, None)


@skate.remote
class Talker:
    def talk(self, text: str) -> str:
        print(text)
        print("oh", file=sys.stderr)
        return skate.get_runtime_context().get_task_id() or ""


@local_only
def test_what_was_printed_by_whom(capfd: pytest.CaptureFixture[str]) -> None:
    first, second = Talker.remote(), Talker.remote()
    task = skate.get([first.talk.remote("one"), second.talk.remote("two")])[0]
    skate.get(first.talk.remote("\x1b[31mthree\x1b[0m"))

    def log(**asked: Any) -> str:
        return "".join(state.get_log(**asked))

    actor = first._actor_id.hex()
    assert log(actor_id=actor, filter_ansi_code=True) == "one\nthree\n"
    assert log(actor_id=actor, tail=1) == "\x1b[31mthree\x1b[0m\n"
    assert log(task_id=task) == "one\n"
    assert log(task_id=task, suffix="err") == "oh\n"
    assert list(state.get_log(task_id=task, encoding=None)) == [b"one\n"]
    pid = of_actor(second).pid
    assert log(pid=pid) == "two\n"
    node = skate.get_runtime_context().get_node_id()
    names = state.list_logs(node_id=node)
    assert f"worker-{pid}.out" in names["worker_out"]
    assert log(filename=f"worker-{pid}.err", node_id=node) == "oh\n"
    assert state.list_logs(node_id=node, glob_filter=f"*-{pid}.out") == {
        "worker_out": [f"worker-{pid}.out"]
    }


@local_only
def test_what_is_printed_later_is_followed(capfd: pytest.CaptureFixture[str]) -> None:
    talker = Talker.remote()
    skate.get(talker.talk.remote("one"))
    following = state.get_log(actor_id=talker._actor_id.hex(), follow=True, _interval=0.01)
    assert next(following) == "one\n"
    skate.get(talker.talk.remote("two"))
    assert next(following) == "two\n"


@local_only
def test_following_ends_with_the_session(capfd: pytest.CaptureFixture[str]) -> None:
    talker = Talker.remote()
    skate.get(talker.talk.remote("one"))
    following = state.get_log(actor_id=talker._actor_id.hex(), follow=True, _interval=0.01)
    assert next(following) == "one\n"
    skate.get(talker.talk.remote("two"))
    skate.shutdown()
    assert list(following) == ["two\n"]
    assert not skate.is_initialized()


@local_only
def test_the_log_of_an_actor_is_what_its_processes_printed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    @skate.remote(max_restarts=1, max_task_retries=1)
    class Falling:
        def __init__(self) -> None:
            print("begins")

        def pid(self) -> int:
            return os.getpid()

    actor = Falling.remote()
    os.kill(skate.get(actor.pid.remote()), signal.SIGKILL)
    assert skate.get(actor.pid.remote())
    assert "".join(state.get_log(actor_id=actor._actor_id.hex())) == "begins\n" * 2


@local_only
def test_an_actor_that_has_no_process_has_printed_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    @skate.remote
    def speak_below_python() -> None:
        os.write(1, b"hello\n")

    skate.get(speak_below_python.remote())
    eventually(lambda: "workers.out" in str(state.list_logs(node_ip="127.0.0.1")))
    pending = Sleeper.options(num_cpus=skate.cluster_resources()["CPU"]).remote()
    holder = Sleeper.options(num_cpus=skate.cluster_resources()["CPU"]).remote()
    assert {of_actor(pending).pid, of_actor(holder).pid} & {0, None}
    assert list(state.get_log(actor_id=holder._actor_id.hex())) == []
    assert list(state.get_log(actor_id=pending._actor_id.hex())) == []


@local_only
@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "needs one of filename, actor_id, task_id, pid, submission_id; got none"),
        ({"pid": 1, "task_id": "0"}, "got task_id, pid"),
        ({"pid": 1}, "no pid 1"),
        ({"filename": "spam"}, "spam"),
        ({"pid": 1, "suffix": "log"}, '"out" or "err"'),
        ({"pid": 1, "node_id": "spam"}, "the only machine"),
    ],
)
def test_logs_that_there_are_not(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        state.get_log(**asked)


@local_only
def test_jobs_that_there_are_not() -> None:
    with pytest.raises(ValueError, match="spam"):
        state.get_log(submission_id="spam")


@pytest.mark.parametrize("filters", [[("spam", "=", 1)], [("name", "=", "x"), ("spam", "=", 1)]])
@pytest.mark.parametrize("there", [False, True])
def test_filters_by_what_there_is_not(filters: Any, there: bool) -> None:
    actor = Sleeper.options(name="sleeper").remote() if there else None
    with pytest.raises(ValueError, match=r"takes one of .*actor_id.*; got 'spam'"):
        state.list_actors(filters=filters)
    del actor


@local_only
def test_logs_are_of_a_machine() -> None:
    with pytest.raises(ValueError, match="node_id or node_ip"):
        state.list_logs()


@pytest.mark.parametrize("kind", sorted(ROWS_OF))
def test_rows_have_the_columns_of_their_kind(kind: str) -> None:
    actor, group = Sleeper.remote(), placement_group([{"CPU": 1}])
    skate.get([actor.pid.remote(), group.ready()])
    kept = skate.put(1)
    rows = getattr(state, f"list_{kind}")()
    assert all(type(row) is ROWS_OF[kind] and ROWS_OF[kind].columns() <= set(row) for row in rows)
    assert ROWS_OF[kind].base_columns() <= ROWS_OF[kind].columns()
    assert ROWS_OF[kind].filterable_columns() <= ROWS_OF[kind].columns()
    remove_placement_group(group)
    del kept


def test_more_rows_than_an_answer_has_are_refused() -> None:
    assert state.list_tasks(limit=10_000) == []
    with pytest.raises(ValueError, match="at most 10000"):
        state.list_tasks(limit=10_001)


@local_only
def test_the_process_of_an_actor_that_has_ended() -> None:
    actor = Sleeper.remote()
    pid = skate.get(actor.pid.remote())
    skate.kill(actor)
    eventually(lambda: of_actor(actor).state == "DEAD")
    assert of_actor(actor).pid == pid


@local_only
@pytest.mark.parametrize("said", [True, "true", "True", "1", 1])
def test_filters_by_whether(said: object) -> None:
    assert state.list_workers(filters=[("is_alive", "=", said)])[0].worker_type == "DRIVER"
    assert not state.list_workers(filters=[("is_alive", "!=", said)])


@local_only
def test_the_driver_has_an_id_that_is_not_nothing() -> None:
    (driver,) = state.list_workers(filters=[("worker_type", "=", "DRIVER")])
    assert int(driver.worker_id, 16)
    assert driver.worker_id == skate.get_runtime_context().get_worker_id()


@pytest.mark.parametrize("name", [name for name in state.__all__ if name != "StateRow"])
def test_a_wrong_call_names_the_function(name: str) -> None:
    function = getattr(state, name)
    with pytest.raises(TypeError, match=rf"^{name}\(\)"):
        function(unheard_of=1)
