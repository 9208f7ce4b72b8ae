"""TPUs as a `ScalingConfig` asks for them: how many workers a slice of some shape has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

_CHIPS_PER_HOST = 4
# Of these, slices of up to eight chips are on one host.
_SMALL_SLICES_ON_ONE_HOST = ("v5e", "v5litepod", "v6e")
_MOST_CHIPS_ON_ONE_HOST = 8


@dataclass(frozen=True)
class TpuRequest:
    """What of a `ScalingConfig` is about TPUs."""

    use_tpu: bool
    use_gpu: bool
    topology: str | None
    accelerator_type: str | None
    least: int
    most: int
    resources_per_worker: Mapping[str, float] | None
    has_label_selector: bool

    def check(self) -> dict[str, float] | None:
        """Check it, and return what each worker gets, if that follows from the slice."""
        if self.use_tpu and self.use_gpu:
            raise ValueError("Cannot specify both `use_gpu` and `use_tpu`: choose one")
        wanted = dict(self.resources_per_worker or {})
        if not self.use_tpu:
            self._refuse_tpus(wanted)
            return None
        if wanted.get("TPU") == 0:
            raise ValueError(
                "`use_tpu` is True, but resources_per_worker gives each worker 0 `TPU`; set "
                "use_tpu=False or give a positive number"
            )
        if self.most > 1:
            self._check_several()
        if not self.topology or not self.accelerator_type:
            return None
        return self._share_of(self.topology, self.accelerator_type, wanted)

    def _refuse_tpus(self, wanted: Mapping[str, float]) -> None:
        if wanted.get("TPU"):
            raise ValueError(
                f"`use_tpu` is False but `TPU` was found in resources_per_worker: "
                f"{wanted['TPU']}; set use_tpu=True or leave the TPU out"
            )
        if self.topology is not None:
            raise ValueError(f"topology={self.topology!r} is about TPUs: set use_tpu=True")

    def _check_several(self) -> None:
        for name in ("topology", "accelerator_type"):
            if not getattr(self, name):
                raise ValueError(
                    f"`{name}` must be specified where `use_tpu` is True and there are several "
                    "workers: it says how many of them a slice has"
                )
        if self.has_label_selector:
            raise ValueError(
                "Cannot set `label_selector` where `use_tpu` is True: the slice says where "
                "workers are"
            )

    def _share_of(
        self, topology: str, accelerator_type: str, wanted: dict[str, float]
    ) -> dict[str, float]:
        chips = chips_of(topology)
        each = wanted.setdefault("TPU", _chips_per_host(chips, accelerator_type))
        if chips % each:
            raise ValueError(
                f"a slice of topology {topology!r} has {chips} TPUs, which is not a multiple of "
                f"the {each} of each worker"
            )
        workers = max(1, int(chips // each))
        for name, number in (("num_workers", self.most), ("min_workers", self.least)):
            if number % workers:
                raise ValueError(
                    f"`{name}` must be a multiple of {workers}, the workers of one slice of "
                    f"topology {topology!r}; got {number}"
                )
        return wanted if self.resources_per_worker is not None else {"CPU": 1, **wanted}


def chips_of(topology: str) -> int:
    """Return how many chips a slice has.

    Args:
        topology: As "2x2x2".
    """
    sides = topology.strip().lower().split("x")
    if not all(side.isdigit() and int(side) for side in sides):
        raise ValueError(f"topology is like '2x4' or '2x2x2'; got {topology!r}")
    return prod(map(int, sides))


def _chips_per_host(chips: int, accelerator_type: str) -> int:
    found = re.fullmatch(r"(?:tpu-)?(v\d+\w*)(?:-\d+)?", accelerator_type.strip().lower())
    if found is None:
        raise ValueError(
            f"accelerator_type of TPUs is like 'TPU-V4' or 'v6e-8'; got {accelerator_type!r}"
        )
    if found[1] in _SMALL_SLICES_ON_ONE_HOST and chips <= _MOST_CHIPS_ON_ONE_HOST:
        return chips
    return _CHIPS_PER_HOST
