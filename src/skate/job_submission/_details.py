"""What is known of a job."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class JobStatus(str, Enum):
    """Where a job is: before its entrypoint runs, while it does, or how it ended."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    def __str__(self) -> str:
        return self.value

    def is_terminal(self) -> bool:
        """Return whether the job is over."""
        return self in (JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED)


class JobErrorType(str, Enum):
    """What made a job fail. Those of a supervisor's start are for jobs of Ray clusters."""

    RUNTIME_ENV_SETUP_FAILURE = "RUNTIME_ENV_SETUP_FAILURE"
    JOB_SUPERVISOR_ACTOR_START_TIMEOUT = "JOB_SUPERVISOR_ACTOR_START_TIMEOUT"
    JOB_SUPERVISOR_ACTOR_START_FAILURE = "JOB_SUPERVISOR_ACTOR_START_FAILURE"
    JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE = "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE"
    JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE = "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE"
    JOB_SUPERVISOR_ACTOR_DIED = "JOB_SUPERVISOR_ACTOR_DIED"
    JOB_ENTRYPOINT_COMMAND_START_ERROR = "JOB_ENTRYPOINT_COMMAND_START_ERROR"
    JOB_ENTRYPOINT_COMMAND_ERROR = "JOB_ENTRYPOINT_COMMAND_ERROR"


class JobType(str, Enum):
    """How a job came about: submitted, or as a program that was started by hand."""

    SUBMISSION = "SUBMISSION"
    DRIVER = "DRIVER"


_MESSAGES = {
    JobStatus.PENDING: "The job waits for its environment, and to be started.",
    JobStatus.RUNNING: "The job is running.",
    JobStatus.STOPPED: "The job was stopped.",
    JobStatus.SUCCEEDED: "The job finished successfully.",
    JobStatus.FAILED: "The job failed.",
}


@dataclass
class JobInfo:
    """The state of a job, and what it was submitted with. Times are milliseconds since 1970.

    Attributes:
        status: Where it is.
        entrypoint: Its command.
        message: What there is to say of its status.
        error_type: What made it fail.
        start_time: When it began.
        end_time: When it was over.
        metadata: What was noted with it.
        runtime_env: The environment that its command runs in.
        entrypoint_num_cpus: How many CPUs its command needs.
        entrypoint_num_gpus: How many GPUs its command needs.
        entrypoint_memory: How many bytes of memory its command needs.
        entrypoint_resources: What else its command needs.
        driver_agent_http_address: Where a cluster's agent answers; None here.
        driver_node_id: The machine of a cluster that it runs on; None here.
        driver_exit_code: The exit code of its command.
    """

    status: JobStatus
    entrypoint: str
    message: str | None = None
    error_type: JobErrorType | None = None
    start_time: int | None = None
    end_time: int | None = None
    metadata: dict[str, str] | None = None
    runtime_env: dict[str, Any] | None = None
    entrypoint_num_cpus: float | None = None
    entrypoint_num_gpus: float | None = None
    entrypoint_memory: int | None = None
    entrypoint_resources: dict[str, float] | None = None
    driver_agent_http_address: str | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None

    def __post_init__(self) -> None:
        self.status = JobStatus(self.status)
        if self.message is None:
            self.message = _MESSAGES[self.status]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON has it: with plain strings, and the environment as `runtime_env_json`.

        Raises:
            TypeError: If something in it is not for JSON.
        """
        plain = asdict(self)
        environment = plain.pop("runtime_env")
        plain["status"] = self.status.value
        plain["error_type"] = self.error_type.value if self.error_type else None
        if environment is not None:
            plain["runtime_env_json"] = json.dumps(environment)
        json.dumps(plain)
        return plain

    @classmethod
    def from_json(cls, json_dict: dict[str, Any]) -> JobInfo:
        """Return what `to_json` was called for.

        Args:
            json_dict: What it has returned.
        """
        plain = dict(json_dict)
        environment = plain.pop("runtime_env_json", None)
        error = plain.pop("error_type", None)
        return cls(
            **plain,
            error_type=JobErrorType(error) if error else None,
            runtime_env=json.loads(environment) if environment is not None else None,
        )


@dataclass
class DriverInfo:
    """The process that runs the entrypoint.

    Attributes:
        id: The job's id.
        node_ip_address: The machine.
        pid: The process.
    """

    id: str
    node_ip_address: str
    pid: str


@dataclass
class JobDetails:
    """A job as `get_job_info` and `list_jobs` tell it. Times are milliseconds since 1970.

    Attributes:
        type: Whether it was submitted, or started by hand.
        status: Where it is.
        entrypoint: Its command.
        job_id: None for jobs of this machine: their programs have sessions of their own.
        submission_id: The id by which it was submitted.
        driver_info: The process that runs its command.
        message: What there is to say of its status.
        error_type: What made it fail.
        start_time: When it began.
        end_time: When it was over.
        metadata: What was noted with it.
        runtime_env: The environment that its command runs in.
        driver_agent_http_address: Where a cluster's agent answers; None here.
        driver_node_id: The machine of a cluster that it runs on; None here.
        driver_exit_code: The exit code of its command.
    """

    type: JobType
    status: JobStatus
    entrypoint: str
    job_id: str | None = None
    submission_id: str | None = None
    driver_info: DriverInfo | None = None
    message: str | None = None
    error_type: str | None = None
    start_time: int | None = None
    end_time: int | None = None
    metadata: dict[str, str] | None = None
    runtime_env: dict[str, Any] | None = None
    driver_agent_http_address: str | None = None
    driver_node_id: str | None = None
    driver_exit_code: int | None = None

    def __post_init__(self) -> None:
        self.type = JobType(self.type)
        self.status = JobStatus(self.status)
        if isinstance(self.driver_info, dict):
            self.driver_info = DriverInfo(**self.driver_info)
