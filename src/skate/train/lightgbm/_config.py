"""How LightGBM workers find each other: addresses of all, as parameters."""

from __future__ import annotations

from dataclasses import dataclass

from skate._run.session import current, in_session
from skate._run.types import Config
from skate.train._workers.addresses import free_addresses
from skate.train._workers.group import WorkerGroup
from skate.train._workers.threads import own_threads
from skate.train.backend import Backend, BackendConfig

_parameters: Config = {}


@dataclass
class LightGBMConfig(BackendConfig):
    """Workers that know each other's addresses; see `get_network_params`."""

    @property
    def backend_cls(self) -> type[Backend]:
        return LightGBMBackend

    @property
    def train_func_context(self) -> object:
        return own_threads


class LightGBMBackend(Backend):
    def on_start(self, worker_group: WorkerGroup, backend_config: LightGBMConfig) -> None:
        addresses = free_addresses(worker_group)
        for rank in range(len(worker_group)):
            worker_group.execute_single(rank, _remember, addresses, rank)


def _remember(addresses: list[str], rank: int) -> None:
    _parameters.update(
        num_machines=len(addresses),
        local_listen_port=int(addresses[rank].rpartition(":")[2]),
        machines=",".join(addresses),
    )


def get_network_params() -> dict[str, object]:
    """Return parameters with which `lightgbm.train` trains one model together with the other
    workers of a LightGBMTrainer. None where a process trains alone.

    Raises:
        RuntimeError: If it is called elsewhere than in the loop of a LightGBMTrainer.
    """
    if not _parameters and in_session() and current("").info.world_size > 1:
        raise RuntimeError(
            "the workers do not know each other's addresses: get_network_params() belongs into "
            "the loop of a LightGBMTrainer"
        )
    return dict(_parameters)
