"""Checkpoints that are one file with a model."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any, TypeVar

from skate._run.checkpoint import Checkpoint

AnyModelFileCheckpoint = TypeVar("AnyModelFileCheckpoint", bound="ModelFileCheckpoint")


class ModelFileCheckpoint(Checkpoint):
    """The base for those of libraries that know how to write and read a model."""

    MODEL_FILENAME: str

    @classmethod
    def _written(
        cls: type[AnyModelFileCheckpoint],
        write: Callable[[str], Any],
        preprocessor: Any,
        path: str | os.PathLike[str] | None,
    ) -> AnyModelFileCheckpoint:
        """What `write` puts into a file, in an empty folder `path` or a new temporary one."""
        folder = tempfile.mkdtemp(prefix="checkpoint_") if path is None else os.fspath(path)
        if not os.path.isdir(folder):
            raise ValueError(f"path is an existing folder; got {folder!r}")
        write(os.path.join(folder, cls.MODEL_FILENAME))
        checkpoint = cls.from_directory(folder)
        if preprocessor is not None:
            checkpoint.set_preprocessor(preprocessor)
        return checkpoint
