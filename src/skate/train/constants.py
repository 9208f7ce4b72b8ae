"""Names that checkpoints and datasets use."""

from skate._run.checkpoint import MODEL_KEY, PREPROCESSOR_KEY
from skate.train._data import TRAIN_DATASET_KEY

EVALUATION_DATASET_KEY = "evaluation"
TENSOR_COLUMN_NAME = "__value__"
MAX_REPR_LENGTH = 120  # of a preprocessor, as text

__all__ = [
    "EVALUATION_DATASET_KEY",
    "MAX_REPR_LENGTH",
    "MODEL_KEY",
    "PREPROCESSOR_KEY",
    "TENSOR_COLUMN_NAME",
    "TRAIN_DATASET_KEY",
]
