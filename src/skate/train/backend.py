"""How the workers of a group find each other: the base for one's own.

class MyConfig(BackendConfig):
    backend_cls = MyBackend

class MyBackend(Backend):
    def on_start(self, worker_group, backend_config):
        worker_group.execute(connect, backend_config)
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.train._workers.group import WorkerGroup
    from skate.train._workers.worker import TrainWorker


class BackendConfig:
    """Settings of a back end, and which one it is."""

    @property
    def backend_cls(self) -> type[Backend]:
        return Backend

    @property
    def train_func_context(self) -> Any:
        """A context manager, made anew in each worker, in which the loop runs."""
        return nullcontext

    def to_dict(self) -> dict[str, Any]:
        """Return the settings, as far as they can be shown."""
        return {}


class Backend:
    """Hooks, called in the program that trains; `worker_group.execute` reaches the workers."""

    share_cuda_visible_devices: bool = False
    """Whether each worker sees the GPUs of all workers on its machine."""

    worker_cls: type[TrainWorker] | None = None
    """The class of the workers, if it is another one than usual. Processes for a class are forked
    from where the modules have been imported that its own module uses."""

    def on_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Prepare the workers, when they have started.

        Args:
            worker_group: The workers, with `execute(function)`.
            backend_config: The settings.
        """

    def on_training_start(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Prepare the workers, when they know who they are, before the loop.

        Args:
            worker_group: The workers, with `execute(function)`.
            backend_config: The settings.
        """

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Clean up, when all loops are done.

        Args:
            worker_group: The workers, with `execute(function)`.
            backend_config: The settings.
        """

    # -- workers that are replaced one by one ---------------------------------------------------

    replaces_workers: bool = False
    """Whether the following hooks are there: `FailureConfig(restart="worker")` needs them."""

    def on_interrupt(self, worker_group: WorkerGroup, ranks: Sequence[int]) -> list[Any]:
        """Have what these workers do together with others fail, as one of the group is gone.

        Args:
            worker_group: The workers.
            ranks: Those that are alive.

        Returns:
            References to wait for.
        """
        return []

    def waits_in_vain(self, worker_group: WorkerGroup, rank: int) -> bool:
        """Say whether a worker will never come back from what `on_interrupt` should have ended.

        Args:
            worker_group: The workers.
            rank: One that has not come for a while.

        Returns:
            Whether it is to be replaced as well.
        """
        return False

    def on_newcomers(
        self, worker_group: WorkerGroup, backend_config: Any, ranks: Collection[int]
    ) -> None:
        """Prepare workers that take the places of others, until all are connected anew.

        Args:
            worker_group: The workers.
            backend_config: The settings.
            ranks: The new ones.
        """

    def on_reform(self, worker_group: WorkerGroup, backend_config: Any) -> None:
        """Connect all workers anew; their loops wait meanwhile.

        Args:
            worker_group: The workers.
            backend_config: The settings.
        """
