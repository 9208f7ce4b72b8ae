"""Models that a program pickled into a folder and then reported: signed, so that it can read them
again, after a crash too.

Only files that predictors and checkpoints of frameworks look for are signed, and of these only the
ones that cannot be read without running code: weights of torch need no signature, and models of
Keras only with an old Keras.

What comes from elsewhere stays without a signature, however often it is reported, copied and
reported again. A model is signed if

- it was written since the session began that reports it, and
- its content did not come into this process without a signature: with a checkpoint that the
  session was given, or by a download.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from skate._core.tensorflow_processes import unsafe_keras_3
from skate._run.pickles import PICKLE_START, signature_file, signature_of_file

SKLEARN_FILES = ("model.pkl", "model", "estimator.pkl")
KERAS_FILES = ("model.keras", "model.h5")
TORCH_FILES = ("model.pt", "model.pth", "checkpoint.pt")

_ARCHIVE = b"PK"  # begins what torch writes, since version 1.6
_CLOCK_SLACK_SECONDS = 0.05  # by which the times of files may be behind the clock

_foreign: set[bytes] = set()  # the signatures that must not be given here


def signatures_of_models(folder: str, written_since: float) -> dict[str, bytes]:
    """Sign what a later program of this user might have to unpickle.

    Args:
        folder: The folder of a checkpoint that this user's program reports.
        written_since: When its session began, in seconds since 1970: what is older was not
            written by it.

    Returns:
        Names of files to be beside those that are signed, with their contents.
    """
    signatures = {}
    for path, signature in _unsigned_models(folder):
        if _last_change(path) < written_since - _CLOCK_SLACK_SECONDS:
            _foreign.add(signature)
        elif signature not in _foreign:
            signatures[os.path.basename(signature_file(path))] = signature
    return signatures


def note_foreign_models(folder: str) -> None:
    """Remember models that come in without a signature, so that they are never given one here.

    Args:
        folder: The folder of a checkpoint that this program is given, or has downloaded.
    """
    _foreign.update(signature for _, signature in _unsigned_models(folder))


def _unsigned_models(folder: str) -> Iterator[tuple[str, bytes]]:
    """Return each model without a valid signature beside it, and the one it would have."""
    names: tuple[str, ...] = (*SKLEARN_FILES, *TORCH_FILES, *KERAS_FILES)
    if os.path.isfile(folder):
        folder, name = os.path.split(folder)
        names = tuple({name} & set(names))
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and _runs_code(path):
            right, found = signature_of_file(path), b""
            with contextlib.suppress(OSError):
                found = Path(signature_file(path)).read_bytes()
            if not hmac.compare_digest(right, found):
                yield path, right


def _last_change(path: str) -> float:
    """Return when both content and file were there: copies may keep the former's time, and files
    that are moved their own."""
    about = os.stat(path)
    return min(about.st_mtime, about.st_ctime)


def _runs_code(path: str) -> bool:
    if os.path.basename(path) in KERAS_FILES:
        return unsafe_keras_3() is not None
    with open(path, "rb") as file:
        start = file.read(2)
    if start != _ARCHIVE:
        return start.startswith(PICKLE_START)
    torch = sys.modules.get("torch")
    if torch is None:  # nobody here has written it
        return False
    try:
        return bool(torch.serialization.get_unsafe_globals_in_checkpoint(path))
    except Exception:  # not torch's, or in a format that has to be read as a whole
        return True
