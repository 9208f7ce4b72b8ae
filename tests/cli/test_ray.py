"""`skate ray …`: Ray's own commands, in this process and on the PATH of programs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result

import skate
from skate.cli._ray import ray_group
from skate.util import placement_group, remove_placement_group
from tests.support import run_program

pytestmark = [pytest.mark.usefixtures("engine"), pytest.mark.engines("local")]


@skate.remote
class Talker:
    def talk(self, text: str) -> str:
        print(text)
        print("oh", file=sys.stderr)
        return skate.get_runtime_context().get_task_id() or ""


def ray(*arguments: str) -> Result:
    return CliRunner().invoke(ray_group(click), arguments)


def printed(*arguments: str) -> str:
    result = ray(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_what_there_is_as_a_table_and_for_programs() -> None:
    talker = Talker.options(name="ada").remote()
    skate.get(talker.talk.remote("hello"))
    id = talker._actor_id.hex()
    table = printed("list", "actors")
    assert "Total: 1" in table
    assert "ACTOR_ID" in table
    assert id in table
    (row,) = json.loads(printed("list", "actors", "--format", "json"))
    assert (row["actor_id"], row["name"]) == (id, "ada")
    assert yaml.safe_load(printed("list", "actors", "--detail")) == [row]
    assert yaml.safe_load(printed("get", "actors", id)) == [row]
    assert "not found" in printed("get", "actors", "00")


def test_filters_of_lists() -> None:
    talker = Talker.remote()
    skate.get(talker.talk.remote("hello"))

    def names(*filters: str) -> list[str]:
        flags = [part for one in filters for part in ("-f", one)]
        return [
            row["name"] for row in json.loads(printed("list", "tasks", "--format=json", *flags))
        ]

    assert names("STATE=finished", "type!=ACTOR_CREATION_TASK") == ["Talker.talk"]
    assert names("name=spam") == []
    assert "No resource in the cluster" in printed("list", "tasks", "-f", "name=spam")
    for wrong in ("name", "=spam", "spam=1"):
        result = ray("list", "tasks", "-f", wrong)
        assert (result.exit_code, "Error" in result.output) == (1, True)


@pytest.mark.parametrize("kind", ["nodes", "workers", "objects", "runtime-envs", "cluster-events"])
def test_every_kind_is_listed(kind: str) -> None:
    assert isinstance(json.loads(printed("list", kind, "--format", "json")), list)


def test_groups_and_jobs_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # where nobody has submitted any
    group = placement_group([{"CPU": 1}])
    skate.get(group.ready())
    (row,) = json.loads(printed("list", "placement-groups", "--format", "json"))
    assert (row["placement_group_id"], row["state"]) == (group.id.hex(), "CREATED")
    remove_placement_group(group)
    jobs = json.loads(printed("list", "jobs", "--format", "json"))
    assert [job["status"] for job in jobs if job["type"] == "DRIVER"] == ["RUNNING"]


def test_jobs_need_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    skate.shutdown()
    assert json.loads(printed("list", "jobs", "--format", "json")) == []
    unknown = ray("logs", "job", "--id", "spam")
    assert (unknown.exit_code, unknown.output.count("\n")) == (1, 1)
    assert "spam" in unknown.output
    assert not skate.is_initialized()


def test_summaries() -> None:
    talker = Talker.remote()
    skate.get([talker.talk.remote(str(number)) for number in range(3)])
    tasks = printed("summary", "tasks")
    assert "total_actor_tasks: 3" in tasks
    assert "Talker.talk" in tasks
    assert "total_actors: 1" in printed("summary", "actors")
    assert "total_objects: 1" in printed("summary", "objects")


def test_logs_by_actor_task_process_and_name() -> None:
    talker = Talker.remote()
    task = skate.get(talker.talk.remote("hello"))
    (row,) = json.loads(printed("list", "actors", "--format", "json"))
    pid, name = str(row["pid"]), f"worker-{row['pid']}.out"
    assert name in printed("logs")
    assert printed("logs", "actor", "--id", row["actor_id"]) == "hello\n"
    assert printed("logs", "actor", "--id", row["actor_id"], "--err") == "oh\n"
    assert printed("logs", "worker", "--pid", pid) == "hello\n"
    assert printed("logs", "task", "--id", task) == "hello\n"
    assert printed("logs", name) == printed("logs", "cluster", "*.out") == "hello\n"
    assert ray("logs", "actor", "--id", "00").exit_code == 1


def test_nothing_is_started_or_stopped() -> None:
    started = printed("start", "--head", "--port=6379", "--num-cpus", "2")
    assert "Nothing to start" in started
    assert started.partition("--address='")[2].partition("'")[0] == "auto"
    assert "Nothing to stop" in printed("stop", "--force")
    joins = ray("start", "--address=192.0.2.1:6379")
    assert (joins.exit_code, "192.0.2.1:6379" in joins.output) == (1, True)
    assert skate.is_initialized()


def test_nothing_can_be_ill_and_nothing_is_gathered() -> None:
    assert "Healthy" in printed("health-check", "--address", "127.0.0.1:6379")
    assert ray("health-check", "--component", "ray_client_server").exit_code == 1
    for name in ("disable-usage-stats", "enable-usage-stats"):
        assert "no statistics" in printed(name)


def test_options_that_change_nothing_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))  # where nobody has submitted any
    kept = skate.put(bytes(1_000_000))
    here = ("--session", str(os.getpid()), "--json")
    options = ("--stats-only", "--no-format", "--units=MB", "--sort-by=PID", "--n", "1")
    (row,) = json.loads(printed("memory", *here, "--group-by", "NODE_ADDRESS", *options))
    assert row["object_id"] == kept.hex()
    assert "no jobs" in printed("job", "list", "-v", "--log-style", "record", "--log-color=false")


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (("--address", "127.0.0.1:6379", "--", "--"), "No such file"),
        (("--address", "127.0.0.1:6379"), "behind `--`"),
        (("--address", "127.0.0.1:6379", "--min-nodes", "2", "--", "true"), "needs Ray itself"),
        (("--address", "192.0.2.1:6379", "--", "true"), "needs Ray itself"),
        (("--address", "127.0.0.1:6379", "--resources", "four", "--", "true"), "Error"),
    ],
)
def test_a_symmetric_run_that_cannot_be(
    arguments: tuple[str, ...], cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skate.cli._ray_cluster.install_as_ray", lambda: None)
    result = ray("symmetric-run", *arguments)
    assert (result.exit_code, cause in result.output) == (1, True), result.output


DESCRIBED = """
import sys, ray
ray.init(address="auto")
has = ray.cluster_resources()
print(has["CPU"], has["lift"], sys.argv[1:])
sys.exit(3)
"""


def test_a_symmetric_run_has_the_machine_that_was_described(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(DESCRIBED)
    described = ["--num-cpus", "3", "--resources", '{"lift": 2}', "--port-of-ray=1"]
    command = ["ray", "symmetric-run", "--address", "127.0.0.1:6379", *described]
    started = [sys.executable, str(program), "--num-cpus", "--", "x"]
    ended = run_program([sys.executable, "-m", "skate", *command, "--", *started])
    assert ended.stdout.split("\n")[0] == "3.0 2.0 ['--num-cpus', '--', 'x']", ended.stderr
    assert ended.returncode == 3


PROGRAM = """
import json, os, shutil, subprocess, sys
import ray

