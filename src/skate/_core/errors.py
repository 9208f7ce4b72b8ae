"""Errors of user code on their way from a worker to whoever asks for the value."""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import os
import sys
import traceback
import types
from collections.abc import Iterable
from typing import Any, TypeVar

from skate.exceptions import SkateError, TaskError, UnserializableException, library_name

Failure = TypeVar("Failure", bound=BaseException)

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MOST_LIBRARY_FRAMES = 3  # enough to find the place, where there is no frame of the user's
_CARRIERS = (
    f"{os.sep}concurrent{os.sep}futures{os.sep}",
    *(f"-packages{os.sep}{package}{os.sep}" for package in ("cloudpickle", "pyarrow", "polars")),
)
_COMPILED = ("pyarrow/",)  # what its frames in Cython are called
_OF_ARGUMENTS = (
    "arrays among the arguments are views on shared memory: change a copy, as values.copy()"
)
_OF_REFERENCES = (
    "only a reference that is an argument itself becomes its value: one in a list or a dictionary "
    "stays what it is, and get() takes it"
)
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: set for classes made by a class statement


def unknown_concurrency_group(group: str, groups: Iterable[str]) -> ValueError:
    """Return the error for a group that an actor does not have; "" is the default one."""
    names = ", ".join(repr(name) for name in groups if name)
    allowed = f"takes one of {names}" if names else "needs an actor with concurrency_groups"
    return ValueError(f"concurrency_group {allowed}; got {group!r}")


# -- from exception to TaskError ----------------------------------------------------------------


def task_error(
    exc: BaseException,
    function_name: str,
    *,
    actor_repr: str = "",
    actor_id: str | None = None,
) -> TaskError:
    """Return the error to send for what user code raised. It can always be pickled."""
    if _changed_a_view(exc):
        add_note(exc, _OF_ARGUMENTS)
    elif _took_a_reference_for_a_value(exc):
        add_note(exc, _OF_REFERENCES)
    text = format_remote_traceback(exc)
    cause: BaseException = exc
    while isinstance(cause, TaskError):  # a task that let another task's error through
        cause = cause.cause
    if isinstance(cause, AttributeError):
        with contextlib.suppress(AttributeError):  # of a class that lets nobody change it
            cause.obj = None  # whose attribute is missing: it may be large, or not pickle at all
    if not isinstance(cause, UnserializableException):
        reason = _why_it_cannot_travel(cause)
        if reason is not None:
            cause = UnserializableException(text, _type_name(cause), reason)
    error = TaskError(function_name, text, cause, actor_repr=actor_repr or None, actor_id=actor_id)
    outermost = user_traceback(exc)
    if outermost is not None and outermost.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        error.by_library = True
    return error


def as_of_a_task(error: Exception, name: str) -> Exception:
    """Return the error as it would come from another process, of its own type and a TaskError:
    where something runs that users do not choose a place for changes nothing for `except`."""
    if isinstance(error, TaskError):
        return error
    dual = task_error(error, name).as_instanceof_cause()
    return dual if isinstance(dual, type(error)) else error


def add_note(error: BaseException, note: str) -> None:
    """Show the note below the error's message; Python 3.10 has no notes, there it joins it."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    elif not error.args or isinstance(error.args[0], str):
        first = f"{error.args[0]}\n{note}" if error.args else note
        error.args = (first, *error.args[1:])
    else:
        error.__notes__ = [*getattr(error, "__notes__", ()), note]


def _changed_a_view(error: BaseException) -> bool:
    """Return whether NumPy refused to change an array, and nobody has explained it yet."""
    if not isinstance(error, ValueError):
        return False
    text = _text_of(error)
    return "is read-only" in text and "shared memory" not in text


def _took_a_reference_for_a_value(error: BaseException) -> bool:
    """Return whether Python says of a reference what it cannot do, and nobody has explained it."""
    if type(error) not in (TypeError, AttributeError):
        return False
    text = _text_of(error)
    return "'ObjectRef'" in text and _OF_REFERENCES not in text


def _text_of(error: BaseException) -> str:
    """Return the message and the notes; none if these, which may be anything, are no text."""
    try:
        return "\n".join((str(error), *getattr(error, "__notes__", ())))
    except Exception:
        return ""


def argument_error(error: SkateError, function_name: str) -> SkateError:
    """Return what a task fails with when an argument of it is an error.

    What user code raised goes on with its own traceback, and says whose argument it was. Of a
    chain of such tasks only the first and the last are named, so that the text does not grow.
    """
    if not isinstance(error, TaskError):
        return task_error(error, function_name)
    passed_on = copy.copy(error)
    passed_on.argument_of = function_name
    return passed_on


def format_remote_traceback(exc: BaseException) -> str:
    """Return the user's frames, chained exceptions included; where there are none, those of
    skate's libraries without the engine."""
    report = traceback.TracebackException.from_exception(exc)
    _drop_engine_frames(report, exc)
    return "".join(report.format())


