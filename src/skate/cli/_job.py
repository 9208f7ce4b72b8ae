"""`skate job …`: programs that run by themselves, on this machine or on a Ray cluster."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skate.cli._tables import USUAL_MISTAKES, commands_of, json_option, show_rows, told

if TYPE_CHECKING:
    from skate.job_submission import JobDetails, JobSubmissionClient

_MISTAKES = (*USUAL_MISTAKES, RuntimeError)
_HEADERS = "RAY_JOB_HEADERS"
_HOOK = "RAY_JOB_SUBMIT_HOOK"
_LOOK_SECONDS = 0.1
_INTERRUPTED = 128 + signal.SIGINT  # the exit code by which shells know it


def job_group(click: ModuleType) -> Any:
    """Return the group of commands."""
    where = (
        click.Option(["--address"], help="The dashboard of a Ray cluster; else this machine."),
        click.Option(["--headers"], help="Of requests to a cluster, as JSON."),
        click.Option(["--verify"], help="Whether its certificate is checked, or by which file."),
    )
    job = click.Argument(["job_id"])
    no_wait = click.Option(["--no-wait"], is_flag=True, help="Do not wait until the job is over.")
    follow = click.Option(["-f", "--follow"], is_flag=True, help="Until the job is over.")
    rows = (
        ("status", "Say where a job is.", _status, (job, *where)),
        ("logs", "Print what a job has printed.", _logs, (job, follow, *where)),
        ("stop", "End a job.", _stop, (job, no_wait, *where)),
        ("delete", "Delete a job that is over, with its log.", _delete, (job, *where)),
        ("list", "List all jobs.", _list, (json_option(click), *where)),
    )
    commands = [_submit_command(click, where, no_wait), *commands_of(click, rows, _MISTAKES)]
    text = "Run programs by themselves: a job goes on when the terminal is closed."
    return click.Group("job", help=text, commands=commands)


def _submit_command(click: ModuleType, where: Sequence[Any], no_wait: Any) -> Any:
    strings = (
        ("--submission-id", "An id that no other job has."),
        ("--job-id", "The former name of --submission-id."),
        ("--runtime-env", "A YAML file with the surroundings of the command."),
        ("--runtime-env-json", "The surroundings as JSON."),
        ("--working-dir", "The directory that it runs in."),
        ("--metadata-json", "What to note with the job, as JSON."),
        ("--entrypoint-resources", "On a cluster: what the command needs, as JSON."),
        ("--entrypoint-label-selector", "On a cluster: where it may run, as JSON."),
    )
    numbers = (("num-cpus", float), ("num-gpus", float), ("memory", int))
    options = [click.Option([name], help=text) for name, text in strings]
    options += [
        click.Option([f"--entrypoint-{name}"], type=kind, help="On a cluster: what it needs.")
        for name, kind in numbers
    ]
    entrypoint = click.Argument(["entrypoint"], nargs=-1, required=True, type=click.UNPROCESSED)
    return click.Command(
        "submit",
        help="Run a command as a job: skate job submit -- python train.py --epochs 3",
        callback=told(click, _submit, _MISTAKES),
        params=[*options, *where, no_wait, entrypoint],
        # Behind the first word of the command, options are the command's own.
        context_settings={"allow_interspersed_args": False},
    )


def _client(address: str | None, headers: str | None, verify: str | None) -> JobSubmissionClient:
    from skate.job_submission import JobSubmissionClient

    truths = {"true": True, "false": False}
    checked = truths.get(verify.lower(), verify) if verify is not None else True
    name = "--headers"
    if headers is None and _HEADERS in os.environ:
        name, headers = _HEADERS, os.environ[_HEADERS]
    return JobSubmissionClient(address, headers=_object_of(name, headers) or None, verify=checked)


def _submit(
    entrypoint: tuple[str, ...],
    no_wait: bool,
    metadata_json: str | None,
    entrypoint_resources: str | None,
    entrypoint_label_selector: str | None,
    **more: Any,
) -> None:
    if _HOOK in os.environ:
        _call_hook(
            entrypoint=entrypoint,
            no_wait=no_wait,
            metadata_json=metadata_json,
            entrypoint_resources=entrypoint_resources,
            entrypoint_label_selector=entrypoint_label_selector,
            **more,
        )
    client = _client(**{name: more.pop(name) for name in ("address", "headers", "verify")})
    said = ("runtime_env", "runtime_env_json", "working_dir")
    job = client.submit_job(
        entrypoint=shlex.join(entrypoint),
        runtime_env=_environment_of(**{name: more.pop(name) for name in said}),
        metadata=_object_of("--metadata-json", metadata_json),
        entrypoint_resources=_object_of("--entrypoint-resources", entrypoint_resources) or None,
        entrypoint_label_selector=_object_of(
            "--entrypoint-label-selector", entrypoint_label_selector
        )
        or None,
        **more,
    )
    print(f"Job {job!r} submitted successfully", flush=True)
    if no_wait:
        print(f"skate job status {job}\nskate job logs --follow {job}\nskate job stop {job}")
        return
    print("Tailing logs until the job exits; with --no-wait it goes on alone", flush=True)
    _follow(client, job)
    details = client.get_job_info(job)
    _say(details)
    if details.status == "FAILED":
        sys.exit(1)


def _call_hook(headers: object, verify: object, **given: Any) -> None:
    """Tell a function of the user's of a command before it is submitted; it may end this one."""
    path = os.environ[_HOOK]
    module, _, name = path.replace(":", ".").rpartition(".")
    try:
        hook = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{_HOOK} names no function: {path!r}: {error}") from None
    given["job_id"] = given["submission_id"] = given["submission_id"] or given["job_id"]
    hook(**given)


