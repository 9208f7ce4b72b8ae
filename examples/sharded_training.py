"""Train a network whose parameters are spread over the workers (FSDP), and load it as a whole.

Each of the two workers holds half of the weights, and gathers the others when it needs them. What
is saved is a plain `state_dict`, so that the trained network needs neither FSDP nor two processes.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import skate
from skate import train
from skate.train import Checkpoint, RunConfig, ScalingConfig
from skate.train.torch import TorchTrainer, get_device

ROWS = 512


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 2))


def points() -> tuple[torch.Tensor, torch.Tensor]:
    """Return points of the plane, and whether each is on the right of a slanted line."""
    inputs = torch.rand(ROWS, 2, generator=torch.Generator().manual_seed(0))
    return inputs, (inputs[:, 0] > inputs[:, 1]).long()


def loop(config: dict[str, Any]) -> None:
    rank, size = train.get_context().get_world_rank(), train.get_context().get_world_size()
    inputs, labels = (part[rank::size].to(get_device()) for part in points())
    torch.manual_seed(0)
    model = network().to(get_device())
    fully_shard(model, mesh=init_device_mesh(get_device().type, (size,)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(config["epochs"]):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    shards: dict[str, Any] = model.state_dict()
    whole = {name: shard.full_tensor().cpu() for name, shard in shards.items()}  # with all workers
    held = sum(shard.to_local().numel() for shard in shards.values())
    report = {"held": held, "whole": sum(weights.numel() for weights in whole.values())}
    with tempfile.TemporaryDirectory() as folder:
        if rank == 0:
            torch.save(whole, os.path.join(folder, "weights.pt"))
        train.report(report, checkpoint=Checkpoint.from_directory(folder) if rank == 0 else None)


def main() -> None:
    trainer = TorchTrainer(
        loop,
        train_loop_config={"epochs": 60},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(verbose=0),
    )
    result = trainer.fit()
    assert result.metrics is not None
    assert result.checkpoint is not None
    print(f"each worker held {result.metrics['held']} of {result.metrics['whole']} parameters")
    model = network()
    with result.checkpoint.as_directory() as folder:
        model.load_state_dict(torch.load(os.path.join(folder, "weights.pt")))
    inputs, labels = points()
    right = (model(inputs).argmax(1) == labels).float().mean().item()
    print("learned" if right > 0.95 else f"not learned: {right:.2f} are right")


if __name__ == "__main__":
    skate.init(num_cpus=2)
    main()
