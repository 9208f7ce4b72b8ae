"""Training with PyTorch Lightning, in the loop of a TorchTrainer.

def loop():
    trainer = Trainer(
        max_epochs=3,
        accelerator="auto",
        devices="auto",
        strategy=DDPStrategy(),
        plugins=[LightningEnvironment()],
        callbacks=[TrainReportCallback()],
    )
    prepare_trainer(trainer).fit(module, loader)

TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2)).fit()
"""

from skate._core.public_names import name_publicly
from skate.train.lightning._callback import TrainReportCallback
from skate.train.lightning._environment import LightningEnvironment
from skate.train.lightning._strategies import (
    DDPStrategy,
    DeepSpeedStrategy,
    FSDPStrategy,
    prepare_trainer,
)

RayDDPStrategy = DDPStrategy
RayDeepSpeedStrategy = DeepSpeedStrategy
RayFSDPStrategy = FSDPStrategy
RayLightningEnvironment = LightningEnvironment
RayTrainReportCallback = TrainReportCallback

__all__ = [
    "DDPStrategy",
    "DeepSpeedStrategy",
    "FSDPStrategy",
    "LightningEnvironment",
    "RayDDPStrategy",
    "RayDeepSpeedStrategy",
    "RayFSDPStrategy",
    "RayLightningEnvironment",
    "RayTrainReportCallback",
    "TrainReportCallback",
    "prepare_trainer",
]

name_publicly(__name__)
