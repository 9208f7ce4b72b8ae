"""The workers of a run: actors with reserved resources, started, asked and ended together."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import Any

import skate
from skate._run.scaling_config import ScalingConfig
from skate.train._workers.elastic import Elasticity
from skate.train._workers.monitor import RankFailed, WorkerMonitor
from skate.train._workers.places import WorkerPlace, here, places_of
from skate.train._workers.reservations import Reservations, resources_per_worker
from skate.train._workers.worker import TrainWorker

# A report, a ping and a call of a back end may overlap.
CONCURRENT_CALLS = 4


class WorkerGroup:
    """What back ends see of the workers.

    Args:
        scaling: How many workers, and what each gets.
        runtime_env: The environment of their processes.
        worker_cls: Their class, if it is another one than usual.
        size: How many of a range to begin with; None is as many as there is room for.
    """

    def __init__(
        self,
        scaling: ScalingConfig,
        runtime_env: object = None,
        worker_cls: type[TrainWorker] | None = None,
        size: int | None = None,
    ) -> None:
        skate.init(ignore_reinit_error=True)
        self._resources = resources_per_worker(scaling)
        self.elasticity: Elasticity = Elasticity(scaling, self._resources)
        self._reservations = Reservations(
            scaling, self._resources, size or self.elasticity.start_size()
        )
        self.workers: list[Any] = []
        self._places: list[WorkerPlace] = []
        self.failures: dict[int, BaseException] = {}  # of the calls from here, by rank
        try:
            self._start(runtime_env, worker_cls or TrainWorker)
        except BaseException:
            self.shutdown()
            raise
        self.monitor: WorkerMonitor = WorkerMonitor(self.workers)

    def _start(self, runtime_env: object, worker_cls: type[TrainWorker]) -> None:
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
        self._fill()

    def _fill(self) -> None:
        """Start workers where there is room for them."""
        ranks = range(len(self.workers), len(self._reservations))
        self.workers.extend(map(self._new_worker, ranks))

    def _new_worker(self, rank: int) -> object:
        place = self._reservations.place(rank)
        return self._actor.options(scheduling_strategy=place).remote()

    @property
    def can_change(self) -> bool:
        """Whether `grow` and `shrink` are possible."""
        return self._reservations.can_change

    def grow(self, size: int) -> set[int]:
        """Have so many workers, or as many as there is room for; the ranks that are new."""
        before = len(self)
        self._reservations.grow(size)
        self._fill()
        self._places = []
        return set(range(before, len(self)))

    def shrink(self, size: int) -> None:
        """End all workers but the first ones, and give back what they had."""
        for rank in range(size, len(self)):
            skate.kill(self.workers[rank])
            self.monitor.forget(rank)
            self.failures.pop(rank, None)
        del self.workers[size:]
        self._reservations.shrink(size)
        self._places = []

    def replace(self, rank: int) -> bool:
        """End a worker, if it has not ended, and start another in its place; False if there is no
        room for one, as when a node is lost."""
        skate.kill(self.workers[rank])
        if not self._reservations.renew(rank):
            return False
        self.workers[rank] = self._new_worker(rank)
        self.monitor.forget(rank)
        self.failures.pop(rank, None)
        self._places = []
        return True

    def can_spare(self, ranks: Collection[int]) -> bool:
        """Return whether `leave_out` is possible."""
        return self._reservations.can_spare(ranks)

    def leave_out(self, ranks: Collection[int]) -> dict[int, int]:
        """Go on without workers that have died; the new ranks of the others, by their old ones.
        Their order stays, and with it their places among those of their node."""
        kept = [rank for rank in range(len(self)) if rank not in ranks]
        moved = {old: new for new, old in enumerate(kept)}
        self.workers[:] = [self.workers[rank] for rank in kept]
        self._reservations.leave_out(ranks)
        self.monitor.renumber(moved)
        self.failures.clear()
        self._places = []
        return moved

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

    def execute_async(
        self, func: Callable[..., object], *args: object, **kwargs: object
    ) -> list[Any]:
        """Call a function in each worker; references to the results, by rank."""
        return [worker.execute.remote(func, *args, **kwargs) for worker in self.workers]

    def execute(self, func: Callable[..., object], *args: object, **kwargs: object) -> list[Any]:
        """Call a function in each worker; the results, by rank."""
        return self.gather(self.execute_async(func, *args, **kwargs))

    def execute_single_async(
        self, worker_index: int, func: Callable[..., object], *args: object, **kwargs: object
    ) -> Any:
        """Call a function in one worker; a reference to the result."""
        return self.workers[worker_index].execute.remote(func, *args, **kwargs)

    def execute_single(
        self, worker_index: int, func: Callable[..., object], *args: object, **kwargs: object
    ) -> Any:
        """Call a function in one worker; the result."""
        ref = self.execute_single_async(worker_index, func, *args, **kwargs)
        return self.gather_from({ref: worker_index})[worker_index]

    def gather(self, refs: Sequence[object]) -> list[Any]:
        """Return the values of references, one from each worker, by rank. As `skate.get`, but a
        worker that has stopped without dying is noticed."""
        found = self.gather_from({ref: rank for rank, ref in enumerate(refs)})
        return [found[rank] for rank in range(len(refs))]

    def gather_from(self, asked: dict[object, int]) -> dict[int, Any]:
        """Return the values of references of some ranks."""
        try:
            return dict(self.monitor.answers(asked))
        except RankFailed as failed:
            self.failures[failed.rank] = failed.error
            raise failed.error from failed.error.__cause__

    # -- start and end --------------------------------------------------------------------------

    def check_processes(self) -> None:
        """Refuse several workers in one process, which could not tell each other apart."""
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
            self._reservations.release()
