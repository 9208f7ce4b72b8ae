"""PyTorch Lightning on the workers of a trainer, with the real thing."""

from __future__ import annotations

import os
import signal
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch

import skate.data
from skate import train
from skate.compat import ray as compat
from skate.train import CheckpointUploadMode, FailureConfig, ScalingConfig
from skate.train import lightning as integration
from skate.train.torch import TorchTrainer

pytestmark = [
    # of Lightning about itself, and of torch about Lightning
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(autouse=True)
def threads_that_lightning_leaves_alone(monkeypatch):
    """Where the variable is unset, Lightning sets it for good: for later tests' workers, too."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


class Line(pl.LightningModule):
    """Learns the sum of three numbers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(3, 1)

    def loss(self, batch: Any) -> torch.Tensor:
        x, y = (batch["x"], batch["y"]) if isinstance(batch, dict) else batch
        return torch.nn.functional.mse_loss(self.layer(x.float()), y.float())

    def training_step(self, batch: Any, number: int) -> torch.Tensor:
        loss = self.loss(batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, number: int) -> None:
        self.log("val_loss", self.loss(batch), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def rows(count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).random((count, 3)).astype(np.float32)


def loader(count: int) -> Any:
    x = torch.from_numpy(rows(count))
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    return torch.utils.data.DataLoader(data, batch_size=8)


def lightning_trainer(epochs: int, *callbacks: Any, **settings: Any) -> Any:
    trainer = pl.Trainer(
        **{
            "max_epochs": epochs,
            "accelerator": "cpu",
            "devices": "auto",
            "strategy": integration.RayDDPStrategy(),
            "plugins": [integration.RayLightningEnvironment()],
            "callbacks": [*callbacks, integration.RayTrainReportCallback()],
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": False,
            "enable_model_summary": False,
            **settings,
        }
    )
    return integration.prepare_trainer(trainer)


def fit(loop: Any, run_config: Any, workers: int = 2, **settings: Any) -> Any:
    return TorchTrainer(
        loop, scaling_config=ScalingConfig(num_workers=workers), run_config=run_config, **settings
    ).fit()


def weights_in(checkpoint: Any) -> Any:
    with checkpoint.as_directory() as folder:
        name = integration.TrainReportCallback.CHECKPOINT_NAME
        saved = torch.load(os.path.join(folder, name), weights_only=False)
    return saved["state_dict"]["layer.weight"]


def test_the_package_is_found_where_programs_for_ray_ask_for_it() -> None:
    compat.install()
    try:
        from ray.train.lightning._lightning_utils import import_lightning

        assert import_lightning() is pl
    finally:
        compat.uninstall()


def test_two_workers_train_one_model_and_go_on_after_one_was_killed(run_config, tally):
    class Killer(pl.Callback):
        def on_train_epoch_start(self, trainer, pl_module):
            if trainer.current_epoch == 2 and trainer.global_rank == 1 and len(tally) == 0:
                tally.add()
                os.kill(os.getpid(), signal.SIGKILL)

    def loop():
        trainer = lightning_trainer(4, Killer())
        module = Line()
        checkpoint = train.get_checkpoint()
        path = checkpoint and os.path.join(checkpoint.path, "checkpoint.ckpt")
        trainer.fit(module, loader(64), loader(16), ckpt_path=path)
        assert trainer.world_size == 2
        assert trainer.global_rank == train.world_rank()
        mine = module.layer.weight.detach()
        parts = [torch.empty_like(mine) for _ in range(2)]
        torch.distributed.all_gather(parts, mine)
        return torch.equal(*parts), mine

    result = fit(loop, run_config(failure_config=FailureConfig(max_failures=1)))
    same, weights = result.return_value
    assert same
    assert len(tally) == 1
    assert torch.equal(weights_in(result.checkpoint), weights)
    history = result.metrics_dataframe
    assert list(history["epoch"]) == [0, 1, 2, 3]
    assert list(history["step"]) == [4, 8, 12, 16]  # 64 rows, 2 workers, batches of 8
    assert history["val_loss"].iloc[-1] < history["val_loss"].iloc[0]
    assert {"loss", "val_loss"} <= set(result.metrics)


def test_batches_of_a_shard(run_config):
    def loop():
        shard = train.get_dataset_shard("train")
        trainer = lightning_trainer(2)
        trainer.fit(Line(), shard.iter_torch_batches(batch_size=8))

    x = rows(32)
    data = skate.data.from_items([{"x": row, "y": row.sum(keepdims=True)} for row in x])
    result = fit(loop, run_config(), datasets={"train": data})
    assert result.metrics["step"] == 4  # 32 rows, 2 workers, batches of 8, 2 epochs


def test_in_this_process(run_config):
    def loop():
        lightning_trainer(1).fit(Line(), loader(16))

    assert fit(loop, run_config(), workers=0).metrics["epoch"] == 0


def test_trainers_that_know_nothing_of_the_workers(run_config):
    def loop():
        problems = []
        for settings in ({"strategy": "auto", "plugins": None}, {"plugins": None}):
            try:
                lightning_trainer(1, **settings)
            except RuntimeError as error:
                problems.append(str(error))
        return problems

    strategy, environment = fit(loop, run_config(), workers=0).return_value
    assert "SingleDeviceStrategy" in strategy
    assert "DDPStrategy" in strategy
    assert "plugins=[LightningEnvironment()]" in environment


def test_strategies_use_the_device_of_the_worker(run_config):
    def loop():
        return [integration.FSDPStrategy().root_device, integration.DDPStrategy().root_device]

    assert fit(loop, run_config(), workers=0).return_value == [torch.device("cpu")] * 2


def test_deepspeed_is_missing():
    with pytest.raises(ImportError, match=r"'deepspeed'.*\[deepspeed\]"):
        integration.RayDeepSpeedStrategy(stage=2)


def test_a_temporary_checkpoint_cannot_stay_where_it_is():
    with pytest.raises(ValueError, match="NO_UPLOAD"):
        integration.TrainReportCallback(CheckpointUploadMode.NO_UPLOAD)
