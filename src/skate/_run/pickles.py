"""Pickles in files: signed where they are written, read where this user has signed them.

    signed_pickle(value)              the pickle and, behind its end, a signature
    unpickle(data, "…/tuner.pkl")     the value, if this user signed it, or if that is allowed

Whoever unpickles runs what the file says. So what comes from elsewhere (a download, a colleague's
run, another machine) is refused unless somebody says otherwise: `allow_pickle=True` for a call,
SKATE_ALLOW_PICKLE=1 for a process. A plain `pickle.load` reads signed files as well: it stops
where the signature begins.

Files that a program wrote by itself, and then reported, have their signature beside them
(`own_files`): a model that was saved as a whole can be read again after a crash.
"""

from __future__ import annotations

import contextlib
import hmac
import io
import os
import pickle
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import cloudpickle

from skate._core.consent import program_allows_pickle
from skate._core.plain_files import read_plain
from skate._core.refs import ObjectRef
from skate._run.signing_key import signing_key
from skate._run.stored_references import LostReference, lost_here, reduced
from skate.exceptions import UnreadablePickleError, UntrustedPickleError

NOT_SIGNED = (
    "and was not signed by this user on this machine, so that it comes from elsewhere, or was "
    "changed or damaged since"
)
HASH_BYTES = 32
PICKLE_START = b"\x80"  # of protocol 2 and later

_MARK = b"\nskate-signature:"
_LENGTH = len(_MARK) + 2 * HASH_BYTES
_BLOCK_BYTES = 1 << 20

_allowed: ContextVar[bool] = ContextVar("allow_pickle", default=False)


def signed_pickle(value: object) -> bytes:
    """Pickle a value and sign the bytes.

    Args:
        value: Anything that cloudpickle can pickle.
    """
    file = io.BytesIO()
    _FilePickler(file).dump(value)
    file.write(_MARK + _signature(file.getbuffer()).encode())
    return file.getvalue()


class _FilePickler(cloudpickle.Pickler):
    def reducer_override(self, obj: object) -> Any:
        return reduced(obj) if isinstance(obj, ObjectRef) else super().reducer_override(obj)


def unpickle(
    data: bytes, place: str, allow_pickle: bool = False, lost: list[LostReference] | None = None
) -> Any:
    """Unpickle what this user has signed, or what is allowed to be unpickled.

    Args:
        data: A pickle, as `signed_pickle` or anybody else made it.
        place: Where it comes from, for errors.
        allow_pickle: Whether it may run whatever it says.
        lost: Gets the references to objects of other sessions, which are no error then.

    Raises:
        UntrustedPickleError: If it was not signed by this user, and is not allowed.
        UnreadablePickleError: If it is damaged, or needs code or objects that are not here.
    """
    if not (allow_pickle or is_allowed() or _is_signed(data)):
        raise UntrustedPickleError(place, f"is a pickle, {NOT_SIGNED}")
    found: list[LostReference] = []
    token = lost_here.set(found)
    try:
        value = pickle.loads(data)
    except Exception as error:
        raise UnreadablePickleError(place, error) from error
    finally:
        lost_here.reset(token)
    if found and lost is None:
        gone = LookupError(f"it holds {len(found)} references to objects whose session is over")
        raise UnreadablePickleError(place, gone)
    if lost is not None:
        lost += found
    return value


def _is_signed(data: bytes) -> bool:
    view = memoryview(data)
    content, end = view[:-_LENGTH], bytes(view[-_LENGTH:])
    if not end.startswith(_MARK):
        return False
    return hmac.compare_digest(_signature(content).encode(), end[len(_MARK) :])


def _signature(*blocks: Any) -> str:
    hashed = hmac.new(signing_key(), digestmod="sha256")
    for block in blocks:
        hashed.update(block)
    return hashed.hexdigest()


# -- consent --------------------------------------------------------------------------------------


def is_allowed() -> bool:
    """Return whether pickles of others may be read here and now."""
    return _allowed.get() or program_allows_pickle()


@contextlib.contextmanager
def allowing(allow_pickle: bool) -> Iterator[None]:
    """Allow pickles of others in a block.

    Args:
        allow_pickle: False changes nothing.
    """
    token = _allowed.set(_allowed.get() or allow_pickle)
    try:
        yield
    finally:
        _allowed.reset(token)


# -- files that others write ----------------------------------------------------------------------


def signature_file(path: str) -> str:
    """Return where the signature of a file is, if it is not in the file itself."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.signature")


def signature_of_file(path: str) -> bytes:
    """Return the signature of a file that this user's program has written.

    Args:
        path: The file; its signature belongs into `signature_file(path)`.
    """
    return _signature(*_blocks(path)).encode()


def read_signed(path: str, allow_pickle: bool = False) -> bytes:
    """Read a file that is going to be unpickled, by whoever knows its format.

    Args:
        path: The file, with its signature in it or beside it.
        allow_pickle: Whether it may run whatever it says.

    Raises:
        UntrustedPickleError: If it was not signed by this user, and is not allowed.
    """
    data = read_plain(path)
    if not (allow_pickle or is_allowed() or _is_signed(data)):
        try:
            signature = read_plain(signature_file(path))
        except FileNotFoundError:
            raise UntrustedPickleError(path, f"is a pickle, {NOT_SIGNED}") from None
        if not hmac.compare_digest(_signature(data).encode(), signature):
            raise UntrustedPickleError(path, f"is a pickle, {NOT_SIGNED}")
    return data


def is_signed_file(path: str) -> bool:
    """Return whether the signature beside a file is this user's, and that of its content.

    Args:
        path: The file.
    """
    with contextlib.suppress(OSError):
        return hmac.compare_digest(signature_of_file(path), read_plain(signature_file(path)))
    return False


def _blocks(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            yield block
