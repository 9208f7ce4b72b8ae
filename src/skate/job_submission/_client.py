"""The client: what programs call to submit jobs, and to look at them."""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from skate._core.optional_imports import ray_is_skate
from skate._core.requirements import TOOLS
from skate._core.runtime_environments import check_possible_here
from skate.job_submission._details import JobDetails, JobStatus
from skate.job_submission._local import LocalJobs
from skate.runtime_env import RuntimeEnv

_ADDRESS = "RAY_API_SERVER_ADDRESS"
_HERE = (None, "", "auto", "local", "inline")
_ANSWER_SECONDS = 5.0
_HOOK = "worker_process_setup_hook"


class JobSubmissionClient:
    """Submits programs as jobs, and looks at them.

    Without an address, jobs run on this machine: each is a command in a shell, with a process
    that watches over it and a folder with its state and its log. No server is needed, and the
    program that submitted a job may end before it. An address of this machine at which no Ray
    cluster answers means the same. With the address of a cluster, Ray's own client is used.
    """

    def __init__(
        self,
        address: str | None = None,
        create_cluster_if_needed: bool = False,
        cookies: dict[str, Any] | None = None,
        metadata: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        verify: str | bool | None = True,
    ) -> None:
        """Make a client.

        Args:
            address: None for this machine, or the address of a Ray cluster's dashboard,
                `"http://host:8265"`. RAY_API_SERVER_ADDRESS goes before it.
            create_cluster_if_needed: For Ray's client; this machine needs none.
            cookies: For requests to a cluster.
            metadata: What is noted with each job, besides what `submit_job` says.
            headers: For requests to a cluster.
            verify: For requests to a cluster: whether certificates are checked, or the file of
                those that are trusted.
        """
        _check_kinds(
            ("address", address, (str, type(None))),
            ("create_cluster_if_needed", create_cluster_if_needed, (bool,)),
            ("cookies", cookies, (dict, type(None))),
            ("metadata", metadata, (dict, type(None))),
            ("headers", headers, (dict, type(None))),
            ("verify", verify, (str, bool)),
        )
        self._address: str | None = os.environ.get(_ADDRESS) or address
        self._metadata: dict[str, Any] = dict(metadata or {})
        self._jobs: LocalJobs = LocalJobs()
        self._of_ray: Any = None
        if not _is_here(self._address):
            self._of_ray = _client_of_ray(
                address=self._address,
                create_cluster_if_needed=create_cluster_if_needed,
                cookies=cookies,
                metadata=metadata,
                headers=headers,
                verify=verify,
            )

    def get_address(self) -> str:
        """Return the address that jobs are submitted to; "local" is this machine."""
        return "local" if self._of_ray is None else str(self._of_ray.get_address())

    def submit_job(
        self,
        *,
        entrypoint: str,
        job_id: str | None = None,
        runtime_env: dict[str, Any] | None = None,
        metadata: dict[str, str] | None = None,
        submission_id: str | None = None,
        entrypoint_num_cpus: float | None = None,
        entrypoint_num_gpus: float | None = None,
        entrypoint_memory: int | None = None,
        entrypoint_resources: dict[str, float] | None = None,
        entrypoint_label_selector: dict[str, str] | None = None,
    ) -> str:
        """Start a job, and return its id at once.

        On this machine the command runs in the directory of the caller, or in `working_dir`
        itself: nothing is copied. `python` is the caller's interpreter, or that of `pip` and the
        like.

        Args:
            entrypoint: The command, for a shell.
            job_id: The former name of `submission_id`.
            runtime_env: The surroundings of the command: `env_vars`, `working_dir`,
                `py_modules`, `pip` ...
            metadata: Strings that are noted with the job.
            submission_id: An id that no other job has; one is made up without it.
            entrypoint_num_cpus: For Ray clusters: what the command reserves there. On this
                machine programs do not share what sessions reserve, and it is noted only; so it
                is with the following four.
            entrypoint_num_gpus: As `entrypoint_num_cpus`.
            entrypoint_memory: As `entrypoint_num_cpus`.
            entrypoint_resources: As `entrypoint_num_cpus`.
            entrypoint_label_selector: As `entrypoint_num_cpus`.

        Raises:
            RuntimeError: If there is a job with this id.
            TypeError: If something is not what it should be.
            ValueError: If there is no command, or the environment cannot be had.
        """
        _check_kinds(
            ("entrypoint", entrypoint, (str,)),
            ("submission_id", submission_id or job_id, (str, type(None))),
            ("runtime_env", runtime_env, (Mapping, type(None))),
        )
        if not entrypoint.strip():
            raise ValueError(f"entrypoint takes a command for a shell; got {entrypoint!r}")
        told = {**(metadata or {}), **self._metadata}
        wrong = [name for pair in told.items() for name in pair if not isinstance(name, str)]
        if wrong:
            raise TypeError(f"metadata takes strings for names and values; got {wrong[0]!r}")
        reserved = {
            "entrypoint_num_cpus": entrypoint_num_cpus,
            "entrypoint_num_gpus": entrypoint_num_gpus,
            "entrypoint_memory": entrypoint_memory,
            "entrypoint_resources": entrypoint_resources,
        }
        if self._of_ray is not None:
            return str(
                self._of_ray.submit_job(
                    entrypoint=entrypoint,
                    runtime_env=runtime_env,
                    metadata=metadata,
                    submission_id=submission_id or job_id,
                    entrypoint_label_selector=entrypoint_label_selector,
                    **reserved,
                )
            )
        return self._jobs.submit(
            submission_id or job_id,
            entrypoint=entrypoint,
            runtime_env=_checked_environment(runtime_env or {}),
            metadata=told,
            **reserved,
        )

    def stop_job(self, job_id: str) -> bool:
        """Ask for the end of a job: SIGTERM for its processes, and after 3 s SIGKILL.

        RAY_JOB_STOP_SIGNAL and RAY_JOB_STOP_WAIT_TIME_S, where the job was submitted, say it
        otherwise.

        Args:
            job_id: The submission id.

        Returns:
            Whether the job was not over.

        Raises:
            RuntimeError: If there is no such job.
        """
        if self._of_ray is not None:
            return bool(self._of_ray.stop_job(job_id))
        return self._jobs.stop(job_id)

    def delete_job(self, job_id: str) -> bool:
        """Delete a job that is over, with its log.

        Args:
            job_id: The submission id.

        Returns:
            True.

        Raises:
            RuntimeError: If there is no such job, or it is not over.
        """
        if self._of_ray is not None:
            return bool(self._of_ray.delete_job(job_id))
        return self._jobs.delete(job_id)

    def get_job_info(self, job_id: str) -> JobDetails:
        """Return what is known of a job.

        Args:
            job_id: The submission id.

        Raises:
            RuntimeError: If there is no such job.
        """
        if self._of_ray is not None:
            return _as_ours(self._of_ray.get_job_info(job_id))
        return self._jobs.details(job_id)

    def get_job_status(self, job_id: str) -> JobStatus:
        """Return where a job is.

        Args:
            job_id: The submission id.

        Raises:
            RuntimeError: If there is no such job.
        """
        return self.get_job_info(job_id).status

    def list_jobs(self) -> list[JobDetails]:
        """Return what is known of all jobs: those that run, and those that are over."""
        if self._of_ray is not None:
            return [_as_ours(details) for details in self._of_ray.list_jobs()]
        return self._jobs.all()

    def get_job_logs(self, job_id: str) -> str:
        """Return what a job has printed so far.

        Args:
            job_id: The submission id.

        Raises:
            RuntimeError: If there is no such job.
        """
        if self._of_ray is not None:
            return str(self._of_ray.get_job_logs(job_id))
        return self._jobs.logs(job_id)

    async def tail_job_logs(self, job_id: str) -> AsyncIterator[str]:
        """Yield what a job prints, from the beginning, until it is over.

        Args:
            job_id: The submission id.

        Raises:
            RuntimeError: If there is no such job.
        """
        jobs = self._jobs.tail if self._of_ray is None else self._of_ray.tail_job_logs
        async for text in jobs(job_id):
            yield text


