"""The folders of jobs: what is known of each, and who may write it.

    $XDG_STATE_HOME/skate/jobs/<submission id>/
        job.json      the state; replaced as a whole
        output.log    what the entrypoint has printed
        lock          held by the submitter, then by the supervisor, until the job is over
        control       a pipe to the supervisor: a byte asks it to stop the job

Only who holds the lock writes `job.json`. Whoever finds the lock free and the job not over knows
that its supervisor is gone: takes the lock, ends what is left of the job, and notes its failure.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import quote, unquote

from skate._core.private_files import is_private_folder, make_private_folder, own_state_folder
from skate.job_submission._details import JobErrorType, JobInfo, JobStatus

#: Set for the processes of a job: the folder that they belong to.
MARK = "SKATE_JOB_FOLDER"

_STATE, _OUTPUT, _LOCK, _CONTROL = "job.json", "output.log", "lock", "control"
_LONGEST_NAME = 255
_NO_JOB = "#"  # how folders begin that are made or removed just now; ids are quoted
_LONGEST_MAKING_SECONDS = 60.0  # of such a folder, which then was left by a process that died


def jobs_folder() -> str:
    """Return the folder of this user's jobs, which nobody else may enter; make it if need be."""
    folder = os.path.join(own_state_folder(), "jobs")
    make_private_folder(os.path.dirname(folder))
    make_private_folder(folder)
    if not is_private_folder(folder):
        raise PermissionError(
            f"{folder} is open to others, or no folder of this user: whoever writes there decides "
            "what is said of your jobs. `chmod 700` it, or set XDG_STATE_HOME to another place"
        )
    return folder


class JobFolder:
    """One job on disk."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.output: str = os.path.join(path, _OUTPUT)

    @classmethod
    def of(cls, submission_id: str) -> JobFolder:
        """Return the folder of a job, whether it is there or not."""
        name = quote(submission_id, safe="")
        if name in ("", ".", ".."):
            raise ValueError(f"a submission id is a word; got {submission_id!r}")
        if len(name) > _LONGEST_NAME:
            raise ValueError(f"submission ids are {_LONGEST_NAME} characters at most; got {name}")
        return cls(os.path.join(jobs_folder(), name))

    @classmethod
    def all(cls) -> list[JobFolder]:
        """Return the folders of all jobs."""
        root = jobs_folder()
        names = sorted(name for name in os.listdir(root) if not name.startswith(_NO_JOB))
        return [cls(os.path.join(root, name)) for name in names]

    @property
    def submission_id(self) -> str:
        return unquote(os.path.basename(self.path))

    # -- the submitter's side ------------------------------------------------------------------

    @contextlib.contextmanager
    def created(self, info: JobInfo) -> Iterator[tuple[int, int]]:
        """Make the folder, and give the descriptors of its lock and pipe, for the supervisor.

        Raises:
            FileExistsError: If there is one.
        """
        _remove_what_was_left(os.path.dirname(self.path))
        draft = JobFolder(_unused_name(self.path))  # nobody finds half of a job
        os.mkdir(draft.path, 0o700)
        with contextlib.ExitStack() as opened:
            try:
                descriptors = draft._filled(info, opened)
                os.rename(draft.path, self.path)
            except BaseException as error:
                shutil.rmtree(draft.path, ignore_errors=True)
                if isinstance(error, OSError) and error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                    raise FileExistsError(error.errno, "there is one", self.path) from None
                raise
            yield descriptors

    def _filled(self, info: JobInfo, opened: contextlib.ExitStack) -> tuple[int, int]:
        """Make the files of a folder that is empty; return the descriptors of lock and pipe."""
        lock = os.open(self._file(_LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        opened.callback(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.mkfifo(self._file(_CONTROL), 0o600)
        control = os.open(self._file(_CONTROL), os.O_RDWR | os.O_CLOEXEC)
        opened.callback(os.close, control)
        self.write(info)
        return lock, control

    # -- who holds the lock --------------------------------------------------------------------

    def write(self, info: JobInfo, pid: int | None = None) -> None:
        """Note the state, and the process of the entrypoint."""
        draft = self._file(f"{_STATE}.draft")
        with open(draft, "w", opener=open_private) as file:
            json.dump({**info.to_json(), "pid": pid}, file)
        os.replace(draft, self._file(_STATE))

    # -- everybody -----------------------------------------------------------------------------

    def read(self) -> tuple[JobInfo, int | None]:
        """Return the state, and the process of the entrypoint if there was one.

        Raises:
            FileNotFoundError: If there is no such job.
        """
        found = self._read()
        if not found[0].status.is_terminal() and (lock := self._abandoned()) is not None:
            try:
                found = self._note_death()
            finally:
                os.close(lock)
        return found

    def ask_to_stop(self) -> None:
        """Ask the supervisor, if there is one, to stop the job."""
        try:
            control = os.open(self._file(_CONTROL), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # nobody reads: it is gone
            return
        try:
            os.write(control, b"s")
        finally:
            os.close(control)

    def remove(self) -> None:
        """Remove the folder of a job that is over."""
        gone = _unused_name(self.path)
        os.rename(self.path, gone)
        shutil.rmtree(gone)

    def _read(self) -> tuple[JobInfo, int | None]:
        with open(self._file(_STATE), "rb") as file:
            data = file.read()
        try:
            plain = json.loads(data)
            pid = plain.pop("pid")
            return JobInfo.from_json(plain), pid
        except (ValueError, TypeError, KeyError, AttributeError) as error:  # after a power cut
            message = f"{self._file(_STATE)} is damaged, and how the job ended is lost: {error}"
            return JobInfo(JobStatus.FAILED, entrypoint="", message=message), None

    def _abandoned(self) -> int | None:
        """Return the lock if nobody has held it."""
        lock = os.open(self._file(_LOCK), os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def _note_death(self) -> tuple[JobInfo, int | None]:
        info, pid = self._read()  # once more: it may have ended before the lock was free
        if not info.status.is_terminal():
            _kill_marked(self.path)
            info = replace(
                info,
                status=JobStatus.FAILED,
                message="The process that watched over the job is gone: it was killed, or the "
                "machine was restarted. What the job had started was ended.",
                error_type=JobErrorType.JOB_SUPERVISOR_ACTOR_DIED,
                end_time=time.time_ns() // 1_000_000,
            )
            self.write(info, pid)
        return info, pid

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)


def open_private(path: str, flags: int) -> int:
    """Open a file so that only this user may read it: an opener for `open`."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _unused_name(path: str) -> str:
    return os.path.join(os.path.dirname(path), f"{_NO_JOB}{secrets.token_hex(8)}")


def _remove_what_was_left(root: str) -> None:
    """Remove the folders of processes that died while they made or removed one."""
    for name in os.listdir(root):
        if not name.startswith(_NO_JOB):
            continue
        left = JobFolder(os.path.join(root, name))
        with contextlib.suppress(OSError):  # another process removes it
            if time.time() - os.stat(left.path).st_mtime > _LONGEST_MAKING_SECONDS:
                shutil.rmtree(left.path)


def _kill_marked(folder: str) -> None:
    """Kill the processes of a job, whatever groups and sessions they are in."""
    mark = f"{MARK}={folder}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            with open(f"/proc/{name}/environ", "rb") as file:
                marked = mark in file.read().split(b"\0")
            if marked and int(name) != os.getpid():
                os.kill(int(name), signal.SIGKILL)
