"""What Lightning asks its surroundings: who this process is among all."""

from __future__ import annotations

from typing import Any

from skate._run import session
from skate.train.lightning._package import lightning_module

_LightningEnvironment: Any = lightning_module("plugins.environments").LightningEnvironment


class LightningEnvironment(_LightningEnvironment):  # type: ignore[misc]
    """For `Trainer(plugins=[…])`: the workers of a TorchTrainer; Lightning starts none."""

    @property
    def creates_processes_externally(self) -> bool:
        return True

    def world_size(self) -> int:
        return session.world_size()

    def global_rank(self) -> int:
        return session.world_rank()

    def local_rank(self) -> int:
        return session.local_rank()

    def node_rank(self) -> int:
        return session.node_rank()

    def set_world_size(self, size: int) -> None:
        """Ignore what Lightning makes of its devices: the trainer says how many workers there
        are."""

    def set_global_rank(self, rank: int) -> None:
        """Set the worker's own rank; Lightning is to log and print on the first of all only."""
        super().set_global_rank(self.global_rank())

    def teardown(self) -> None:
        """Leave everything as it is: the workers go on."""
