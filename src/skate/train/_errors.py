"""What `fit` raises.

RuntimeError
├── TrainingFailedError            training has failed for good
│   ├── WorkerGroupError           workers raised, died or hung: `worker_failures`, by rank
│   └── ControllerError            something else did: `controller_failure`
├── LoopExitedError                among `worker_failures`: the loop called sys.exit
└── WorkerHungError                likewise: a process does not answer
"""

from __future__ import annotations

from typing import Any, TypeVar

from skate._core.errors import format_remote_traceback
from skate.exceptions import ActorDiedError, TaskError

AnyError = TypeVar("AnyError", bound=Exception)


class TrainingFailedError(RuntimeError):
    """Training has failed, and was not to be tried again."""


class WorkerGroupError(TrainingFailedError):
    """Workers failed. `worker_failures` has the exception of each by its rank.

    Args:
        error_message: What happened.
        worker_failures: The exceptions by rank.
    """

    def __init__(self, error_message: str, worker_failures: dict[int, BaseException]) -> None:
        super().__init__(error_message)
        self.error_message = error_message
        self.worker_failures = worker_failures

    def __reduce__(self) -> tuple[object, ...]:
        if type(self) is WorkerGroupError:
            return WorkerGroupError, (self.error_message, self.worker_failures)
        return failure_of, (self.worker_failures, self.error_message)


def failure_of(failures: dict[int, BaseException], message: str | None = None) -> WorkerGroupError:
    """Make what `fit` raises for failed workers. Where the loop raised, it is an instance of that
    type too, as everywhere in skate: `except ValueError` catches a worker's ValueError.

    Args:
        failures: The exception of each worker, by its rank.
        message: Describes them; by default with the traceback of each, which a copy that has
            travelled has lost.
    """
    described = describe(failures) if message is None else message
    if not failures:
        return WorkerGroupError(described, failures)
    return _of_both_types(WorkerGroupError, cause_of(failures), described, failures)


def controller_failure_of(failure: Exception) -> ControllerError:
    """Make what `fit` raises for an error outside of the workers; of that type too."""
    return _of_both_types(ControllerError, failure, failure)


def _of_both_types(base: type[AnyError], cause: BaseException, *args: object) -> AnyError:
    own = type(cause)
    if not issubclass(own, Exception) or issubclass(base, own):
        return base(*args)

    def init(error: AnyError) -> None:
        plain = base(*args)
        Exception.__init__(error, str(plain))
        error.__dict__.update(plain.__dict__)

    names = {
        "__init__": init,
        "__str__": lambda error: error.args[0],
        "__module__": base.__module__,
    }
    try:
        both: Any = type(f"{base.__name__}({own.__name__})", (base, own), names)
        combined: AnyError = both()
        return combined
    except TypeError:  # such a class cannot be combined with another
        return base(*args)


def cause_of(failures: dict[int, BaseException]) -> BaseException:
    """Return the loop's own exception, where it was one."""
    error = next(iter(failures.values()))
    return error.cause if isinstance(error, TaskError) else error


def shown_cause(failures: dict[int, BaseException]) -> BaseException | None:
    """Return what Python shows above the error. That a process died is all there is to say about
    it: the stack is that of the side that noticed."""
    cause = cause_of(failures)
    return None if isinstance(cause, (ActorDiedError, WorkerHungError)) else cause


class ControllerError(TrainingFailedError):
    """Training failed outside of the workers: they cannot be started, or a callback raised.

    Args:
        controller_failure: What was raised.
    """

    def __init__(self, controller_failure: Exception) -> None:
        super().__init__(f"training failed outside of its workers: {controller_failure}")
        self.controller_failure = controller_failure

    def __reduce__(self) -> tuple[object, ...]:
        if type(self) is ControllerError:
            return ControllerError, (self.controller_failure,)
        return controller_failure_of, (self.controller_failure,)


class LoopExitedError(RuntimeError):
    """A loop called `sys.exit`, with another code than 0."""

    def __init__(self, code: object) -> None:
        super().__init__(f"the training loop called sys.exit({code!r})")
        self.code = code

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.code,)


class WorkerHungError(RuntimeError):
    """A worker's process does not answer any more."""


def describe(failures: dict[int, BaseException]) -> str:
    """Tell who failed, and how, with the traceback of each; ranks that failed alike are told
    once."""
    alike: dict[str, list[int]] = {}
    for rank, error in sorted(failures.items()):
        alike.setdefault(_text(error), []).append(rank)
    parts = [f"rank {', '.join(map(str, ranks))}: {text}" for text, ranks in alike.items()]
    return "Training failed due to worker errors:\n" + "\n".join(parts)


def _text(error: BaseException) -> str:
    """Describe one error; the remote traceback, if there is one, says it all."""
    if isinstance(error, ActorDiedError) and not isinstance(error.cause, BaseException):
        return _end_of(str(error.cause))
    if isinstance(error, TaskError):
        return error.traceback_str.strip()
    if isinstance(error, WorkerHungError) or error.__traceback__ is None:
        text = str(error)
        return text if "\n" in text else f"{type(error).__name__}: {text}"
    return format_remote_traceback(error).rstrip()


def _end_of(text: str) -> str:
    """Tell how a process ended, without the actor that it was."""
    how = text.rpartition(" is dead because ")[2].rpartition(" (class_name: ")[0] or text
    killed = "; the operating system does this when memory runs short" if "SIGKILL" in how else ""
    way_out = "a larger FailureConfig(max_failures=...) starts again from the last checkpoint"
    return f"its process is dead: {how}{killed}; {way_out}"
