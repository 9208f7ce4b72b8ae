"""Lightning's strategies, on the devices of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from skate._core.optional_imports import try_import
from skate._run.session import world_size
from skate.train.lightning._environment import LightningEnvironment
from skate.train.lightning._package import lightning_module
from skate.train.torch._devices import get_device

if TYPE_CHECKING:
    import lightning


_strategies: Any = lightning_module("strategies")


class _OnWorker:
    """Each process has one device, and a part of the data by its rank among all workers."""

    world_size: int
    global_rank: int
    _has_made_group = False

    @property
    def root_device(self) -> torch.device:
        return get_device()

    @root_device.setter
    def root_device(self, device: torch.device) -> None:
        """Lightning may name one; the worker's counts."""

    @property
    def distributed_sampler_kwargs(self) -> dict[str, object]:
        return {"num_replicas": self.world_size, "rank": self.global_rank}

    def setup_environment(self) -> None:
        """Make a process group where there is none yet, with num_workers=0: one that is alone
        needs no network."""
        if not dist.is_initialized() and world_size() == 1:
            backend = "nccl" if self.root_device.type == "cuda" else "gloo"
            store = dist.HashStore()  # type: ignore[attr-defined]
            dist.init_process_group(backend, store=store, rank=0, world_size=1)
            self._has_made_group = True
        super().setup_environment()  # type: ignore[misc]

    def teardown(self) -> None:
        super().teardown()  # type: ignore[misc]
        if self._has_made_group:
            self._has_made_group = False
            dist.destroy_process_group()


class DDPStrategy(_OnWorker, _strategies.DDPStrategy):  # type: ignore[misc]
    """For `Trainer(strategy=…)`: gradients are averaged over the workers of a TorchTrainer. Takes
    what Lightning's own takes; the process group is that of `TorchConfig`."""


class FSDPStrategy(_OnWorker, _strategies.FSDPStrategy):  # type: ignore[misc]
    """For `Trainer(strategy=…)`: parameters are spread over the workers of a TorchTrainer, on
    GPUs. Takes what Lightning's own takes."""


class DeepSpeedStrategy(_OnWorker, _strategies.DeepSpeedStrategy):  # type: ignore[misc]
    """For `Trainer(strategy=…)`: DeepSpeed on the workers of a TorchTrainer, on GPUs. Takes what
    Lightning's own takes."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        try_import("deepspeed", "deepspeed")
        super().__init__(*args, **kwargs)


def prepare_trainer(trainer: lightning.Trainer) -> Any:
    """Return the Lightning trainer, if it can train on the workers of a TorchTrainer; else raise
    an error that says what it needs."""
    allowed = (DDPStrategy, FSDPStrategy, DeepSpeedStrategy)
    if not isinstance(trainer.strategy, allowed):
        raise RuntimeError(
            f"the strategy of the Lightning trainer is {type(trainer.strategy).__name__}, which "
            "starts processes of its own; use one of skate.train.lightning: "
            f"Trainer(strategy=…) with {[kind.__name__ for kind in allowed]}"
        )
    environment = trainer.strategy.cluster_environment
    if environment is not None and not isinstance(environment, LightningEnvironment):
        raise RuntimeError(
            f"the environment of the Lightning trainer is {type(environment).__name__}, which "
            "does not know the workers; use that of skate.train.lightning: "
            "Trainer(plugins=[LightningEnvironment()])"
        )
    return trainer
