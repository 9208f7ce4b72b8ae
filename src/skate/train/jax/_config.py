"""How JAX workers find each other: `jax.distributed`, whose coordinator is rank 0."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from skate._core.optional_imports import try_import
from skate.train._workers.addresses import free_address
from skate.train._workers.group import WorkerGroup
from skate.train.backend import Backend, BackendConfig

_PLATFORMS = {"use_tpu": "tpu", "use_gpu": "cuda", "use_cpu": "cpu"}


@dataclass
class JaxConfig(BackendConfig):
    """Say on what the workers compute together; without any, each computes by itself.

    In workers that do, `JAX_PLATFORMS` is set, unless it was before.

    Args:
        use_tpu: Whether `jax.devices()` are the TPUs of all workers.
        use_gpu: Whether they are the GPUs of all workers.
        use_cpu: Whether they are the processors of all workers.

    Raises:
        ValueError: If several of them are True.
    """

    use_tpu: bool = False
    use_gpu: bool = False
    use_cpu: bool = False

    def __post_init__(self) -> None:
        used = [name for name, is_used in asdict(self).items() if is_used]
        if len(used) > 1:
            raise ValueError(f"workers compute together on one kind of device; got {used}")

    @property
    def backend_cls(self) -> type[Backend]:
        return JaxBackend

    @property
    def train_func_context(self) -> object:
        return connected

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def platform(self) -> str | None:
        """What `JAX_PLATFORMS` calls it."""
        return next((_PLATFORMS[name] for name, used in asdict(self).items() if used), None)


class JaxBackend(Backend):
    """Inside the loop of each worker JAX is connected to that of the others."""

    def on_start(self, worker_group: WorkerGroup, backend_config: JaxConfig) -> None:
        if backend_config.platform is None:
            return
        address = worker_group.execute_single(0, free_address)
        size = len(worker_group)
        for rank in range(size):
            arguments = {
                "coordinator_address": address,
                "coordinator_bind_address": address,  # or it would listen on all interfaces
                "num_processes": size,
                "process_id": rank,
            }
            worker_group.execute_single(rank, _remember, backend_config.platform, arguments)


_arguments: dict[str, Any] = {}


def _remember(platform: str, arguments: dict[str, object]) -> None:
    os.environ.setdefault("JAX_PLATFORMS", platform)
    _arguments.update(arguments)


@contextmanager
def connected() -> Iterator[None]:
    """Connect a worker with the others while its loop runs; one that fails does not wait for the
    others to leave."""
    if not _arguments:
        yield
        return
    jax = try_import("jax", "jax")
    jax.config.update("jax_platforms", os.environ["JAX_PLATFORMS"])  # it may be imported already
    jax.distributed.initialize(**_arguments)
    yield
    jax.distributed.shutdown()
