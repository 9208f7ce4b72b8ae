"""Errors of user code: what they are, what they say, and that they travel."""

# ruff: noqa: N818 - users name their exceptions as they like

from __future__ import annotations

import asyncio
import pickle
import sys
import threading
from dataclasses import dataclass

import cloudpickle
import pytest

from skate import exceptions
from skate._core.errors import format_remote_traceback, task_error
from skate.exceptions import SkateError, TaskError, UnserializableException


class Plain(Exception):
    pass


class TwoArguments(Exception):
    """Its constructor does not accept its own args, so its pickle cannot be read."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code


class KeywordOnly(ValueError):
    def __init__(self, *, field: str) -> None:
        self.field = field


class Slotted(Exception):
    __slots__ = ("place",)

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.place = place


@dataclass(frozen=True)
class Frozen(Exception):
    code: int


class Odd(Exception):
    """Has attributes of the same names as TaskError's."""

    def __init__(self) -> None:
        self.pid = "mine"
        self.function_name = "mine too"


class HoldsLock(Exception):
    def __init__(self) -> None:
        super().__init__("with a lock")
        self.lock = threading.Lock()


class BreaksOnLoad(Exception):
    def __init__(self) -> None:
        super().__init__("with a bomb")
        self.bomb = Bomb()


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return int, ("not a number",)


class NoChildren(Exception):
    def __init_subclass__(cls) -> None:
        raise TypeError("final")


class Base(BaseException):
    pass


def remote_error(exc: BaseException) -> TaskError:
    """What arrives at the other side when a task raised `exc`."""
    try:
        raise exc
    except BaseException as error:
        sent = task_error(error, "work")
    received = pickle.loads(cloudpickle.dumps(sent))
    assert isinstance(received, TaskError)
    return received.as_instanceof_cause()


class Unchangeable(AttributeError):
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("it stays as it is")


def test_an_error_that_lets_nobody_change_it_is_sent_all_the_same() -> None:
    assert isinstance(task_error(Unchangeable("no such thing"), "work").cause, Unchangeable)


def test_a_missing_attribute_of_something_that_cannot_be_pickled() -> None:
    error = remote_error(AttributeError("no such thing", name="thing", obj=threading.Lock()))
    assert isinstance(error, AttributeError)
    assert "no such thing" in str(error)


