"""Training with Hugging Face's libraries; `transformers` has all there is."""

from skate.train.huggingface import transformers
from skate.train.huggingface.transformers import (
    HuggingFaceTrainer,
    RayTrainReportCallback,
    TrainReportCallback,
    TransformersTrainer,
    prepare_trainer,
)

__all__ = [
    "HuggingFaceTrainer",
    "RayTrainReportCallback",
    "TrainReportCallback",
    "TransformersTrainer",
    "prepare_trainer",
    "transformers",
]
