"""Accelerators: which resources are numbered, and which variables say what a process may use.

The names are those of the makers and of Ray: whoever wrote a program for either finds them here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

AcceleratorId = int | str

_OVERRIDE_ON_ZERO = "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"


class Accelerator(NamedTuple):
    """One kind of accelerator."""

    variable: str  # lists those that a process may use
    untouched: str  # the switch that leaves the variable to the program
    prefix: str = ""  # before each number in the variable


_NVIDIA = Accelerator("CUDA_VISIBLE_DEVICES", "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES")
_AMD = Accelerator("HIP_VISIBLE_DEVICES", "RAY_EXPERIMENTAL_NOSET_HIP_VISIBLE_DEVICES")
_INTEL = Accelerator("ZE_AFFINITY_MASK", "RAY_EXPERIMENTAL_NOSET_ZE_AFFINITY_MASK")
_OTHERS = {
    "TPU": Accelerator("TPU_VISIBLE_CHIPS", "RAY_EXPERIMENTAL_NOSET_TPU_VISIBLE_CHIPS"),
    "neuron_cores": Accelerator(
        "NEURON_RT_VISIBLE_CORES", "RAY_EXPERIMENTAL_NOSET_NEURON_RT_VISIBLE_CORES"
    ),
    "HPU": Accelerator("HABANA_VISIBLE_MODULES", "RAY_EXPERIMENTAL_NOSET_HABANA_VISIBLE_MODULES"),
    "NPU": Accelerator(
        "ASCEND_RT_VISIBLE_DEVICES", "RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES"
    ),
    "RBLN": Accelerator("RBLN_DEVICES", "RAY_EXPERIMENTAL_NOSET_RBLN_RT_VISIBLE_DEVICES"),
    "FURIOSA": Accelerator("FURIOSA_DEVICES", "RAY_EXPERIMENTAL_NOSET_FURIOSA_DEVICES", "npu:"),
    "MBLT": Accelerator(
        "QBRUNTIME_VISIBLE_DEVICES", "RAY_EXPERIMENTAL_NOSET_MBLT_RT_VISIBLE_DEVICES"
    ),
    "TTNPU": Accelerator(
        "TT_VISIBLE_DEVICES", "RAY_EXPERIMENTAL_NOSET_TENSTORRENT_VISIBLE_DEVICES"
    ),
}
# How many chips a part of a TPU host has, along its three axes, by their number.
_TPU_BOUNDS = {1: "1,1,1", 2: "1,2,1"}

NUMBERED = ("GPU", *_OTHERS)  # resources of which each one has a number


def accelerator(resource: str) -> Accelerator:
    """Return what there is to know of a resource in `NUMBERED`."""
    return _gpu() if resource == "GPU" else _OTHERS[resource]


@cache
def _gpu() -> Accelerator:
    """Return whose GPUs this machine has; NVIDIA's, if it has none that could be told."""
    if os.path.exists("/proc/driver/nvidia"):
        return _NVIDIA
    if os.path.exists("/dev/kfd"):
        return _AMD
    from skate._core.optional_imports import is_installed

    return _INTEL if is_installed("dpctl") else _NVIDIA


def visible_ids(resource: str) -> list[AcceleratorId] | None:
    """Return the accelerators that this process may use; None if nobody has limited them."""
    kind = accelerator(resource)
    listed = os.environ.get(kind.variable)
    if listed is None:
        return None
    parts = [part.strip().removeprefix(kind.prefix) for part in listed.split(",")]
    return [as_id(part) for part in parts if part not in ("", "-1")]


def as_id(text: str) -> AcceleratorId:
    """Return an accelerator as variables have it: its number, or a name like "GPU-8932f937"."""
    return int(text) if text.strip().isdigit() else text.strip()


def nth(
    numbers: Iterable[int], visible: Sequence[AcceleratorId] | None
) -> tuple[AcceleratorId, ...]:
    """Return the n-th of the visible ones, for each number; n itself if there is none."""
    known = visible or ()
    return tuple(known[number] if number < len(known) else number for number in numbers)


def variables_for(
    given: Mapping[str, Sequence[AcceleratorId]], environ: Mapping[str, str]
) -> dict[str, str | None]:
    """Return the variables of a process that was given these accelerators, by resource; None
    stands for one that must not be set. `environ` may say to leave some as they are."""
    found: dict[str, str | None] = {}
    for resource, ids in given.items():
        kind = accelerator(resource)
        if _is_on(environ, kind.untouched):
            continue
        found[kind.variable] = ",".join(f"{kind.prefix}{one}" for one in ids)
        if resource == "TPU":
            found.update(_tpu_bounds(len(ids)))
    return found


def hidden_variables(resources: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a process that was given no GPU on a machine with these
    `resources`: none is visible, unless `environ` says to leave that to the program."""
    if "GPU" not in resources or environ.get(_OVERRIDE_ON_ZERO, "1").lower() in ("0", "false"):
        return {}
    kind = accelerator("GPU")
    return {} if _is_on(environ, kind.untouched) else {kind.variable: ""}


def _tpu_bounds(chips: int) -> dict[str, str | None]:
    """Tell a part of a host its shape; a whole host knows, and shows all of it."""
    if chips in _TPU_BOUNDS:
        return {"TPU_CHIPS_PER_HOST_BOUNDS": _TPU_BOUNDS[chips], "TPU_HOST_BOUNDS": "1,1,1"}
    return {"TPU_VISIBLE_CHIPS": None} if chips == _tpu_chips() else {}


def _tpu_chips() -> int:
    from glob import glob

    return len(glob("/dev/accel[0-9]*")) or len(glob("/dev/vfio/[0-9]*"))


def _is_on(environ: Mapping[str, str], switch: str) -> bool:
    return environ.get(switch, "").lower() in ("1", "true")
