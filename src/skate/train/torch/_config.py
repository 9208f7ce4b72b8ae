"""How PyTorch workers find each other: a process group, whose store and connections use the
address of their machine, which is loopback unless there are several machines.

torch's own ways to begin (`env://`, `tcp://`) have the store listen on all interfaces, whatever
the address. So rank 0 opens the socket itself, and gives it to the store.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from skate.train._workers.group import WorkerGroup
from skate.train._workers.places import WorkerPlace
from skate.train._workers.worker import TrainWorker
from skate.train.backend import Backend, BackendConfig
from skate.train.torch._abort import abort, noting_sockets, waits_in_vain

logger = logging.getLogger(__name__)

INIT_METHODS = ("env", "tcp")


@dataclass
class TorchConfig(BackendConfig):
    """Say how the workers of a TorchTrainer talk to each other.

    Args:
        backend: "gloo" or "nccl", or as torch.distributed takes it; None is nccl where there are
            GPUs.
        init_method: "env" or "tcp", which come to the same: MASTER_ADDR and MASTER_PORT name the
            store in either case.
        timeout_s: Seconds after which a collective operation that is stuck is ended.

    Example:
        >>> from skate.train.torch import TorchConfig
        >>> TorchConfig(backend="gloo").to_dict()
        {'backend': 'gloo', 'init_method': 'env', 'timeout_s': 1800}
    """

    backend: str | None = None
    init_method: str = "env"
    timeout_s: int = 1800

    def __post_init__(self) -> None:
        if self.init_method not in INIT_METHODS:
            raise ValueError(f"init_method is one of {INIT_METHODS}; got {self.init_method!r}")
        if not isinstance(self.backend, (str, type(None))):
            raise TypeError(f"backend is a name, as 'gloo' or 'nccl'; got {self.backend!r}")
        seconds: Any = self.timeout_s
        if not isinstance(seconds, (int, float)) or seconds <= 0:
            raise ValueError(f"timeout_s is a positive number of seconds; got {seconds!r}")

    @property
    def backend_cls(self) -> type[Backend]:
        return TorchBackend

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a dictionary."""
        return {
            "backend": self.backend,
            "init_method": self.init_method,
            "timeout_s": self.timeout_s,
        }


class TorchWorker(TrainWorker):
    """Starts with torch: importing it once is quicker than in all workers side by side."""


class TorchBackend(Backend):
    """`torch.distributed` in each worker, as torchrun would have set it up."""

    share_cuda_visible_devices = True
    worker_cls: type[TrainWorker] | None = TorchWorker
    replaces_workers = True

    def on_start(self, worker_group: WorkerGroup, backend_config: TorchConfig) -> None:
        gpus = worker_group.get_resources_per_worker().get("GPU", 0)
        backend = backend_config.backend or ("nccl" if gpus else "gloo")
        size = len(worker_group)
        places = worker_group.places
        host = places[0].address
        master = host, worker_group.execute_single(0, _listen, host)
        worker_group.gather(
            [
                worker_group.execute_single_async(
                    rank, _connect, backend, backend_config, rank, size, master, place
                )
                for rank, place in enumerate(places)
            ]
        )

    def on_training_start(self, worker_group: WorkerGroup, backend_config: TorchConfig) -> None:
        worker_group.execute(_name_device)

    def on_shutdown(self, worker_group: WorkerGroup, backend_config: TorchConfig) -> None:
        worker_group.execute(_disconnect)

    def on_interrupt(self, worker_group: WorkerGroup, ranks: Sequence[int]) -> list[object]:
        return [worker_group.execute_single_async(rank, abort) for rank in ranks]

    def waits_in_vain(self, worker_group: WorkerGroup, rank: int) -> bool:
        found: bool = worker_group.execute_single(rank, waits_in_vain)
        return found

    def on_newcomers(
        self, worker_group: WorkerGroup, backend_config: TorchConfig, ranks: Collection[int]
    ) -> None:
        size = len(worker_group)
        for rank in ranks:
            worker_group.execute_single(rank, _pretend, rank, size, worker_group.places[rank])

    def on_reform(self, worker_group: WorkerGroup, backend_config: TorchConfig) -> None:
        worker_group.execute(_disconnect)
        self.on_start(worker_group, backend_config)


_listeners: list[socket.socket] = []


def _listen(host: str) -> int:
    """Open the store's socket, in rank 0, and return its port."""
    try:
        listener = socket.create_server((host, 0))
    except OSError as error:  # an address at which others see this machine, and it not itself
        logger.warning(
            "the store of the process group listens on all interfaces of this machine, as it "
            "cannot on %s alone (%s): whoever reaches a port of it can talk to the store",
            host,
            error,
        )
        listener = socket.create_server(("", 0))
    _listeners.append(listener)
    port: int = listener.getsockname()[1]
    return port


def _store(host: str, port: int, rank: int, size: int, timeout: timedelta) -> Any:
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    if rank:
        return TCPStore(host, port, size, is_master=False, timeout=timeout)
    listener = _listeners.pop().detach()
    return TCPStore(host, port, size, is_master=True, timeout=timeout, master_listen_fd=listener)


def _connect(
    backend: str,
    config: TorchConfig,
    rank: int,
    size: int,
    master: tuple[str, int],
    place: WorkerPlace,
) -> None:
    import torch.distributed as dist

    host, port = master
    _name_place(rank, size, place)
    os.environ.update(MASTER_ADDR=host, MASTER_PORT=str(port))
    if host == "127.0.0.1":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    timeout = timedelta(seconds=config.timeout_s)
    with noting_sockets():
        store = _store(host, port, rank, size, timeout)
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timeout)


def _name_place(rank: int, size: int, place: WorkerPlace) -> None:
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(place.local_rank),
        WORLD_SIZE=str(size),
        LOCAL_WORLD_SIZE=str(place.local_world_size),
        NODE_RANK=str(place.node_rank),
    )


def _pretend(rank: int, size: int, place: WorkerPlace) -> None:
    """Make a process group in a worker that takes the place of another: it is alone there, and
    collectives do nothing, until it has come to where the others are."""
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    _name_place(rank, size, place)
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=size)


def _name_device() -> None:
    """Tell Hugging Face's accelerate the device, which it would choose by itself; on CPUs, that
    each process is alone."""
    from skate.train.torch._devices import get_device

    device = get_device()
    os.environ["ACCELERATE_TORCH_DEVICE"] = str(device)
    if device.type == "cpu" and int(os.environ["WORLD_SIZE"]) > 1:
        os.environ["ACCELERATE_USE_CPU"] = "true"


def _disconnect() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()
