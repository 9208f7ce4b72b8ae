"""Who and where a trial is."""

from skate._run.context import TrainContext as TuneContext
from skate._run.session import get_context

__all__ = ["TuneContext", "get_context"]
