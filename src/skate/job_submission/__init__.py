"""Programs that run by themselves: submit one, look at it, read its log, stop it.

    client = JobSubmissionClient()
    job = client.submit_job(entrypoint="python train.py", runtime_env={"working_dir": "project"})
    client.get_job_status(job), client.get_job_logs(job)

    submitter ─► supervisor, a process of its own ─► the entrypoint, in a shell
                   │ job.json: its state              │ output.log: what it prints
                   ▼                                  ▼
                 $XDG_STATE_HOME/skate/jobs/<submission id>/  ◄── whoever asks, now or later

There is no server: a job goes on when the program that submitted it ends, and its folder says
what became of it. With the address of a Ray cluster, Ray's own client does the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.job_submission._client import JobSubmissionClient
    from skate.job_submission._details import (
        DriverInfo,
        JobDetails,
        JobErrorType,
        JobInfo,
        JobStatus,
        JobType,
    )
else:  # the process that watches over a job needs no client
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "DriverInfo",
    "JobDetails",
    "JobErrorType",
    "JobInfo",
    "JobStatus",
    "JobSubmissionClient",
    "JobType",
]
