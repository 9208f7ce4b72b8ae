"""How many workers train together, and what each of them gets."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

from skate._run.config_checks import Configuration
from skate._run.tpu_slices import TpuRequest

STRATEGIES = ("PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD")


@dataclass(repr=False)
class ScalingConfig(Configuration):
    """Say how many workers train together, and what each of them gets.

    Args:
        trainer_resources: Reserved for the calling side; by default nothing.
        num_workers: How many workers; 0 runs the loop in the calling process. With a pair
            `(least, most)` there are as many as there is room for, more or fewer while it runs as
            resources come and go.
        use_gpu: Whether each worker has a GPU.
        resources_per_worker: What each worker reserves, as `{"CPU": 2}`; by default a CPU, or a
            GPU with `use_gpu`.
        placement_strategy: How workers are spread over the machines of a cluster: "PACK",
            "SPREAD", "STRICT_PACK" or "STRICT_SPREAD"; on one machine all are the same.
        accelerator_type: Asks for a little of the resource "accelerator_type:" and that name.
        label_selector: Labels that a machine must have, as `skate.init(labels={…})` gives them; a
            list has one dict per worker.
        use_tpu: Whether each worker has TPUs: the resource "TPU", one unless something else says
            how many. Machines do not find them by themselves: `skate.init(resources={"TPU": 4})`.
        topology: The shape of a slice of TPUs, as "2x2x2": with the `accelerator_type` it says
            how many TPUs each worker has, and of which number `num_workers` must be a multiple.
        elastic_resize_monitor_interval_s: How many seconds pass until it is looked again whether
            there is room for more workers of such a pair, or for fewer.

    Raises:
        ValueError: For numbers that make no sense, or that contradict each other.
        TypeError: If resources are not amounts by name.

    Example:
        >>> from skate.train import ScalingConfig
        >>> ScalingConfig(num_workers=2, resources_per_worker={"CPU": 2}).total_resources
        {'CPU': 4.0}
    """

    trainer_resources: dict[str, float] | None = None
    num_workers: Any = 1
    use_gpu: Any = False
    resources_per_worker: Any = None
    placement_strategy: Any = "PACK"
    accelerator_type: str | None = None
    label_selector: dict[str, str] | list[dict[str, str]] | None = None
    use_tpu: bool = False
    topology: str | None = None
    elastic_resize_monitor_interval_s: float = 1.0
    _max_cpu_fraction_per_node: float | None = None

    def __post_init__(self) -> None:
        if self.num_workers is None:  # its default until Ray 2.3
            self.num_workers = 1
        if not _is_search_space(self.num_workers):
            self._check_workers()
            self._check_tpus()
        if isinstance(self.placement_strategy, str) and (
            self.placement_strategy not in STRATEGIES
        ):
            raise ValueError(
                f"placement_strategy is one of {STRATEGIES}; got {self.placement_strategy!r}"
            )
        interval = self.elastic_resize_monitor_interval_s
        if not _is_amount(interval):
            raise ValueError(
                "elastic_resize_monitor_interval_s is a number of seconds that is not negative; "
                f"got {interval!r}"
            )
        self._check_gpus()

    def _check_workers(self) -> None:
        number = self.num_workers
        if isinstance(number, list):
            number = self.num_workers = tuple(number)
        pair = number if isinstance(number, tuple) else (number, number)
        whole = len(pair) == 2 and all(
            isinstance(n, int) and not isinstance(n, bool) for n in pair
        )
        if not whole:
            raise ValueError(f"num_workers is a number or a pair (least, most); got {number!r}")
        if isinstance(number, tuple) and number[0] == 0:
            raise ValueError(f"the least number of a pair is at least 1; got {number!r}")
        labels = self.label_selector
        if isinstance(labels, list) and len(labels) != pair[1]:
            raise ValueError(
                "If `label_selector` is a list, it must be the same length as `num_workers`, the "
                f"most of a pair, which is {pair[1]}; got {labels!r}"
            )
        if pair[0] < 0 or pair[0] > pair[1]:
            raise ValueError(
                "num_workers is 0 or more, or a pair (least, most) whose first number is not the "
                f"larger one; got {number!r}"
            )

    def _check_tpus(self) -> None:
        own = self.resources_per_worker
        share = TpuRequest(
            use_tpu=self.use_tpu,
            use_gpu=self.use_gpu is True,
            topology=self.topology,
            accelerator_type=self.accelerator_type,
            least=self.min_workers,
            most=self.max_workers,
            resources_per_worker=own if isinstance(own, dict) else None,
            has_label_selector=bool(self.label_selector),
        ).check()
        if share is not None and (own is None or isinstance(own, dict)):
            self.resources_per_worker = share

    def _check_gpus(self) -> None:
        _check_amounts("resources_per_worker", self.resources_per_worker)
        _check_amounts("trainer_resources", self.trainer_resources)
        if isinstance(self.use_gpu, str):
            raise TypeError(f"use_gpu is True or False; got {self.use_gpu!r}")
        if not isinstance(self.resources_per_worker, dict) or not isinstance(self.use_gpu, bool):
            return
        wanted = self.resources_per_worker.get("GPU")
        if not self.use_gpu and wanted:
            raise ValueError(
                f"`use_gpu` is False but `GPU` was found in resources_per_worker: {wanted}; "
                "set use_gpu=True or leave the GPU out"
            )
        if self.use_gpu and wanted == 0:
            raise ValueError(
                "`use_gpu` is True, but resources_per_worker gives each worker 0 `GPU`; "
                "set use_gpu=False or give a positive number"
            )

    def __eq__(self, other: object) -> bool:
        """Return whether both ask for the same, however they were written."""
        if not isinstance(other, ScalingConfig):
            return NotImplemented
        return bool(self._request() == other._request())

    def _request(self) -> Any:
        if not isinstance(self.num_workers, int):
            return vars(self)
        try:
            return self.as_placement_group_factory(), self.accelerator_type, self.label_selector
        except TypeError:  # tuning fills something in
            return vars(self)

    @property
    def min_workers(self) -> int:
        return int(self.num_workers[0] if self.elasticity_enabled else self.num_workers)

    @property
    def max_workers(self) -> int:
        return int(self.num_workers[1] if self.elasticity_enabled else self.num_workers)

    @property
    def elasticity_enabled(self) -> bool:
        return isinstance(self.num_workers, tuple)

    @property
    def _resources_per_worker_not_none(self) -> dict[str, float]:
        if self.resources_per_worker is None:
            usual = "TPU" if self.use_tpu else "GPU" if self.use_gpu else "CPU"
            wanted: dict[str, float] = {usual: 1}
        else:
            wanted = {name: n for name, n in self.resources_per_worker.items() if n != 0}
        if self.use_gpu:
            wanted.setdefault("GPU", 1)
        if self.use_tpu:
            wanted.setdefault("TPU", 1)
        if self.accelerator_type is not None:
            wanted.setdefault(f"accelerator_type:{self.accelerator_type}", 0.001)
        return wanted

    @property
    def _trainer_resources_not_none(self) -> dict[str, float]:
        return {name: n for name, n in (self.trainer_resources or {}).items() if n != 0}

    @property
    def total_resources(self) -> dict[str, float]:
        """What the workers and the calling side take together."""
        total = dict(self._trainer_resources_not_none)
        for name, number in self._resources_per_worker_not_none.items():
            total[name] = total.get(name, 0.0) + number * self.max_workers
        return total

    @property
    def num_cpus_per_worker(self) -> float:
        return self._resources_per_worker_not_none.get("CPU", 0)

    @property
    def num_gpus_per_worker(self) -> float:
        return self._resources_per_worker_not_none.get("GPU", 0)

    @property
    def num_tpus_per_worker(self) -> float:
        return self._resources_per_worker_not_none.get("TPU", 0)

    @property
    def additional_resources_per_worker(self) -> dict[str, float]:
        """What each worker gets besides CPUs and GPUs."""
        wanted = self._resources_per_worker_not_none
        return {name: number for name, number in wanted.items() if name not in ("CPU", "GPU")}

    def as_placement_group_factory(self) -> Any:
        """Return the resources of a trial of tuning that trains with this configuration."""
        from skate import tune

        worker = self._resources_per_worker_not_none
        workers = [worker] * self.max_workers if worker else []  # who asks for nothing needs none
        return tune.PlacementGroupFactory(
            [self._trainer_resources_not_none, *workers], strategy=self.placement_strategy
        )

    @classmethod
    def from_placement_group_factory(cls, pgf: Any) -> ScalingConfig:
        """Return the configuration that has given resources.

        Args:
            pgf: The bundle of the trainer, then one per worker.
        """
        workers = pgf.bundles[0 if pgf.head_bundle_is_empty else 1 :]
        per_worker = dict(workers[0]) if workers else {}
        return cls(
            trainer_resources=dict(pgf.head_bundle),
            num_workers=max(len(workers), 1),
            use_gpu=bool(per_worker.get("GPU")),
            resources_per_worker=per_worker,
            placement_strategy=pgf.strategy,
        )


def _check_amounts(parameter: str, given: object) -> None:
    """Refuse resources that are no amounts by name, as far as tuning does not fill them in."""
    if given is None or hasattr(given, "sample"):
        return
    amounts = given.values() if isinstance(given, dict) and "grid_search" not in given else ()
    right = all(_is_search_space(amount) or _is_amount(amount) for amount in amounts)
    if not isinstance(given, dict) or not right:
        meant = isinstance(given, int) and parameter == "trainer_resources"  # which comes first
        hint = f"; write num_workers={given}" if meant else ""
        raise TypeError(
            f"{parameter} is a dict of amounts by name, as in {{'CPU': 2}}; got {given!r}{hint}"
        )


def _is_amount(value: object) -> bool:
    return isinstance(value, Real) and float(value) >= 0


def _is_search_space(value: object) -> bool:
    """Return whether it is something that tuning fills in."""
    return isinstance(value, dict) or hasattr(value, "sample")
