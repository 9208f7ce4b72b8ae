"""The processes that run trials: as many as fit, used again by the next trial."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import skate
from skate.tune.execution.worker import worker_class

if TYPE_CHECKING:
    from skate.tune.execution.placement_groups import PlacementGroupFactory
    from skate.tune.experiment.trial import Trial

_CLOSING_SECONDS = 5.0  # for the last instances to clean up


class PooledWorker:
    """A process, the resources it holds, and the trial it runs.

    Args:
        actor: The process.
        trainable: What it runs.
        resources: What it holds.
        group: Where it holds that, if there are several bundles.
    """

    def __init__(
        self, actor: Any, trainable: object, resources: PlacementGroupFactory, group: Any
    ) -> None:
        self.actor = actor
        self.trainable = trainable
        self.resources = resources
        self.group = group
        self.trial: Trial | None = None
        self.leaving: Trial | None = None  # the one before, if it has not left yet
        self.used = False  # by an earlier trial, and the next has not begun
        self.in_two_steps = False  # whether that one begins when it is known that it can
        self.idle_since: float = 0.0
        self.heard: float | None = None  # when its trial said something last


class WorkerPool:
    """Gives workers to trials within the resources of the machine.

    Args:
        trainable_of: Says what a trial runs.
        total: All resources.
        reuse: Whether a worker that is free goes on with the next trial.
    """

    def __init__(
        self, trainable_of: Callable[[Trial], object], total: dict[str, float], reuse: bool
    ) -> None:
        self._trainable_of = trainable_of
        self._shipped: dict[int, tuple[Any, Any]] = {}  # what workers of a trainable begin with
        self._total = total
        self._reuse = reuse
        self._idle: list[PooledWorker] = []
        self._busy: list[PooledWorker] = []
        self._refused: PlacementGroupFactory | None = None  # what has no room at the moment

    def take(self, trial: Trial) -> PooledWorker | None:
        """Take a worker for the trial, an idle one or a new one; None if there is no room for
        it."""
        wanted = trial.placement_group_factory
        if wanted is self._refused:
            return None
        worker = next((one for one in self._idle if self._suits(one, trial)), None)
        if worker is not None:
            self._idle.remove(worker)
        else:
            while not self._fits(wanted):
                if not self._idle:
                    self._refused = wanted
                    return None
                self._end(self._idle.pop())
            worker = self._start(self._trainable_of(trial), wanted)
        worker.trial, worker.heard = trial, None
        self._busy.append(worker)
        return worker

    def _suits(self, worker: PooledWorker, trial: Trial) -> bool:
        """Return whether a worker has what a trial needs."""
        same = worker.resources == trial.placement_group_factory
        return same and worker.trainable is self._trainable_of(trial)

    def _fits(self, wanted: PlacementGroupFactory) -> bool:
        used: dict[str, float] = {}
        for worker in [*self._idle, *self._busy]:
            for name, amount in worker.resources.required_resources.items():
                used[name] = used.get(name, 0.0) + amount
        return all(
            used.get(name, 0.0) + amount <= self._total.get(name, 0.0) + 1e-6 or name == "memory"
            for name, amount in wanted.required_resources.items()
        )

    def _start(self, trainable: Any, resources: PlacementGroupFactory) -> PooledWorker:
        if id(trainable) not in self._shipped:
            self._shipped[id(trainable)] = (skate.put(trainable), worker_class(trainable))
        ref, kind = self._shipped[id(trainable)]
        group = None
        options = _options(resources.head_bundle)
        # what a trainer's workers need they ask for themselves when they start
        only_counted = getattr(trainable, "reserves_itself", False)
        if len(resources.bundles) > 1 and not only_counted:
            group = resources.to_placement_group()
            options["scheduling_strategy"] = _in_group(group, resources)
        actor = kind.options(**options).remote(ref)
        return PooledWorker(actor, trainable, resources, group)

    def pass_on(self, worker: PooledWorker, trial: Trial) -> bool:
        """Give a worker, whose trial is told to leave, to the next one, if that may use it."""
        if not self._reuse or not self._suits(worker, trial):
            return False
        worker.leaving, worker.trial = worker.trial, trial
        worker.used, worker.in_two_steps = True, False
        return True

    def give_back(self, worker: PooledWorker) -> None:
        """Take back a worker whose trial is over; it may be used again."""
        worker.trial = self._refused = None
        self._busy.remove(worker)
        if self._reuse:
            worker.used, worker.idle_since = True, time.monotonic()
            self._idle.append(worker)
        else:
            self._close([worker])

    def drop(self, worker: PooledWorker) -> None:
        """End a worker that is dead, stuck, or not to be used again."""
        worker.trial = worker.leaving = self._refused = None
        if worker in self._busy:
            self._busy.remove(worker)
        self._end(worker)

    def retire_idle(self, seconds: float) -> None:
        """End workers that nobody has used for `seconds`: others may wait for their resources."""
        before = time.monotonic() - seconds
        retired = [worker for worker in self._idle if worker.idle_since < before]
        self._idle = [worker for worker in self._idle if worker not in retired]
        self._close(retired)

    def close(self) -> None:
        """End all of them."""
        self._close(self._idle)
        for worker in self._busy:
            self._end(worker)
        self._idle, self._busy = [], []

    def _close(self, workers: list[PooledWorker]) -> None:
        closing = [worker.actor.close.remote() for worker in workers]
        if closing:
            skate.wait(closing, num_returns=len(closing), timeout=_CLOSING_SECONDS)
        for worker in workers:
            self._end(worker)

    def _end(self, worker: PooledWorker) -> None:
        skate.kill(worker.actor)
        if worker.group is not None:
            from skate.util.placement_group import remove_placement_group

            remove_placement_group(worker.group)


def _options(bundle: dict[str, float]) -> dict[str, object]:
    """Make the options of an actor with these resources."""
    rest = dict(bundle)
    options: dict[str, Any] = {
        "num_cpus": rest.pop("CPU", 0),
        "num_gpus": rest.pop("GPU", 0),
    }
    if memory := rest.pop("memory", 0):
        options["memory"] = memory
    if rest:
        options["resources"] = rest
    return options


def _in_group(group: Any, resources: PlacementGroupFactory) -> object:
    from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    return PlacementGroupSchedulingStrategy(
        group,
        placement_group_bundle_index=-1 if resources.head_bundle_is_empty else 0,
        placement_group_capture_child_tasks=True,
    )
