"""The one `Checkpoint`."""

from skate._run.checkpoint import Checkpoint

__all__ = ["Checkpoint"]