def _environment_of(
    runtime_env: str | None, runtime_env_json: str | None, working_dir: str | None
) -> dict[str, Any]:
    if runtime_env is not None and runtime_env_json is not None:
        raise ValueError("--runtime-env and --runtime-env-json say the same: give one of them")
    environment = _object_of("--runtime-env-json", runtime_env_json)
    if runtime_env is not None:
        from skate._core.optional_imports import try_import

        with open(runtime_env) as file:
            environment = try_import("yaml", "serve").safe_load(file) or {}
        if not isinstance(environment, dict):
            raise ValueError(f"{runtime_env} has no dictionary in it")
    return {**environment, **({"working_dir": working_dir} if working_dir else {})}


def _object_of(option: str, text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text) if text is not None else {}
    except ValueError as error:
        raise ValueError(f"{option} takes JSON; got {text!r}: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{option} takes an object in JSON; got {text!r}")
    return found


def _follow(client: JobSubmissionClient, job: str) -> None:
    """Print the log until the job is over; Ctrl-C ends only the printing."""
    try:
        asyncio.run(_print_log(client, job))
    except KeyboardInterrupt:
        print(
            f"\nJob {job!r} goes on: skate job logs --follow {job}, skate job stop {job}",
            flush=True,
        )
        sys.exit(_INTERRUPTED)


async def _print_log(client: JobSubmissionClient, job: str) -> None:
    async for text in client.tail_job_logs(job):
        print(text, end="", flush=True)


def _say(details: JobDetails) -> None:
    name, status = details.submission_id, details.status
    words = {"SUCCEEDED": "succeeded", "FAILED": "failed", "STOPPED": "was stopped"}
    print(f"Job {name!r} {words.get(status.value, f'is {status}')}")
    if status == "FAILED":
        print(details.message)


def _status(job_id: str, **where: str | None) -> None:
    _say(_client(**where).get_job_info(job_id))


def _logs(job_id: str, follow: bool, **where: str | None) -> None:
    client = _client(**where)
    if follow:
        _follow(client, job_id)
        _say(client.get_job_info(job_id))
    else:
        print(client.get_job_logs(job_id), end="")


def _stop(job_id: str, no_wait: bool, **where: str | None) -> None:
    client = _client(**where)
    runs = client.stop_job(job_id)
    if no_wait:
        print(f"Job {job_id!r} is being stopped")
        return
    if runs:
        print(f"Waiting for job {job_id!r} to exit", flush=True)
    while not client.get_job_status(job_id).is_terminal():
        time.sleep(_LOOK_SECONDS)
    _say(client.get_job_info(job_id))


def _delete(job_id: str, **where: str | None) -> None:
    _client(**where).delete_job(job_id)
    print(f"Job {job_id!r} deleted successfully")


def _list(as_json: bool, **where: str | None) -> None:
    rows = [
        {
            "job": details.submission_id,
            "status": details.status.value,
            "started": _moment(details.start_time),
            "ended": _moment(details.end_time),
            "exit code": details.driver_exit_code,
            "entrypoint": details.entrypoint,
        }
        for details in _client(**where).list_jobs()
    ]
    show_rows(rows, as_json, "no jobs")


def _moment(milliseconds: int | None) -> str | None:
    if milliseconds is None:
        return None
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000))