def without_own_frames(error: Failure) -> Failure:
    """Return an error, to be raised where the user has called, without the way that it has come
    inside of skate, and so its cause. If there is code of others on a way, all of it stays."""
    if os.environ.get("SKATE_TRACEBACK") != "full":
        both: tuple[BaseException | None, ...] = (error, error.__cause__)
        for shown in both:
            if shown is not None and _is_of_skate_alone(shown.__traceback__):
                shown.__traceback__ = None
    return error


def _is_of_skate_alone(trace: types.TracebackType | None) -> bool:
    while trace is not None and _is_on_the_way(trace.tb_frame):
        trace = trace.tb_next
    return trace is None


def _is_on_the_way(frame: types.FrameType) -> bool:
    """Return whether it is skate, or what skate has called by itself to carry a call."""
    filename = frame.f_code.co_filename
    if filename == "<string>":  # a method that `dataclass` has made, or a program after `-c`
        return str(frame.f_globals.get("__name__")).startswith("skate.")
    own = filename.startswith((_PACKAGE, *_COMPILED))
    return own or any(part in filename for part in _CARRIERS)


def user_traceback(exc: BaseException) -> types.TracebackType | None:
    """Return the part of the exception's traceback that begins in user code."""
    tb = exc.__traceback__
    while tb is not None and _is_engine_frame(tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    return tb


def _drop_engine_frames(
    report: traceback.TracebackException | None, exc: BaseException | None
) -> None:
    if report is None or exc is None or os.environ.get("SKATE_TRACEBACK") == "full":
        return
    frames = list(report.stack)
    if isinstance(exc, TaskError):
        frames = _up_to_the_call(frames)
    users = [frame for frame in frames if not frame.filename.startswith(_PACKAGE)]
    # An error of a class of ours is about what the user did, and says it.
    ours = type(exc).__module__.startswith("skate.")
    libraries = [f for f in frames if not ours and not _is_engine_frame(f.filename)]
    report.stack[:] = users or libraries[-_MOST_LIBRARY_FRAMES:]
    _drop_engine_frames(report.__cause__, exc.__cause__)
    _drop_engine_frames(report.__context__, exc.__context__)
    members = getattr(report, "exceptions", None) or ()
    for member, inner in zip(members, getattr(exc, "exceptions", ()), strict=False):
        _drop_engine_frames(member, inner)


def _up_to_the_call(frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Keep user frames before the engine is entered: what is inside the task, its error shows."""
    outside = itertools.dropwhile(lambda frame: _is_engine_frame(frame.filename), frames)
    return list(itertools.takewhile(lambda frame: not _is_engine_frame(frame.filename), outside))


def _is_engine_frame(filename: str) -> bool:
    """Return whether it is the engine or the façade, and none of the libraries on top."""
    if not filename.startswith(_PACKAGE):
        return False
    inside = filename[len(_PACKAGE) :]
    return inside.startswith(("_", f"engine{os.sep}"))


def _type_name(exc: BaseException) -> str:
    cls = type(exc)
    prefix = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
    return f"{prefix}{cls.__qualname__}"


# -- pickling of causes -------------------------------------------------------------------------


class _State:
    """An exception taken apart, for classes whose constructor does not accept their `args`."""

    def __init__(self, exc: BaseException) -> None:
        self.cls = type(exc)
        self.args = exc.args
        self.attributes = dict(getattr(exc, "__dict__", {}))
        self.members = dict(_members(exc))

    def build(self) -> BaseException:
        exc = _bare(self.cls, self.args)
        _fill(exc, self.args, self.attributes, self.members)
        return exc


def portable(cause: Any) -> Any:
    """Return the cause in a form whose pickle can be read back."""
    return cause if _survives(cause) is None else _State(cause)


def unpack(cause: Any) -> BaseException:
    """Return the exception that `portable` was given."""
    if isinstance(cause, _State):
        return cause.build()
    exc: BaseException = cause
    return exc


def _why_it_cannot_travel(cause: BaseException) -> str | None:
    if _survives(cause) is None:
        return None
    return _survives(_State(cause))


def _survives(value: object) -> str | None:
    """Return None if the value comes back from a pickle as the same type, otherwise why not."""
    from skate._core.serialization import dumps, loads

    try:
        back = loads(dumps(value, "exception").packed())
        if isinstance(back, _State):
            back.build()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if type(back).__qualname__ != type(value).__qualname__:
        return f"it is read back as {type(back).__qualname__}"
    return _lost_members(value, back) if isinstance(value, BaseException) else None


def _lost_members(exc: BaseException, back: BaseException) -> str | None:
    """Return why a copy is incomplete: tblib, which Dask brings, pickles exceptions its way."""
    try:
        same = bool(dict(_members(back)) == dict(_members(exc)))
    except Exception:  # values may compare in any way they like
        same = False
    return None if same else "its fields are not read back"


# -- both a TaskError and the user's type -------------------------------------------------------


def as_cause(error: TaskError) -> TaskError:
    if isinstance(error.cause, _never_raised_again()) or isinstance(error, type(error.cause)):
        return error
    try:
        return make_dual(error)
    except Exception:
        # Classes may forbid what is done here in any way they like: the plain error has it all.
        return error


def _never_raised_again() -> tuple[type[BaseException], ...]:
    """Return what would end or cancel whoever asks for the value, in another process."""
    cancelled = getattr(sys.modules.get("asyncio"), "CancelledError", None)
    kinds = (SystemExit, KeyboardInterrupt, GeneratorExit)
    return kinds if cancelled is None else (*kinds, cancelled)


def make_dual(error: TaskError) -> TaskError:
    cause = error.cause
    cause_class: Any = type(cause)
    dual: Any = _bare(_dual_class(cause_class, library_name()), cause.args, like=cause)
    attributes = {
        **error.__dict__,
        **getattr(cause, "__dict__", {}),
        "cause": cause,
        "_task_error": error,
    }
    attributes.pop("__notes__", None)  # the remote traceback, which is the message, has them
    _fill(dual, cause.args, attributes, dict(_members(cause)))
    assert isinstance(dual, TaskError)
    return dual


@functools.lru_cache(maxsize=256)
def _dual_class(cause_class: type[BaseException], library: str) -> type[TaskError]:
    """Return the class that is both, under the name by which the program knows its first half."""
    name = f"{'RayTaskError' if library == 'ray' else 'TaskError'}({cause_class.__name__})"
    module = f"{library}.exceptions"
    body = {"__module__": module, "__qualname__": name, "__hash__": object.__hash__}
    return types.new_class(name, (_DualError, cause_class), {}, lambda ns: ns.update(body))


class _DualError(TaskError):
    _task_error: TaskError

    def __str__(self) -> str:
        return str(self._task_error)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.cause!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return as_cause, (self._task_error,)


def _bare(cls: type, args: tuple[object, ...], like: Any = None) -> BaseException:
    """Make an instance by the built-in ancestor, without running any user-written constructor."""
    builtin: Any = cls
    while builtin.__flags__ & _HEAP_TYPE:
        builtin = builtin.__base__  # the one that determines the layout, not the next in line
    if hasattr(builtin, "exceptions"):  # an exception group cannot be made empty
        args = (like.message, like.exceptions) if like is not None else args[:2]
    else:
        args = ()
    exc: BaseException = builtin.__new__(cls, *args)
    return exc


def _fill(
    exc: object,
    args: tuple[object, ...],
    attributes: dict[str, object],
    members: dict[str, object],
) -> None:
    # Descriptors are called directly: the class may forbid setting attributes.
    BaseException.args.__set__(exc, args)  # type: ignore[attr-defined]
    exc.__dict__.update(attributes)
    for name, value in members.items():
        for cls in type(exc).__mro__:
            if name in vars(cls):
                # Read-only ones were set by the constructor of an exception group.
                with contextlib.suppress(AttributeError):
                    vars(cls)[name].__set__(exc, value)
                break


def _members(exc: BaseException) -> list[tuple[str, Any]]:
    """Return what lives outside `__dict__`: slots, and fields such as OSError.errno."""
    found: list[tuple[str, Any]] = []
    kinds = (types.MemberDescriptorType, types.GetSetDescriptorType)
    for cls in type(exc).__mro__:
        for name, descriptor in vars(cls).items():
            if name.startswith("__") or name == "args" or not isinstance(descriptor, kinds):
                continue
            try:
                found.append((name, getattr(exc, name)))
            except AttributeError:
                continue  # an empty slot
    return found