ray.init(num_cpus=1)

@ray.remote
class Actor:
    def ready(self):
        return 1

actor = Actor.remote()
ray.get(actor.ready.remote())

def command(*arguments):
    return subprocess.run(["ray", *arguments], capture_output=True, text=True, check=True).stdout

os.chdir(sys.argv[1])
assert command("--version").split()[-1] == ray.__version__
(row,) = json.loads(command("list", "actors", "--format", "json"))
assert row["actor_id"] == actor._actor_id.hex(), row
assert str(os.getpid()) in command("status")
assert "total_actors: 1" in command("summary", "actors")
(node,) = json.loads(command("list", "nodes", "--format", "json"))
assert node["node_id"] == ray.get_runtime_context().get_node_id()
tune = subprocess.run(["tune", "--help"], capture_output=True, text=True, check=True).stdout
assert "list-experiments" in tune
import skate.compat.ray
folder = os.path.dirname(shutil.which("ray"))
skate.compat.ray.uninstall()
assert folder not in os.environ["PATH"].split(os.pathsep)
"""


def test_programs_find_it_on_their_path_and_it_asks_their_session(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("skate", "click"):
        (elsewhere / f"{name}.py").write_text("raise SystemExit('imported from where it runs')")
    command = [sys.executable, "-m", "skate", "run", "--as-ray", str(program), str(elsewhere)]
    run_program(command, check=True)


def test_timelines_have_names_that_nobody_can_foresee(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skate.cli._ray.session_above", os.getpid)  # of several on this machine
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("time.strftime", lambda form: "now")
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "ray-timeline-now.json").symlink_to(precious)
    skate.get(skate.remote(abs).remote(-1))
    place, _, _ = printed("timeline").rpartition(": ")
    assert precious.read_text() == "precious"
    assert [event for event in json.loads(Path(place).read_text()) if event["ph"] == "X"]
    assert Path(place).stat().st_mode & 0o777 == 0o600
