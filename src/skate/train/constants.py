"""Names that checkpoints and datasets use."""

from skate._run.checkpoint import MODEL_KEY, PREPROCESSOR_KEY
from skate.train._data import TRAIN_DATASET_KEY

__all__ = ["MODEL_KEY", "PREPROCESSOR_KEY", "TRAIN_DATASET_KEY"]
