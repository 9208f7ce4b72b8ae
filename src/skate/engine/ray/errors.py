"""Ray's errors as skate's, with the user's own exception inside."""

from __future__ import annotations

import re
from typing import Any

import ray.exceptions as theirs

from skate import exceptions as ours
from skate._core.errors import argument_error, task_error
from skate._core.serialization import dumps
from skate.engine.ray.carrying import Carried

# How Ray's text begins if an argument of the task could not be had: the task's name is in it only.
_WHOSE_ARGUMENT = re.compile(r"\S*ray::(.+?)\(\).*\n\s*At least one of the input arguments")


class _Sent(ours.TaskError):
    """Pickled by skate, so that the user's classes are the same where they come back to."""

    def __reduce__(self) -> tuple[object, ...]:
        plain = ours.TaskError.__new__(ours.TaskError)
        plain.args = self.args
        plain.__dict__.update(self.__dict__)
        return _itself, (Carried(dumps(plain, "error")),)


def _itself(error: ours.TaskError) -> ours.TaskError:
    return error


def sent(error: BaseException, function_name: str, actor: str = "") -> BaseException:
    """Return what to raise in a worker so that the caller gets what user code raised.

    It is an instance of the user's type too: Ray compares it with `retry_exceptions`.
    """
    made = task_error(error, function_name, actor_repr=actor)
    made.__class__ = _Sent
    return made.as_instanceof_cause()


class Translating:
    """Around calls of Ray: its errors become skate's. Not a generator, which could not raise the
    StopIteration of a task."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, theirs.RayError):
            raise translated(error) from None


translating: Translating = Translating()


def translated(error: BaseException) -> BaseException:
    """Return what skate raises where Ray raises `error`."""
    if isinstance(error, theirs.RayTaskError):
        return _of_task(error)
    if isinstance(error, theirs.ActorUnavailableError):
        return ours.ActorUnavailableError(str(error), getattr(error, "actor_id", None))
    if isinstance(error, theirs.RayActorError):
        return _of_actor(error)
    if isinstance(error, theirs.TaskCancelledError):
        task_id = getattr(error, "task_id", None)
        return ours.TaskCancelledError(None if task_id is None else task_id.hex())
    if isinstance(error, theirs.ObjectLostError):
        return _of_object(error)
    if isinstance(error, theirs.RayError):
        return _by_name(error)
    return error


def _of_task(error: Any) -> BaseException:
    cause = error.cause
    while isinstance(cause, theirs.RayTaskError):  # it came in as an argument
        cause = cause.cause
    if isinstance(cause, ours.TaskError):
        failed: ours.SkateError = cause
        if task := _WHOSE_ARGUMENT.match(str(error)):
            failed = argument_error(getattr(cause, "_task_error", cause), task[1])
        return failed.as_instanceof_cause() if isinstance(failed, ours.TaskError) else failed
    text = error.traceback_str if hasattr(error, "traceback_str") else str(error)
    name = getattr(error, "function_name", "") or ""
    return ours.TaskError(name, text, translated(cause)).as_instanceof_cause()


def _of_actor(error: Any) -> BaseException:
    died = ours.ActorDiedError(str(error), error.actor_id)
    died._actor_init_failed, died._preempted = error.actor_init_failed, error.preempted
    return died


def _of_object(error: Any) -> BaseException:
    kind = getattr(ours, type(error).__name__, ours.ObjectLostError)
    lost: ours.ObjectLostError = kind(error.object_ref_hex)
    lost.reason = str(error)
    return lost


def _by_name(error: BaseException) -> BaseException:
    """Return the error of the same name, or of the nearest ancestor that skate has too."""
    for kind in type(error).__mro__:
        same = getattr(ours, kind.__name__, None)
        if same is not None and issubclass(same, ours.SkateError):
            found: BaseException = same(str(error))
            return found
    return ours.SkateSystemError(str(error))
