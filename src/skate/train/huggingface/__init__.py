"""Training with Hugging Face's libraries; `transformers` has all there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.train.huggingface import transformers
    from skate.train.huggingface.transformers import (
        HuggingFaceTrainer,
        RayTrainReportCallback,
        TrainReportCallback,
        TransformersTrainer,
        prepare_trainer,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "HuggingFaceTrainer",
    "RayTrainReportCallback",
    "TrainReportCallback",
    "TransformersTrainer",
    "prepare_trainer",
    "transformers",
]
