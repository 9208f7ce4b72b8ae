"""The secret of this user that pickles are signed with: a file that nobody else can read.

    $XDG_STATE_HOME/skate/pickle.key       by default ~/.local/state/skate/pickle.key
    $TMPDIR/skate-key-<uid>/pickle.key     where there is no home to write to, as in containers

Only a file that belongs to this user and is closed to all others is used, in a folder of this
user that nobody else can write to. Where neither place will do, the secret lives as long as the
process.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile

from skate._core.private_files import is_private, make_private_folder, own_state_folder

KEY_FILE = "pickle.key"
KEY_BYTES = 32

_key: bytes | None = None


def signing_key() -> bytes:
    """Return the secret of this process, made on first use by any process of this user."""
    global _key
    if _key is None:
        _key = _stored_key() or secrets.token_bytes(KEY_BYTES)
    return _key


def adopt_signing_key(key: bytes) -> None:
    """Use the secret of the program that this worker works for, whose home may be another.

    Args:
        key: What `signing_key` returned there.
    """
    global _key
    _key = key


def _stored_key() -> bytes | None:
    for folder in _places():
        try:
            return _key_in(folder)
        except OSError:
            continue
    return None


def _places() -> list[str]:
    shared = os.path.join(tempfile.gettempdir(), f"skate-key-{os.geteuid()}")
    return [own_state_folder(), shared]


def _key_in(folder: str) -> bytes:
    """Return the secret in a folder, which is made if it is not there.

    Raises:
        OSError: If others can write to the folder, or know the file.
    """
    make_private_folder(folder)
    inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_private(inside, folder, others_may_read=True)  # but not the file
        try:
            return _read(inside)
        except FileNotFoundError:
            _make(inside)
            return _read(inside)
    finally:
        os.close(inside)


def _read(folder: int) -> bytes:
    file = os.open(KEY_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        _check_private(file, KEY_FILE)
        key = os.read(file, KEY_BYTES + 1)
    finally:
        os.close(file)
    if len(key) != KEY_BYTES:
        raise OSError(f"{KEY_FILE} has {len(key)} bytes")
    return key


def _make(folder: int) -> None:
    """Write a new secret. If another process is faster, its secret stays."""
    draft = f"{KEY_FILE}.{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = os.open(draft, flags, 0o600, dir_fd=folder)
    try:
        os.write(file, secrets.token_bytes(KEY_BYTES))
    finally:
        os.close(file)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(draft, KEY_FILE, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.unlink(draft, dir_fd=folder)


def _check_private(descriptor: int, name: str, *, others_may_read: bool = False) -> None:
    if not is_private(os.fstat(descriptor), others_may_read=others_may_read):
        raise PermissionError(f"{name} is open to others, or belongs to somebody else")
