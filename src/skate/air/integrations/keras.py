"""The callbacks for Keras."""

from skate.train.tensorflow.keras import Callback, ReportCheckpointCallback

__all__ = ["Callback", "ReportCheckpointCallback"]
