"""GPUs of a group of workers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import skate

if TYPE_CHECKING:
    from skate.train._workers.group import WorkerGroup

OWN_GPUS = "SKATE_TRAIN_GPUS"  # the worker's own, where it sees those of all


def share_gpus(group: WorkerGroup) -> None:
    """Let each worker see the GPUs of all, so that its local rank is the number of its own."""
    own = [list(map(str, ids)) for ids in group.execute(_gpu_ids)]
    together = ",".join(sorted({gpu for ids in own for gpu in ids}, key=int))
    group.gather(
        [
            group.execute_single_async(
                rank, _set_variables, {"CUDA_VISIBLE_DEVICES": together, OWN_GPUS: ",".join(ids)}
            )
            for rank, ids in enumerate(own)
        ]
    )


def _gpu_ids() -> list[Any]:
    return list(skate.get_gpu_ids())


def _set_variables(settings: dict[str, str]) -> None:
    os.environ.update(settings)
