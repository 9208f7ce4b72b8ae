"""Checkpoints that are one file with a model."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from skate._run.checkpoint import Checkpoint
from skate._run.folders import TemporaryFolder

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
        """What `write` puts into a file, in an empty folder `path`, or one that is deleted with
        the checkpoint."""
        if path is not None and not os.path.isdir(path):
            raise ValueError(f"path is an existing folder; got {os.fspath(path)!r}")
        if path is None:
            checkpoint = cls._in_temporary(TemporaryFolder("checkpoint_"))
        else:
            checkpoint = cls.from_directory(path)
        write(os.path.join(checkpoint.path, cls.MODEL_FILENAME))
        if preprocessor is not None:
            checkpoint.set_preprocessor(preprocessor)
        return checkpoint
