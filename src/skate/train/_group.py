"""The workers of a run: actors in one placement group, started, asked and ended together."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import skate
from skate._run.config import ScalingConfig
from skate.exceptions import TaskUnschedulableError
from skate.train._labels import check_labels
from skate.train._monitor import WorkerFailed, WorkerMonitor
from skate.train._places import WorkerPlace, here, places_of
from skate.train._worker import TrainWorker
from skate.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy

# A report, a ping and a call of a back end may overlap.
CONCURRENT_CALLS = 4


class WorkerGroup:
    """What back ends see of the workers."""

    def __init__(
        self,
        scaling: ScalingConfig,
        runtime_env: object = None,
        worker_cls: type[TrainWorker] | None = None,
    ) -> None:
        skate.init(ignore_reinit_error=True)
        self._resources = resources_per_worker(scaling)
        count = number_of_workers(scaling, self._resources)
        bundles = [dict(self._resources) for _ in range(count)]
        head = scaling._trainer_resources_not_none
        self._reservation = _reserve([*bundles, *([head] if head else [])], scaling)
        self.workers: list[Any] = []
        self._places: list[WorkerPlace] = []
        self.failures: dict[int, BaseException] = {}  # of the calls from here, by rank
        try:
            self._start(count, runtime_env, worker_cls or TrainWorker)
        except BaseException:
            self.shutdown()
            raise
        self.monitor: WorkerMonitor = WorkerMonitor(self.workers)

    def _start(self, count: int, runtime_env: Any, worker_cls: type[TrainWorker]) -> None:
        rest = {k: v for k, v in self._resources.items() if k not in ("CPU", "GPU", "memory")}
        options = {
            "num_cpus": self._resources.get("CPU", 0),
            "num_gpus": self._resources.get("GPU", 0),
            "memory": self._resources.get("memory"),
            "resources": rest or None,
            "max_concurrency": CONCURRENT_CALLS,
            "runtime_env": runtime_env or None,
        }
        given = {name: value for name, value in options.items() if value is not None}
        actor: Any = skate.remote(worker_cls)
        self._actor: Any = actor.options(**given)
        self.workers.extend(self._new_worker(rank) for rank in range(count))

    def _new_worker(self, rank: int) -> object:
        place = PlacementGroupSchedulingStrategy(self._reservation, rank)
        return self._actor.options(scheduling_strategy=place).remote()

    def replace(self, rank: int) -> None:
        """End a worker, if it has not ended, and start another in its place."""
        skate.kill(self.workers[rank])
        self.workers[rank] = self._new_worker(rank)
        self.monitor.forget(rank)
        self.failures.pop(rank, None)
        self._places = []

    def __len__(self) -> int:
        return len(self.workers)

    def get_resources_per_worker(self) -> dict[str, float]:
        return dict(self._resources)

    @property
    def places(self) -> list[WorkerPlace]:
        """Where each worker is, by rank."""
        if not self._places:
            self._places = places_of(self.execute(here))
        return self._places

    # -- calls ----------------------------------------------------------------------------------

    def execute_async(self, func: Callable[..., object], *args: Any, **kwargs: Any) -> list[Any]:
        """Call a function in each worker; references to the results, by rank."""
        return [worker.execute.remote(func, *args, **kwargs) for worker in self.workers]

    def execute(self, func: Callable[..., object], *args: Any, **kwargs: Any) -> list[Any]:
        """Call a function in each worker; the results, by rank."""
        return self.gather(self.execute_async(func, *args, **kwargs))

    def execute_single_async(
        self, worker_index: int, func: Callable[..., object], *args: Any, **kwargs: Any
    ) -> Any:
        """Call a function in one worker; a reference to the result."""
        return self.workers[worker_index].execute.remote(func, *args, **kwargs)

    def execute_single(
        self, worker_index: int, func: Callable[..., object], *args: Any, **kwargs: Any
    ) -> Any:
        """Call a function in one worker; the result."""
        ref = self.execute_single_async(worker_index, func, *args, **kwargs)
        return self.gather_from({ref: worker_index})[worker_index]

    def gather(self, refs: Sequence[object]) -> list[Any]:
        """The values of references, one from each worker, by rank. As `skate.get`, but a worker
        that has stopped without dying is noticed."""
        found = self.gather_from({ref: rank for rank, ref in enumerate(refs)})
        return [found[rank] for rank in range(len(refs))]

    def gather_from(self, asked: dict[object, int]) -> dict[int, Any]:
        """The values of references of some ranks."""
        try:
            return dict(self.monitor.answers(asked))
        except WorkerFailed as failed:
            self.failures[failed.rank] = failed.error
            raise failed.error from failed.error.__cause__

    # -- start and end --------------------------------------------------------------------------

    def check_processes(self) -> None:
        """Several workers in one process could not tell each other apart."""
        if len(self) < 2:
            return
        processes = self.gather([worker.process.remote() for worker in self.workers])
        if os.getpid() in processes:
            raise ValueError(
                f"{len(self)} workers need a process each, but skate runs in this process alone "
                '(engine="inline"); use num_workers=0 or 1 there'
            )

    def shutdown(self) -> None:
        """End all workers at once."""
        try:
            for worker in self.workers:
                skate.kill(worker)
        finally:
            remove_placement_group(self._reservation)


def resources_per_worker(scaling: ScalingConfig) -> dict[str, float]:
    """What each worker reserves. By default a CPU each; on a machine with fewer CPUs than workers
    they share what there is."""
    wanted = scaling._resources_per_worker_not_none
    if scaling.resources_per_worker is not None or "CPU" not in wanted:
        return wanted
    cpus = skate.cluster_resources().get("CPU", 0.0)
    if cpus and scaling.min_workers > cpus:
        return {**wanted, "CPU": int(100 * cpus / scaling.min_workers) / 100}
    return wanted


def number_of_workers(scaling: ScalingConfig, resources: dict[str, float]) -> int:
    """All that were asked for; of a range, as many as there is room for."""
    if not scaling.elasticity_enabled:
        return scaling.max_workers
    there = skate.cluster_resources()
    room = [int(there.get(name, 0.0) / amount) for name, amount in resources.items()]
    return max(scaling.min_workers, min([scaling.max_workers, *room]))


def _reserve(bundles: Sequence[dict[str, float]], scaling: ScalingConfig) -> PlacementGroup:
    check_labels(scaling.label_selector)
    group = placement_group(list(bundles), strategy=scaling.placement_strategy)
    try:
        skate.get(group._ref)
    except TaskUnschedulableError as error:
        remove_placement_group(group)
        raise TaskUnschedulableError(f"{error}. {_way_out(scaling)}") from None
    except BaseException:
        remove_placement_group(group)
        raise
    return group


def _way_out(scaling: ScalingConfig) -> str:
    if scaling.num_gpus_per_worker > skate.cluster_resources().get("GPU", 0.0):
        return (
            "No GPU was found for use_gpu=True: set use_gpu=False to train on the CPU, or say how "
            "many GPUs there are with skate.init(num_gpus=…)"
        )
    return "Use fewer workers, or ask for less in ScalingConfig(resources_per_worker={…})"
