"""What programs take from Ray's tests of training: dicts as checkpoints that are folders."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any

from skate._run.checkpoint import Checkpoint


@contextlib.contextmanager
def create_dict_checkpoint(
    checkpoint_dict: dict[str, Any], checkpoint_cls: type[Checkpoint] | None = None
) -> Iterator[Checkpoint]:
    """A checkpoint in a temporary folder, as long as the block runs."""
    with tempfile.TemporaryDirectory(prefix="checkpoint_") as folder:
        Checkpoint.from_dict(checkpoint_dict).to_directory(folder)
        yield (checkpoint_cls or Checkpoint).from_directory(folder)


def load_dict_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """The dict again."""
    return checkpoint.to_dict()