def _check_kinds(*arguments: tuple[str, object, tuple[type, ...]]) -> None:
    for name, value, kinds in arguments:
        if not isinstance(value, kinds):
            allowed = " or ".join(
                "None" if kind is type(None) else kind.__name__ for kind in kinds
            )
            raise TypeError(
                f"{name} takes {allowed}; got {value!r} of type {type(value).__name__}"
            )


def _checked_environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment as it is written down. Raises for what this machine cannot give."""
    if given.get(_HOOK) is not None:
        raise ValueError(
            f"runtime_env[{_HOOK!r}] is for the workers of a program, and a job of this machine "
            "is a command: give it to init() in the program"
        )
    env = RuntimeEnv(**given)
    check_possible_here(env, installs=True)
    if "working_dir" in env:
        env["working_dir"] = os.path.abspath(str(env["working_dir"]))
    if "py_modules" in env:
        env["py_modules"] = [_place_of(module) for module in env["py_modules"]]
    for tool in TOOLS:  # a file of requirements, or an interpreter, from here
        if isinstance(env.get(tool), str) and os.path.exists(env[tool]):
            env[tool] = os.path.abspath(env[tool])
    return dict(env)


def _place_of(module: Any) -> str:
    paths = getattr(module, "__path__", None) or [getattr(module, "__file__", None) or module]
    return os.path.abspath(str(next(iter(paths))))


def _is_here(address: str | None) -> bool:
    """Return whether the address is this machine, with no cluster's server of jobs behind it."""
    if address in _HERE:
        return True
    parts = urlsplit(address if "://" in str(address) else f"//{address}")
    if not parts.netloc:  # f"http://{context.dashboard_url}", where there is no page
        return True
    try:
        host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
        here = ipaddress.ip_address(host or "").is_loopback
    except ValueError:  # a name
        here = False
    return here and not (parts.scheme.startswith("http") and _is_cluster(str(address)))


def _is_cluster(address: str) -> bool:
    """Return whether the dashboard of a Ray cluster answers there."""
    from urllib.request import ProxyHandler, build_opener

    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(f"{address.rstrip('/')}/api/version", timeout=_ANSWER_SECONDS) as answer:
            return "ray_version" in json.loads(answer.read(10_000))
    except (OSError, ValueError, TypeError):
        return False


def _client_of_ray(**settings: Any) -> Any:
    if ray_is_skate():
        raise ConnectionError(
            f"{settings['address']!r} is not an address of this machine, and in this program "
            "`import ray` means skate, so that Ray's own client is out of reach: run the program "
            "without that, or leave the address out to run jobs on this machine"
        )
    from skate.engine.ray.jobs import client_of_ray

    return client_of_ray(**settings)


def _as_ours(details: Any) -> JobDetails:
    """Return what Ray's client says of a job."""
    plain = details.dict()
    return JobDetails(**{name: plain.get(name) for name in JobDetails.__dataclass_fields__})
