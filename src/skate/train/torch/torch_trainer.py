"""Training a PyTorch loop on several workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.train.data_parallel_trainer import DataParallelTrainer
from skate.train.torch._config import TorchConfig

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from skate.train.base_trainer import TrainerSettings


class TorchTrainer(DataParallelTrainer):
    """A `DataParallelTrainer` whose workers form a `torch.distributed` process group.

    def loop(config):
        model = train.torch.prepare_model(Net())
        loader = train.torch.prepare_data_loader(DataLoader(...))
        ...
        train.report({"loss": loss}, checkpoint=checkpoint)

    TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2)).fit()
    """

    def __init__(
        self,
        train_loop_per_worker: Callable[..., Any],
        *,
        torch_config: TorchConfig | None = None,
        **settings: Unpack[TrainerSettings],
    ) -> None:
        backend = torch_config or TorchConfig()
        super().__init__(train_loop_per_worker, backend_config=backend, **settings)
