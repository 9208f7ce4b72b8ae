"""Models in checkpoints: a file of the folder, or the value `model` of a dictionary."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from skate._run.checkpoint import MODEL_KEY, Checkpoint
from skate._run.pickles import read_signed, unpickle


def model_in(checkpoint: Checkpoint, files: Sequence[str], read: Callable[[str], object]) -> Any:
    """Return what `read` makes of the first of the files that is there; else `model`."""
    kind, value = checkpoint.get_internal_representation()
    if kind != "data_dict":
        with checkpoint.as_directory() as folder:
            for name in files:
                path = os.path.join(folder, name)
                if os.path.isfile(path):
                    return read(path)
        value = checkpoint.to_dict()
    if MODEL_KEY not in value:
        raise ValueError(
            f"there is no model in {checkpoint}: it has {sorted(map(str, value))}; save it as "
            f"{MODEL_KEY!r}, or as one of the files {list(files)}"
        )
    return value[MODEL_KEY]


def unpickled(path: str) -> Any:
    """Return the value in a file that this user has signed, or that is allowed."""
    return unpickle(read_signed(path), path, allow_pickle=True)
