"""How TensorFlow workers find each other: addresses of all, in TF_CONFIG."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass

from skate._imports import is_installed
from skate.train._addresses import free_addresses
from skate.train._group import WorkerGroup
from skate.train.backend import Backend, BackendConfig

LEGACY_KERAS = "TF_USE_LEGACY_KERAS"


@dataclass
class TensorflowConfig(BackendConfig):
    """Workers that `tf.distribute.MultiWorkerMirroredStrategy()` connects."""

    @property
    def backend_cls(self) -> type[Backend]:
        return TensorflowBackend


class TensorflowBackend(Backend):
    """Tells each worker the addresses of all and its own place among them."""

    def on_start(self, worker_group: WorkerGroup, backend_config: TensorflowConfig) -> None:
        addresses = free_addresses(worker_group)
        for rank in range(len(worker_group)):
            worker_group.execute_single(rank, prepare_worker, addresses, rank)


def prepare_worker(addresses: list[str], rank: int) -> None:
    """Before the user's loop: the cluster, and a Keras that can train on it."""
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
    )
    if is_installed("tf_keras"):
        prefer_keras_2()


def prefer_keras_2() -> None:
    """Let `tf.keras` be Keras 2: Keras 3 knows no MultiWorkerMirroredStrategy.

    TF_USE_LEGACY_KERAS=0 keeps Keras 3, for loops of one's own.
    """
    wanted = os.environ.setdefault(LEGACY_KERAS, "1")
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or wanted not in ("1", "true", "True"):
        return
    # TensorFlow was imported before the variable was set. Its attribute `keras` looks at the
    # variable when it is first used; `import tensorflow.keras` goes by the path.
    import importlib.util

    found = importlib.util.find_spec("tf_keras.api._v2")
    assert found is not None
    for folder in found.submodule_search_locations or ():
        if folder not in tensorflow.__path__:
            tensorflow.__path__.insert(0, folder)
