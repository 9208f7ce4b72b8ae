"""What `fit` raises.

RuntimeError
└── TrainingFailedError            training has failed for good
    ├── WorkerGroupError           workers raised, died or hung: `worker_failures`, by rank
    └── ControllerError            something else did: `controller_failure`
"""

from __future__ import annotations

import traceback
from typing import Any

from skate.exceptions import TaskError


class TrainingFailedError(RuntimeError):
    """Training has failed, and was not to be tried again."""


class WorkerGroupError(TrainingFailedError):
    """Workers failed. `worker_failures` has the exception of each by its rank."""

    def __init__(self, error_message: str, worker_failures: dict[int, BaseException]) -> None:
        super().__init__(error_message)
        self.error_message = error_message
        self.worker_failures = worker_failures

    def __reduce__(self) -> Any:
        return failure_of, (self.worker_failures,)


def failure_of(failures: dict[int, BaseException]) -> WorkerGroupError:
    """What `fit` raises for these. Where the loop raised, it is an instance of that type too, as
    everywhere in skate: `except ValueError` catches a worker's ValueError."""
    text = describe(failures)
    own = type(cause_of(failures))
    if issubclass(own, Exception) and not issubclass(WorkerGroupError, own):
        try:
            name = f"WorkerGroupError({own.__name__})"
            both: Any = type(
                name, (WorkerGroupError, own), {"__str__": _message, "__init__": _init}
            )
            combined: WorkerGroupError = both(text, failures)
            return combined
        except TypeError:  # such a class cannot be combined with another
            pass
    return WorkerGroupError(text, failures)


def cause_of(failures: dict[int, BaseException]) -> BaseException:
    """The loop's own exception, where it was one."""
    error = next(iter(failures.values()))
    return error.cause if isinstance(error, TaskError) else error


def _message(error: WorkerGroupError) -> str:
    return error.error_message


def _init(error: WorkerGroupError, text: str, failures: dict[int, BaseException]) -> None:
    Exception.__init__(error, text)
    error.error_message, error.worker_failures = text, failures


class ControllerError(TrainingFailedError):
    """Training failed outside of the workers."""

    def __init__(self, controller_failure: BaseException) -> None:
        super().__init__(f"training failed outside of its workers: {controller_failure}")
        self.controller_failure = controller_failure

    def __reduce__(self) -> Any:
        return type(self), (self.controller_failure,)


class WorkerHungError(RuntimeError):
    """A worker's process does not answer any more."""


def describe(failures: dict[int, BaseException]) -> str:
    """Who failed, and how, with the traceback of each."""
    parts = [f"rank {rank}: {_text(error)}" for rank, error in sorted(failures.items())]
    return "training failed\n" + "\n".join(parts)


def _text(error: BaseException) -> str:
    """The remote traceback, if there is one, says it all."""
    if isinstance(error, TaskError) or error.__traceback__ is None:
        text = str(error)
        return text if "\n" in text else f"{type(error).__name__}: {text}"
    return "".join(traceback.format_exception(error)).rstrip()
