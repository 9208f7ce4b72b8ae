"""Training with `transformers.Trainer`, in the loop of a TorchTrainer.

def loop():
    trainer = transformers.Trainer(model, TrainingArguments(…), train_dataset=data)
    trainer.add_callback(TrainReportCallback())
    prepare_trainer(trainer).train()

TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2)).fit()
"""

from skate._core.optional_imports import try_import
from skate._core.public_names import name_publicly

try_import("transformers", "huggingface")
try_import("accelerate", "huggingface")

from skate.train.huggingface.transformers._callback import TrainReportCallback  # noqa: E402
from skate.train.huggingface.transformers._data import prepare_trainer  # noqa: E402
from skate.train.huggingface.transformers.transformers_trainer import (  # noqa: E402
    TransformersTrainer,
)

RayTrainReportCallback = TrainReportCallback
HuggingFaceTrainer = TransformersTrainer

__all__ = [
    "HuggingFaceTrainer",
    "RayTrainReportCallback",
    "TrainReportCallback",
    "TransformersTrainer",
    "prepare_trainer",
]

name_publicly(__name__)
