"""Jobs of this machine: commands that run by themselves, and what is told of them."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skate.cli import main
from skate.job_submission import JobDetails, JobInfo, JobStatus, JobSubmissionClient, JobType
from skate.job_submission._folders import JobFolder
from tests.support import PATIENCE, Program, eventually, run_program


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("RAY_API_SERVER_ADDRESS", raising=False)
    return tmp_path / "state" / "skate" / "jobs"


@pytest.fixture
def client() -> JobSubmissionClient:
    return JobSubmissionClient()


def ended(client: JobSubmissionClient, job: str) -> JobDetails:
    eventually(lambda: client.get_job_status(job).is_terminal())
    return client.get_job_info(job)


def python(code: str) -> str:
    return f"python -c {shlex.quote(code)}"


def until(path: Path) -> str:
    """A command that waits for a file."""
    return f"while ! test -e {shlex.quote(str(path))}; do sleep 0.05; done"


def test_a_job_runs_in_its_environment_and_leaves_its_log(
    client: JobSubmissionClient, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "part.py").write_text("WORD = 'imported'")
    code = "import os, part, sys; print(part.WORD, os.environ['WORD'], os.getcwd(), sys.prefix)"
    environment = {"working_dir": str(tmp_path / "project"), "env_vars": {"WORD": "given"}}
    job = client.submit_job(
        entrypoint=f"echo first; {python(code)}", runtime_env=environment, metadata={"a": "b"}
    )
    details = ended(client, job)
    assert details.status is JobStatus.SUCCEEDED, details.message
    assert (details.type, details.submission_id) == (JobType.SUBMISSION, job)
    assert (details.metadata, details.runtime_env) == ({"a": "b"}, environment)
    assert details.driver_exit_code == 0
    assert details.start_time is not None
    assert details.end_time is not None
    assert details.start_time <= details.end_time
    line = f"imported given {tmp_path / 'project'} {sys.prefix}\n"
    assert client.get_job_logs(job) == f"first\n{line}"


def test_the_log_is_told_while_the_job_runs(client: JobSubmissionClient, tmp_path: Path) -> None:
    job = client.submit_job(entrypoint=f"echo one; {until(tmp_path / 'go')}; echo two")
    told = []

    async def tail() -> None:
        async for text in client.tail_job_logs(job):
            told.append(text)
            (tmp_path / "go").touch()  # the second line is printed after the first was told

    asyncio.run(asyncio.wait_for(tail(), 60))
    assert "".join(told) == "one\ntwo\n" == client.get_job_logs(job)
    assert client.get_job_status(job) == "SUCCEEDED"


def test_a_job_that_fails_says_how(client: JobSubmissionClient) -> None:
    details = ended(client, client.submit_job(entrypoint="echo wrong >&2; exit 3"))
    assert (details.status, details.driver_exit_code) == (JobStatus.FAILED, 3)
    assert details.error_type == "JOB_ENTRYPOINT_COMMAND_ERROR"
    assert details.message is not None
    assert "exit code 3" in details.message
    assert "wrong" in details.message


def test_a_job_is_stopped_with_what_it_has_started(
    client: JobSubmissionClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_JOB_STOP_WAIT_TIME_S", "0.1")
    inner = f"trap '' TERM; touch {tmp_path}/up; {until(tmp_path / 'never')}"
    job = client.submit_job(
        entrypoint=f"sh -c {shlex.quote(inner)} & wait", submission_id="one/two three"
    )
    eventually((tmp_path / "up").exists)
    with pytest.raises(RuntimeError, match="stop it first"):
        client.delete_job(job)
    assert client.stop_job(job)
    details = ended(client, job)
    assert (job, details.status) == ("one/two three", JobStatus.STOPPED)
    assert details.driver_info is not None
    group = int(details.driver_info.pid)
    eventually(lambda: not group_lives(group))
    assert not client.stop_job(job)


def group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_jobs_are_listed_and_deleted(client: JobSubmissionClient, own_state: Path) -> None:
    jobs = [client.submit_job(entrypoint="true"), client.submit_job(entrypoint="true")]
    for job in jobs:
        ended(client, job)
    with pytest.raises(RuntimeError, match="already exists"):
        client.submit_job(entrypoint="true", submission_id=jobs[0])
    assert [details.submission_id for details in client.list_jobs()] == jobs
    assert client.delete_job(jobs[0])
    assert [details.submission_id for details in client.list_jobs()] == jobs[1:]
    assert len([*own_state.iterdir()]) == 1
    for ask in (client.get_job_status, client.get_job_logs, client.stop_job, client.delete_job):
        with pytest.raises(RuntimeError, match="does not exist"):
            ask(jobs[0])


def test_a_job_goes_on_when_its_submitter_is_killed(
    client: JobSubmissionClient, tmp_path: Path
) -> None:
    entrypoint = f"{until(tmp_path / 'go')}; echo done"
    code = (
        "import os, signal; from skate.job_submission import JobSubmissionClient\n"
        f"JobSubmissionClient().submit_job(entrypoint={entrypoint!r}, submission_id='left')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert run_program([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    eventually(lambda: client.get_job_status("left") == JobStatus.RUNNING)
    (tmp_path / "go").touch()
    assert ended(client, "left").status is JobStatus.SUCCEEDED
    assert client.get_job_logs("left") == "done\n"


def test_a_job_whose_supervisor_is_killed_has_failed_and_is_gone(
    client: JobSubmissionClient, tmp_path: Path
) -> None:
    job = client.submit_job(
        entrypoint=f"echo $PPID > {tmp_path}/draft; mv {tmp_path}/draft {tmp_path}/parent; "
        + until(tmp_path / "never")
    )
    eventually((tmp_path / "parent").exists)
    eventually(lambda: client.get_job_status(job) == JobStatus.RUNNING)
    os.kill(int((tmp_path / "parent").read_text()), signal.SIGKILL)
    details = ended(client, job)
    assert details.status is JobStatus.FAILED
    assert details.error_type == "JOB_SUPERVISOR_ACTOR_DIED"
    assert details.driver_info is not None
    group = int(details.driver_info.pid)
    eventually(lambda: not group_lives(group))


def test_a_draft_is_no_job(client: JobSubmissionClient, own_state: Path) -> None:
    """What a submitter leaves that was killed before its job was complete."""
    assert client.list_jobs() == []
    (own_state / "#0011223344556677").mkdir()
    assert client.list_jobs() == []


def test_modules_and_archives_are_there(client: JobSubmissionClient, tmp_path: Path) -> None:
    """What workers of a session would have, the command has."""
    import zipfile

    with zipfile.ZipFile(tmp_path / "project.zip", "w") as archive:
        archive.writestr("inside.txt", "from the archive")
    (tmp_path / "more" / "helper").mkdir(parents=True)
    (tmp_path / "more" / "helper" / "__init__.py").write_text("WORD = 'helped'")
    job = client.submit_job(
        entrypoint=python("import helper; print(helper.WORD, open('inside.txt').read())"),
        runtime_env={
            "working_dir": str(tmp_path / "project.zip"),
            "py_modules": [str(tmp_path / "more" / "helper")],
        },
    )
    details = ended(client, job)
    assert details.status is JobStatus.SUCCEEDED, details.message
    assert client.get_job_logs(job) == "helped from the archive\n"


def test_an_environment_that_cannot_be_made_fails_the_job(
    client: JobSubmissionClient, tmp_path: Path
) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    job = client.submit_job(entrypoint="true", runtime_env={"py_executable": str(other)})
    details = ended(client, job)
    assert details.status is JobStatus.FAILED
    assert details.error_type == "RUNTIME_ENV_SETUP_FAILURE"
    assert "runtime_env setup failed" in (details.message or "")


def test_the_folder_above_is_closed_to_others_too(
    client: JobSubmissionClient, own_state: Path
) -> None:
    assert client.list_jobs() == []
    assert own_state.parent.stat().st_mode & 0o777 == 0o700


def test_what_is_refused(client: JobSubmissionClient, own_state: Path) -> None:
    wrong: list[tuple[str, Any]] = [("address", 1), ("metadata", "x"), ("headers", [])]
    for name, value in wrong:
        with pytest.raises(TypeError, match=f"{name} takes"):
            JobSubmissionClient(**{name: value})
    with pytest.raises(TypeError, match="metadata takes strings"):
        client.submit_job(entrypoint="true", metadata={"a": 1})  # type: ignore[dict-item]
    for nothing in ("", " \n"):
        with pytest.raises(ValueError, match="entrypoint takes a command"):
            client.submit_job(entrypoint=nothing)
    with pytest.raises(ValueError, match="not a directory"):
        client.submit_job(entrypoint="true", runtime_env={"working_dir": "no such place"})
    with pytest.raises(ValueError, match=r"init\(\) in the program"):
        client.submit_job(entrypoint="true", runtime_env={"worker_process_setup_hook": "a.b"})
    with pytest.raises(ValueError, match="submission id"):
        client.submit_job(entrypoint="true", submission_id="..")
    assert client.list_jobs() == []
    own_state.chmod(0o755)
    with pytest.raises(PermissionError, match="open to others"):
        client.list_jobs()


def test_an_address_of_this_machine_without_a_cluster_is_this_machine() -> None:
    for address in ("http://127.0.0.1:9", "localhost:9", "ray://127.0.0.1:10001", "auto"):
        assert JobSubmissionClient(address).get_address() == "local"


def test_an_address_elsewhere_needs_ray_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKATE_AS_RAY", "1")
    with pytest.raises(ConnectionError, match="means skate"):
        JobSubmissionClient("http://192.0.2.1:8265")


def test_what_is_known_can_be_written_as_json() -> None:
    info = JobInfo(status=JobStatus.FAILED, entrypoint="x", runtime_env={"env_vars": {"a": "b"}})
    assert info.message == "The job failed."
    assert JobInfo.from_json(json.loads(json.dumps(info.to_json()))) == info


def refuse_submission(entrypoint: tuple[str, ...], job_id: str, **given: object) -> None:
    print("not", f"{job_id}:", *entrypoint)
    sys.exit(3)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    def said(*arguments: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as end:
            main(["job", *arguments])
        assert (end.value.code or 0) == code
        return capsys.readouterr().out

    given = ("--submission-id", "mine", "--runtime-env-json", '{"env_vars": {"A": "b c"}}')
    out = said("submit", *given, "--", "sh", "-c", "echo $A")
    assert "b c\n" in out
    assert "Job 'mine' succeeded" in out
    assert "Job 'wrong' failed" in said("submit", "--submission-id", "wrong", "false", code=1)
    rows = json.loads(said("list", "--json"))
    assert [(row["job"], row["status"]) for row in rows] == [
        ("mine", "SUCCEEDED"),
        ("wrong", "FAILED"),
    ]
    assert said("logs", "mine") == "b c\n"
    assert said("status", "mine") == said("stop", "mine") == "Job 'mine' succeeded\n"
    assert said("delete", "mine") == "Job 'mine' deleted successfully\n"
    assert said("status", "mine", code=1) == ""


@pytest.mark.parametrize("command", ["submit", "logs"])
def test_control_c_ends_the_printing_and_not_the_job(
    client: JobSubmissionClient, tmp_path: Path, command: str
) -> None:
    entrypoint = f"echo begun; {until(tmp_path / 'go')}"
    if command == "submit":
        given = ["submit", "--submission-id", "mine", "--", "sh", "-c", entrypoint]
    else:
        given = [
            "logs",
            "--follow",
            client.submit_job(entrypoint=entrypoint, submission_id="mine"),
        ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Program([sys.executable, "-m", "skate", "job", *given], **pipes) as program:
        assert program.stdout is not None
        assert any(line == "begun\n" for line in program.stdout)
        os.killpg(program.pid, signal.SIGINT)
        out, errors = program.communicate(timeout=PATIENCE)
    goes_on = "Job 'mine' goes on: skate job logs --follow mine, skate job stop mine"
    assert (out.strip(), errors) == (goes_on, "")
    assert program.returncode == 128 + signal.SIGINT
    (tmp_path / "go").touch()
    assert ended(client, "mine").status == JobStatus.SUCCEEDED


def test_options_of_the_command_that_ray_has(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(*arguments: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as end:
            main(["job", *arguments])
        assert (end.value.code or 0) == code
        out, err = capsys.readouterr()
        return out + err

    needs = ["--entrypoint-num-cpus=1", "--entrypoint-memory=4", "--entrypoint-num-gpus=0"]
    needs += ["--entrypoint-resources", '{"red": 1}', "--entrypoint-label-selector", '{"a": "b"}']
    where = ["--headers", '{"a": "b"}', "--verify", "true"]
    out = said("submit", *needs, *where, "--job-id", "mine", "--", "echo", "hello")
    assert "Tailing logs until the job exits" in out
    assert "hello\n" in out
    assert "takes JSON" in said("submit", "--headers", "{a}", "--", "true", code=1)
    with monkeypatch.context() as changed:
        changed.setenv("RAY_JOB_HEADERS", "{b}")
        assert "RAY_JOB_HEADERS takes JSON; got '{b}'" in said("submit", "--", "true", code=1)
    with monkeypatch.context() as changed:
        changed.setenv("RAY_JOB_SUBMIT_HOOK", f"{__name__}.refuse_submission")
        out = said("submit", "--job-id", "mine", "--", "echo", "hello", code=3)
        assert out == "not mine: echo hello\n"
        changed.setenv("RAY_JOB_SUBMIT_HOOK", "no.such.hook")
        assert "names no function: 'no.such.hook'" in said("submit", "--", "true", code=1)
    assert "deleted successfully" in said("delete", "mine", *where)
    said("submit", "--no-wait", "--submission-id", "long", "--", "sleep", "1000")
    assert "non-terminal state" in said("delete", "long", code=1)
    out = said("stop", "long")
    assert "Waiting for job 'long'" in out
    assert "Job 'long' was stopped" in out


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"pid": 1}', '{"status": "X"}'])
def test_a_damaged_state_hides_no_other_job_and_can_be_deleted(
    client: JobSubmissionClient, own_state: Path, text: str
) -> None:
    for name in ("whole", "damaged"):
        ended(client, client.submit_job(entrypoint="true", submission_id=name))
    state = own_state / "damaged" / "job.json"
    state.write_text(text)
    found = {one.submission_id: one for one in client.list_jobs()}
    assert {name: one.status.value for name, one in found.items()} == {
        "whole": "SUCCEEDED",
        "damaged": "FAILED",
    }
    assert str(state) in str(found["damaged"].message)
    assert client.delete_job("damaged")
    assert [one.submission_id for one in client.list_jobs()] == ["whole"]


def test_a_submission_without_room_on_the_disk_leaves_nothing(
    client: JobSubmissionClient, own_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(JobFolder, "write", full)
    with pytest.raises(OSError, match="No space left"):
        client.submit_job(entrypoint="true")
    assert list(own_state.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next_submission(
    client: JobSubmissionClient, own_state: Path
) -> None:
    ended(client, client.submit_job(entrypoint="true", submission_id="first"))
    left, being_made = own_state / "#left", own_state / "#being-made"
    for folder in (left, being_made):
        folder.mkdir()
        (folder / "lock").touch()
    os.utime(left, (0, 0))
    ended(client, client.submit_job(entrypoint="true", submission_id="second"))
    names = {folder.name for folder in own_state.iterdir()}
    assert names == {"first", "second", "#being-made"}


def test_a_job_that_is_deleted_while_it_is_looked_at_does_not_exist(
    client: JobSubmissionClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = client.submit_job(entrypoint="true")
    ended(client, job)
    read = JobFolder.read

    def late(folder: JobFolder) -> Any:
        if os.path.isdir(folder.path):
            folder.remove()
        return read(folder)

    monkeypatch.setattr(JobFolder, "read", late)
    with pytest.raises(RuntimeError, match="does not exist"):
        client.get_job_info(job)
