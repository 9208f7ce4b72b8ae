"""Who and where a worker is."""

from skate._run.context import TrainContext
from skate._run.session import get_context

__all__ = ["TrainContext", "get_context"]
