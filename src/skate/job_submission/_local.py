"""Jobs of this machine."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import secrets
import string
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from skate.job_submission._details import DriverInfo, JobDetails, JobInfo, JobStatus, JobType
from skate.job_submission._folders import MARK, JobFolder, open_private

_START = "from skate.job_submission._supervisor import main; main()"
_LETTERS = string.ascii_letters + string.digits
_LOOK_SECONDS = 0.1  # between two looks at a log that grows


class LocalJobs:
    """What a client does, for jobs of this machine and user."""

    def submit(self, submission_id: str | None, **asked: Any) -> str:
        """Start a job, and return its id."""
        submission_id = submission_id or _new_id()
        folder = JobFolder.of(submission_id)
        now = time.time_ns() // 1_000_000
        info = JobInfo(status=JobStatus.PENDING, start_time=now, **asked)
        info.to_json()  # what cannot be written down is an error before anything is there
        try:
            with folder.created(info) as descriptors:
                _start_supervisor(folder, descriptors)
        except FileExistsError:
            raise RuntimeError(
                f"a job with the submission id {submission_id!r} already exists: choose another "
                "id, or delete that job when it is over"
            ) from None
        return submission_id

    def details(self, submission_id: str) -> JobDetails:
        """Return what is known of a job."""
        with _existing(submission_id) as folder:
            return _details(folder)

    def all(self) -> list[JobDetails]:
        """Return what is known of all jobs, the first that was submitted first."""
        found = []
        for folder in JobFolder.all():
            try:
                found.append(_details(folder))
            except FileNotFoundError:  # it is being made, or was deleted since
                continue
        return sorted(found, key=lambda details: details.start_time or 0)

    def stop(self, submission_id: str) -> bool:
        """Ask for the end of a job, and return whether it was not over."""
        with _existing(submission_id) as folder:
            running = not folder.read()[0].status.is_terminal()
            if running:
                folder.ask_to_stop()
            return running

    def delete(self, submission_id: str) -> bool:
        """Delete a job that is over, with its log."""
        with _existing(submission_id) as folder:
            status = folder.read()[0].status
            if not status.is_terminal():
                raise RuntimeError(
                    f"job {submission_id!r} is {status}; it is in a non-terminal state, and can "
                    "be deleted when it is over (STOPPED, SUCCEEDED or FAILED): stop it first"
                )
            folder.remove()
            return True

    def logs(self, submission_id: str) -> str:
        """Return what the job has printed so far."""
        with _existing(submission_id) as folder:
            return _bytes_from(folder.output, 0).decode(errors="replace")

    async def tail(self, submission_id: str) -> AsyncIterator[str]:
        """Yield what the job prints, from the beginning, until it is over."""
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        place, over = 0, False
        while not over:
            with _existing(submission_id) as folder:
                over = folder.read()[0].status.is_terminal()  # before the look: nothing comes
                more = _bytes_from(folder.output, place)  # after it
            place += len(more)
            if text := decoder.decode(more, final=over):
                yield text
            if not over:
                await asyncio.sleep(_LOOK_SECONDS)


def _new_id() -> str:
    return "raysubmit_" + "".join(secrets.choice(_LETTERS) for _ in range(16))


@contextlib.contextmanager
def _existing(submission_id: str) -> Iterator[JobFolder]:
    """Give the folder of a job, which somebody else may delete at any moment."""
    folder = JobFolder.of(submission_id)
    try:
        os.stat(folder.path)
        yield folder
    except FileNotFoundError:
        raise RuntimeError(
            f"job {submission_id} does not exist: it was not submitted by this user on this "
            "machine, or was deleted. list_jobs() and `skate job list` have those that there are"
        ) from None


def _start_supervisor(folder: JobFolder, descriptors: tuple[int, int]) -> None:
    lock, control = descriptors
    # From where this process imports, and not from a directory that happens to be the current one.
    paths = [path for path in sys.path if os.path.isabs(path)]
    program = f"import sys; sys.path[:] = {paths!r}; {_START}"
    command = [sys.executable, "-c", program, folder.path, str(lock), str(control)]
    with open(folder.output, "ab", opener=open_private) as output:
        subprocess.run(
            command, check=True, pass_fds=descriptors, stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, start_new_session=True, env={**os.environ, MARK: folder.path},
        )  # fmt: skip


def _bytes_from(path: str, place: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(place)
            return file.read()
    except FileNotFoundError:
        return b""


def _details(folder: JobFolder) -> JobDetails:
    info, pid = folder.read()
    name = folder.submission_id
    return JobDetails(
        type=JobType.SUBMISSION,
        submission_id=name,
        driver_info=DriverInfo(name, "127.0.0.1", str(pid)) if pid is not None else None,
        status=info.status,
        entrypoint=info.entrypoint,
        message=info.message,
        error_type=info.error_type.value if info.error_type else None,
        start_time=info.start_time,
        end_time=info.end_time,
        metadata=info.metadata,
        runtime_env=info.runtime_env,
        driver_exit_code=info.driver_exit_code,
    )
