"""Errors in files: what was raised, for the programs of this user, and a description for all.

error.pkl     the exception itself, signed; read only where this user has signed it
error.json    its type, its message and its traceback: data, for whoever looks at a run
"""

from __future__ import annotations

import json
import pickle
import traceback
from typing import TYPE_CHECKING, Any

from skate._run.pickles import signed_pickle, unpickle
from skate.exceptions import TaskError, UnreadablePickleError, UntrustedPickleError

if TYPE_CHECKING:
    from skate._run.folders import StorageFolder
    from skate._run.storage import Storage

ERROR_FILE = "error.pkl"
DESCRIPTION_FILE = "error.json"


class NothingToRestoreError(FileNotFoundError, ValueError):
    """There is no run or search to go on with in this folder."""


class RecordedError(RuntimeError):
    """What a run or a trial raised, as its folder describes it: not the exception itself, because
    that was pickled by somebody else, or cannot be read any more.

    Attributes:
        type_name: The type that it had, as "builtins.ValueError".
        message: Its message.
        traceback_text: Its traceback, as Python prints it.
    """

    def __init__(self, type_name: str, message: str, traceback_text: str) -> None:
        super().__init__(type_name, message, traceback_text)
        self.type_name = type_name
        self.message = message
        self.traceback_text = traceback_text

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}\n{self.traceback_text}".rstrip()


def error_text(error: BaseException) -> str:
    """Return the error as Python prints it."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def write_error(folder: StorageFolder, error: BaseException, instead: type[Exception]) -> None:
    """Write an error into the folder of what it ended.

    Args:
        folder: That of a run or a trial.
        error: What was raised.
        instead: The type to write, with the error's text, if it cannot be pickled and read back,
            as with a class that is not made from its message alone.
    """
    raised = error.cause if isinstance(error, TaskError) else error
    described = {
        "type": f"{type(raised).__module__}.{type(raised).__qualname__}",
        "message": _message(raised),
        "traceback": error_text(error),
    }
    folder.write(DESCRIPTION_FILE, json.dumps(described).encode())
    folder.write(ERROR_FILE, _pickled(error, instead))


def _message(error: BaseException) -> str:
    """Return the error's text; that is made by code of the user's, which may raise."""
    try:
        return str(error)
    except Exception as problem:
        return f"<no text: str() of it raised {type(problem).__name__}>"


def _pickled(error: BaseException, instead: type[Exception]) -> bytes:
    try:
        data = signed_pickle(error)
        pickle.loads(data)
    except Exception:
        data = signed_pickle(instead(error_text(error)))
    return data


def delete_error(storage: Storage) -> None:
    """Forget an error: what it ended has begun again."""
    for name in (ERROR_FILE, DESCRIPTION_FILE):
        storage.delete(name)


def read_error(storage: Storage, allow_pickle: bool = False) -> BaseException | None:
    """Return the error in a folder; None if there is none.

    Args:
        storage: The folder of a run or a trial.
        allow_pickle: Whether to read an exception that was not written by this user on this
            machine, which runs whatever code it contains.

    Returns:
        The exception itself, if it may and can be read; else a `RecordedError` that describes it;
        without a description, the error that says why the exception was not read.
    """
    unread: BaseException | None = None
    if storage.exists(ERROR_FILE):
        place = f"{storage.path}/{ERROR_FILE}"
        try:
            found: Any = unpickle(storage.read(ERROR_FILE), place, allow_pickle)
        except (UntrustedPickleError, UnreadablePickleError) as problem:
            unread = problem
        else:
            if isinstance(found, BaseException):
                return found
            unread = UnreadablePickleError(place, TypeError(f"it holds {type(found).__name__}"))
    return _described(storage) or unread


def _described(storage: Storage) -> RecordedError | None:
    if not storage.exists(DESCRIPTION_FILE):
        return None
    try:
        about = json.loads(storage.read(DESCRIPTION_FILE))
        return RecordedError(*(str(about[name]) for name in ("type", "message", "traceback")))
    except (ValueError, KeyError, TypeError, RecursionError):  # damaged, or nested without end
        return None
