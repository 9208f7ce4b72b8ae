"""Before a long search: can the trainable be sent, saved and restored, and is the GPU free?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import skate
from skate._run.types import Config
from skate.tune.result import TRAINING_ITERATION

if TYPE_CHECKING:
    from skate.tune.trainable.trainable import Trainable


def diagnose_serialization(trainable: Callable[..., object]) -> bool | set[str]:
    """Check whether a function can be sent to trials, and print what keeps it from that.

    Args:
        trainable: The function.

    Returns:
        True if it can be sent; else the names of what keeps it from that.
    """
    from skate.util import inspect_serializability

    sendable, culprits = inspect_serializability(trainable)
    return sendable or {culprit.path for culprit in culprits}


def validate_save_restore(
    trainable_cls: type[Trainable],
    config: Config | None = None,
    num_gpus: int = 0,
    use_object_store: bool = False,
) -> bool:
    """Check that a class goes on in a new instance, in another process, from what it saved.

    Args:
        trainable_cls: The subclass of Trainable.
        config: What it is made with.
        num_gpus: How many GPUs each of the two processes needs.
        use_object_store: Has no effect: checkpoints are folders.

    Returns:
        True.

    Raises:
        ValueError: If it does not go on where it was saved.
    """
    actor: Any = skate.remote(num_gpus=num_gpus)(trainable_cls)
    first, second = actor.remote(config=config), actor.remote(config=config)
    skate.get([first.train.remote() for _ in range(3)])
    skate.get(second.restore.remote(skate.get(first.save.remote())))
    for expected in (4, 5):
        reached = skate.get(second.train.remote())[TRAINING_ITERATION]
        if reached != expected:
            raise ValueError(
                f"{trainable_cls.__name__} does not go on where it was saved: step {expected} "
                f"has {TRAINING_ITERATION}={reached}"
            )
    return True


def validate_warmstart(
    parameter_names: Sequence[str],
    points_to_evaluate: Any,
    evaluated_rewards: object,
    validate_point_name_lengths: bool = True,
) -> None:
    """Raise an error if points and rewards do not fit the parameters, or each other.

    Args:
        parameter_names: The names of the parameters.
        points_to_evaluate: The configurations to try first, as dictionaries or lists.
        evaluated_rewards: What the metric is there, if that is known.
        validate_point_name_lengths: Whether each point needs a value for each parameter.

    Raises:
        TypeError: If points or rewards are of another kind.
        ValueError: If their numbers differ, or a point has too many or too few values.
    """
    for point in _as_list(points_to_evaluate, "points_to_evaluate"):
        if not isinstance(point, (dict, list)):
            raise TypeError(f"points_to_evaluate takes dictionaries or lists; got {point!r}")
        if validate_point_name_lengths and len(point) != len(parameter_names):
            raise ValueError(
                f"the point {point} has {len(point)} values, but there are "
                f"{len(parameter_names)} parameters: {list(parameter_names)}"
            )
    rewards = _as_list(evaluated_rewards, "evaluated_rewards")
    if points_to_evaluate and rewards and len(rewards) != len(points_to_evaluate):
        raise ValueError(
            f"there are {len(points_to_evaluate)} points_to_evaluate, but {len(rewards)} "
            f"evaluated_rewards"
        )


def _as_list(values: Any, name: str) -> list[object]:
    if values and not isinstance(values, list):
        raise TypeError(f"{name} takes a list; got {type(values).__name__}")
    return values or []


def wait_for_gpu(
    gpu_id: int | str | None = None,
    target_util: float = 0.01,
    retry: int = 20,
    delay_s: float = 5,
    gpu_memory_limit: float | None = None,
) -> bool:
    """Wait until little of a GPU's memory is in use. Needs the package GPUtil.

    Args:
        gpu_id: The number or the UUID of the GPU; by default the first one that the trial has.
        target_util: The share of the memory that may be in use.
        retry: How often to look.
        delay_s: How many seconds to wait between two looks.
        gpu_memory_limit: Has no effect; `target_util` takes its place.

    Returns:
        True.

    Raises:
        RuntimeError: If more is in use after the last look, or the trial has no GPU.
        ValueError: If there is no such GPU.
    """
    wanted = _gpu_id(gpu_id)
    for _ in range(retry):
        used = _memory_in_use(wanted)
        if used <= target_util:
            return True
        time.sleep(delay_s)
    raise RuntimeError(
        f"after {retry} looks, {used:.0%} of the memory of GPU {wanted} is in use, not "
        f"{target_util:.0%} or less"
    )


def _gpu_id(gpu_id: object) -> int | str:
    if gpu_id is None:
        own = skate.get_gpu_ids()
        if not own:
            raise RuntimeError("the trial has no GPU: ask for one, as resources={'gpu': 1}")
        gpu_id = own[0]
    if not isinstance(gpu_id, (int, str)):
        raise ValueError(f"gpu_id takes a number or a UUID; got {gpu_id!r}")
    return int(gpu_id) if str(gpu_id).isdigit() else gpu_id


def _memory_in_use(gpu_id: int | str) -> float:
    try:
        gpus = import_module("GPUtil").getGPUs()
    except ImportError as error:
        raise RuntimeError("wait_for_gpu() needs the package GPUtil") from error
    for gpu in gpus:
        if gpu_id in (gpu.id, gpu.uuid):
            return float(gpu.memoryUtil)
    raise ValueError(f"there is no GPU {gpu_id!r}; there are {[gpu.id for gpu in gpus]}")
