"""Models that a program pickled into a folder and then reported: signed, so that it can read them
again, after a crash too.

Only files that predictors and checkpoints of frameworks look for are signed, and of these only the
ones that cannot be read without running code: weights of torch need no signature.
"""

from __future__ import annotations

import os
import sys

from skate._run.pickles import PICKLE_START, signature_file, signature_of_file

SKLEARN_FILES = ("model.pkl", "model", "estimator.pkl")
TORCH_FILES = ("model.pt", "model.pth", "checkpoint.pt")

_ARCHIVE = b"PK"  # begins what torch writes, since version 1.6


def signatures_of_models(folder: str) -> dict[str, bytes]:
    """Sign what a later program of this user might have to unpickle.

    Args:
        folder: The folder of a checkpoint that this user's program reports.

    Returns:
        Names of files to be beside those that are signed, with their contents.
    """
    paths = [os.path.join(folder, name) for name in (*SKLEARN_FILES, *TORCH_FILES)]
    return {
        os.path.basename(signature_file(path)): signature_of_file(path)
        for path in paths
        if os.path.isfile(path) and _runs_code(path)
    }


def _runs_code(path: str) -> bool:
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
