"""How TensorFlow workers find each other: addresses of all, in TF_CONFIG."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from skate.train._workers.addresses import free_addresses
from skate.train._workers.group import WorkerGroup
from skate.train.backend import Backend, BackendConfig
from skate.train.tensorflow._keras_choice import TensorflowWorker, explained


@dataclass
class TensorflowConfig(BackendConfig):
    """Workers that `tf.distribute.MultiWorkerMirroredStrategy()` connects."""

    @property
    def backend_cls(self) -> type[Backend]:
        return TensorflowBackend

    @property
    def train_func_context(self) -> object:
        return explained


class TensorflowBackend(Backend):
    """Tells each worker the addresses of all and its own place among them."""

    worker_cls = TensorflowWorker

    def on_start(self, worker_group: WorkerGroup, backend_config: TensorflowConfig) -> None:
        addresses = free_addresses(worker_group)
        for rank in range(len(worker_group)):
            worker_group.execute_single(rank, prepare_worker, addresses, rank)


def prepare_worker(addresses: list[str], rank: int) -> None:
    """Tell a worker of the cluster, before the user's loop."""
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    )