@pytest.mark.parametrize(
    "exc",
    [
        Plain("text"),
        TwoArguments(404, "gone"),
        KeywordOnly(field="age"),
        Slotted("here"),
        Frozen(3),
        Odd(),
        Base("deep"),
        KeyError("key"),
        OSError(2, "No such file", "data.csv"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"),
        StopIteration(5),
        ImportError("no", name="module", path="file"),
        exceptions.GetTimeoutError("late"),
    ],
    ids=lambda exc: type(exc).__name__,
)
def test_an_error_is_caught_as_the_type_that_was_raised(exc: BaseException) -> None:
    error = remote_error(exc)
    assert isinstance(error, type(exc))
    assert isinstance(error, TaskError)
    assert type(error.cause) is type(exc)
    assert error.args == exc.args
    assert type(exc).__name__ in str(error)
    assert "skate::work()" in str(error)


@pytest.mark.parametrize(
    ("exc", "attribute", "value"),
    [
        (TwoArguments(404, "gone"), "code", 404),
        (KeywordOnly(field="age"), "field", "age"),
        (Slotted("here"), "place", "here"),
        (Frozen(3), "code", 3),
        (Odd(), "pid", "mine"),
        (OSError(2, "No such file", "data.csv"), "filename", "data.csv"),
        (OSError(2, "No such file", "data.csv"), "errno", 2),
        (StopIteration(5), "value", 5),
        (ImportError("no", name="module"), "name", "module"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), "end", 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_its_attributes_are_reachable(exc: BaseException, attribute: str, value: object) -> None:
    error = remote_error(exc)
    assert getattr(error, attribute) == value
    assert getattr(error.cause, attribute) == value


@pytest.mark.parametrize("exc", [Plain("a"), TwoArguments(1, "b"), Slotted("c"), OSError(2, "d")])
def test_a_raised_error_can_be_sent_on(exc: BaseException) -> None:
    error = remote_error(exc)
    again = cloudpickle.loads(cloudpickle.dumps(error))
    assert type(again).__name__ == type(error).__name__
    assert isinstance(again, type(exc))
    assert str(again) == str(error)
    assert again.args == exc.args


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups are of Python 3.11")
def test_an_exception_group_stays_one() -> None:
    group = ExceptionGroup("several", [ValueError("one"), Plain("two")])  # noqa: F821
    error = remote_error(group)
    assert isinstance(error, ExceptionGroup)  # noqa: F821
    assert error.message == "several"
    assert [type(member) for member in error.exceptions] == [ValueError, Plain]
    matched, rest = error.split(ValueError)
    assert matched is not None
    assert rest is not None


@pytest.mark.parametrize("exc", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_what_would_end_the_caller_arrives_as_a_plain_error(exc: BaseException) -> None:
    error = remote_error(exc)
    assert type(error) is TaskError
    assert not isinstance(error, type(exc))
    assert type(error.cause) is type(exc)


def test_a_cancellation_does_not_cancel_whoever_awaits() -> None:
    assert type(remote_error(asyncio.CancelledError())) is TaskError


def test_a_class_that_forbids_subclasses_arrives_as_the_cause() -> None:
    error = remote_error(NoChildren("x"))
    assert type(error) is TaskError
    assert isinstance(error.cause, NoChildren)
    with pytest.raises(TypeError):
        error.make_dual_exception_instance()


@pytest.mark.parametrize("exc", [HoldsLock(), BreaksOnLoad()])
def test_what_cannot_be_pickled_keeps_its_text(exc: BaseException) -> None:
    error = remote_error(exc)
    cause = error.cause
    assert isinstance(cause, UnserializableException)
    assert cause.type_name.endswith(type(exc).__name__)
    assert "raise exc" in cause.original_stack_trace
    assert type(exc).__name__ in str(error)
    assert isinstance(error, UnserializableException)


def test_the_reason_names_the_culprit() -> None:
    cause = remote_error(HoldsLock()).cause
    assert isinstance(cause, UnserializableException)
    assert "lock" in cause.reason


def test_an_error_that_passes_through_tasks_keeps_its_first_cause() -> None:
    inner = remote_error(ValueError("deep"))
    outer = remote_error(inner)
    assert isinstance(outer, ValueError)
    assert type(outer.cause) is ValueError
    assert str(outer).count("ValueError: deep") == 1


def test_the_traceback_shows_chained_exceptions() -> None:
    try:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error
    except ValueError as error:
        text = format_remote_traceback(error)
    assert "KeyError: 'first'" in text
    assert "direct cause" in text
    assert text.index("first") < text.index("second")


def test_the_actor_is_named() -> None:
    error = task_error(ValueError("x"), "A.f", actor_repr="A(3)", actor_id="ab12")
    assert "repr=A(3)" in str(error)
    assert "ab12" in str(error)


INSTANCES: list[SkateError] = [
    exceptions.ActorDiedError(task_error(ValueError("x"), "A.__init__", actor_id="ab")),
    exceptions.ActorDiedError("It was killed.", "ab"),
    exceptions.ActorUnavailableError("restarting", b"\xab"),
    exceptions.WorkerCrashedError(pid=7, exitcode=-9),
    exceptions.TaskCancelledError("t1", "because"),
    exceptions.GetTimeoutError("late"),
    exceptions.TaskUnschedulableError("too much"),
    exceptions.ActorAlreadyExistsError("taken"),
    exceptions.OutOfMemoryError("full"),
    exceptions.ObjectLostError("ab", None, "file.py:3"),
    exceptions.ObjectReconstructionFailedError("ab", reason_message="no retries"),
    exceptions.UnserializableException("Traceback", "Kind", "why"),
    exceptions.SkateSystemError("broken", "Traceback"),
    exceptions.RuntimeEnvSetupError("no such directory"),
    exceptions.ObjectStoreFullError("10 GB do not fit"),
]


@pytest.mark.parametrize("error", INSTANCES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps], ids=["pickle", "cloudpickle"])
def test_every_error_survives_pickling(error: SkateError, dumps: object) -> None:
    assert callable(dumps)
    again = pickle.loads(dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__.keys() == error.__dict__.keys()
    assert str(SkateError.from_bytes(error.to_bytes())) == str(error)


def test_errors_carry_data() -> None:
    died = exceptions.ActorDiedError(task_error(ValueError("x"), "A.__init__", actor_id="ab"))
    assert died.actor_init_failed
    assert died.actor_id == "ab"
    assert "ValueError: x" in str(died)
    crashed = exceptions.WorkerCrashedError(pid=7, exitcode=-9)
    assert (crashed.pid, crashed.exitcode, crashed.signal) == (7, -9, "SIGKILL")
    assert "SIGKILL" in str(crashed)
    assert "code 3" in str(exceptions.WorkerCrashedError(exitcode=3))
    assert isinstance(exceptions.GetTimeoutError(), TimeoutError)
    assert isinstance(exceptions.ActorAlreadyExistsError("x"), ValueError)


def test_rays_names_are_ours() -> None:
    assert exceptions.RayError is SkateError
    assert exceptions.RayTaskError is TaskError
    assert exceptions.RayActorError is exceptions.ActorError
    for name in exceptions.__all__:
        assert issubclass(getattr(exceptions, name), SkateError)
        assert getattr(exceptions, name).__name__ in str(exceptions.__doc__)


def test_a_taken_name_of_a_group_is_of_both_kinds_and_travels() -> None:
    error = pickle.loads(pickle.dumps(exceptions.PlacementGroupExistsError("taken")))
    assert isinstance(error, ValueError)
    assert isinstance(error, exceptions.SkateSystemError)
    assert (error.name, str(error)) == ("taken", "a placement group named 'taken' exists already")
