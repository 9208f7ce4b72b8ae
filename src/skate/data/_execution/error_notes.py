"""Notes on exceptions: where something went wrong, below what went wrong."""

from __future__ import annotations

from skate._core.errors import task_error
from skate.exceptions import TaskError


def as_of_a_task(error: Exception, name: str) -> Exception:
    """The error as it would come from another process, of its own type and a TaskError: where a
    step runs, which users do not choose, changes nothing for `except`."""
    if isinstance(error, TaskError):
        return error
    dual = task_error(error, name).as_instanceof_cause()
    return dual if isinstance(dual, type(error)) else error


def add_note(error: BaseException, note: str) -> None:
    """Shown below the error's message; Python 3.10 has no notes, there it joins the message."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    elif not error.args or isinstance(error.args[0], str):
        first = f"{error.args[0]}\n{note}" if error.args else note
        error.args = (first, *error.args[1:])
    else:
        error.__notes__ = [*getattr(error, "__notes__", ()), note]
