"""Errors in files: what was raised, or at least its text."""

from __future__ import annotations

import traceback

import cloudpickle


def error_text(error: BaseException) -> str:
    """The error as Python prints it."""
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def pickled_error(error: BaseException, instead: type[Exception]) -> bytes:
    """Bytes to read it back from; those of `instead` with its text where that is not possible, as
    with a class that is not made from its message alone."""
    try:
        data: bytes = cloudpickle.dumps(error)
        cloudpickle.loads(data)
    except Exception:
        data = cloudpickle.dumps(instead(error_text(error)))
    return data
