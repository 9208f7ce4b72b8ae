"""Checkpoints that are one file with a model."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from skate._run.checkpoint import Checkpoint
from skate._run.folders import TemporaryFolder

if TYPE_CHECKING:
    from skate.data.preprocessor import Preprocessor


AnyModelFileCheckpoint = TypeVar("AnyModelFileCheckpoint", bound="ModelFileCheckpoint")
AnyBoosterCheckpoint = TypeVar("AnyBoosterCheckpoint", bound="BoosterCheckpoint")


class ModelFileCheckpoint(Checkpoint):
    """The base for those of libraries that know how to write and read a model."""

    MODEL_FILENAME: str

    @classmethod
    def _written(
        cls: type[AnyModelFileCheckpoint],
        write: Callable[[str], object],
        preprocessor: object,
        path: str | os.PathLike[str] | None,
    ) -> AnyModelFileCheckpoint:
        """Make a checkpoint of what `write` puts into a file, in an empty folder `path`, or one
        that is deleted with the checkpoint."""
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


class BoosterLike(Protocol):
    """A model of XGBoost or LightGBM."""

    def save_model(self, filename: str) -> Any:
        """Write the model to a file."""
        ...


class BoosterCheckpoint(ModelFileCheckpoint):
    """The base for those of libraries whose models write themselves."""

    @classmethod
    def from_model(
        cls: type[AnyBoosterCheckpoint],
        booster: BoosterLike,
        *,
        preprocessor: Preprocessor | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> AnyBoosterCheckpoint:
        """Make a checkpoint that holds a model.

        Args:
            booster: The model.
            preprocessor: What was fitted to the data that the model was trained on.
            path: An existing folder to write to; by default a temporary one, which is deleted with
                the checkpoint.
        """
        return cls._written(lambda place: booster.save_model(place), preprocessor, path)
