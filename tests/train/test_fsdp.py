"""Models that are spread over the workers, and their checkpoints for another number of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)

from skate import train
from skate.train import Checkpoint
from skate.train.torch import TorchTrainer

WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


def sharded_loop(config: dict[str, Any]) -> None:
    """Go on from a checkpoint, if there is one; take a step, and save."""
    torch.manual_seed(train.world_rank())
    net = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ReLU(), torch.nn.Linear(10, 1))
    model = train.torch.prepare_model(net, parallel_strategy="fsdp2")
    assert model.module is not None
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    before = train.get_checkpoint()
    if before is not None:
        weights, moments = get_state_dict(model, optimizer)
        state: dict[str, Any] = {"model": weights, "optimizer": moments}
        with before.as_directory() as folder:
            dcp.load(state, checkpoint_id=folder)
        set_state_dict(
            model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
    else:
        model(torch.ones(4, 6)).sum().backward()
        optimizer.step()
    values = {name: value.tolist() for name, value in _whole(model).items()}
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=config["folder"])
    train.report({"values": values}, checkpoint=Checkpoint.from_directory(config["folder"]))


def _whole(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return get_model_state_dict(model, options=WHOLE)  # type: ignore[return-value]


def fit(run_config: Any, folder: Path, workers: int, **settings: Any) -> Any:
    return TorchTrainer(
        sharded_loop,
        train_loop_config={"folder": str(folder)},
        scaling_config={"num_workers": workers, "resources_per_worker": {"CPU": 0.5}},
        run_config=run_config(name=folder.name),
        **settings,
    ).fit()


def test_saved_on_two_ranks_and_loaded_on_others(run_config, tmp_path):
    saved = fit(run_config, tmp_path / "two", 2)
    for workers in (1, 3):
        folder = tmp_path / f"on-{workers}"
        loaded = fit(run_config, folder, workers, resume_from_checkpoint=saved.checkpoint)
        assert loaded.metrics["values"] == saved.metrics["values"]
    dcp_to_torch_save(saved.checkpoint.path, tmp_path / "whole.pt")
    whole = torch.load(tmp_path / "whole.pt", weights_only=True)["model"]
    assert {name: value.tolist() for name, value in whole.items()} == saved.metrics["values"]


def test_it_cannot_be_replaced_alone(run_config, tmp_path):
    def loop():
        model = train.torch.prepare_model(torch.nn.Linear(2, 2), parallel_strategy="fsdp2")
        with pytest.raises(TypeError, match=r"spread over the workers.*restart='group'"):
            train.torch.ResilientState(model=model)

    failure = train.FailureConfig(restart="worker")
    TorchTrainer(
        loop,
        scaling_config={"num_workers": 2},
        run_config=run_config(failure_config=failure),
    ).fit()
