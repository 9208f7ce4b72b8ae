"""Names that checkpoints and datasets use."""

from skate._run.checkpoint import MODEL_KEY, PREPROCESSOR_KEY
from skate.train._data import TRAIN_DATASET_KEY

EVALUATION_DATASET_KEY = "evaluation"
TENSOR_COLUMN_NAME = "__value__"

__all__ = [
    "EVALUATION_DATASET_KEY",
    "MODEL_KEY",
    "PREPROCESSOR_KEY",
    "TENSOR_COLUMN_NAME",
    "TRAIN_DATASET_KEY",
]
