"""The one `ReportCheckpointCallback` for Keras."""

from skate.train.tensorflow.keras import ReportCheckpointCallback

__all__ = ["ReportCheckpointCallback"]
