"""Change the resources of trials while they run, around any other scheduler."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from skate._run.types import ResultRow
from skate.tune.execution.placement_groups import PlacementGroupFactory
from skate.tune.schedulers.trial_scheduler import RUNNING, FIFOScheduler, TrialScheduler

if TYPE_CHECKING:
    from skate.tune.execution.controller import TuneController
    from skate.tune.experiment.trial import Trial

Bundle = dict[str, float]


def _named(resources: Bundle | None) -> Bundle:
    """Return "cpu" and "gpu" by the names that bundles have."""
    names = {"cpu": "CPU", "gpu": "GPU"}
    return {names.get(name, name): amount for name, amount in (resources or {}).items()}


class DistributeResources:
    """Share all CPUs and GPUs evenly among the running trials.

    A trial never gets less than it began with.

    Args:
        add_bundles: Whether what is added comes as new bundles (for more workers); if not, the
            existing ones grow.
        increase_by: The unit in which a trial grows; by default 1 CPU and/or GPU in proportion to
            what it has.
        increase_by_times: How many of them at the most; not above 0 is without limit.
        reserve_resources: What stays free.
    """

    metric: str | None = None
    mode: str | None = None

    def __init__(
        self,
        add_bundles: bool = False,
        increase_by: Bundle | None = None,
        increase_by_times: int = -1,
        reserve_resources: Bundle | None = None,
    ) -> None:
        self.add_bundles = add_bundles
        self.increase_by: dict[str, float] = _named(increase_by)
        self.increase_by_times = increase_by_times
        self.reserve_resources: dict[str, float] = _named(reserve_resources)

    def __call__(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow, scheduler: Any
    ) -> PlacementGroupFactory | None:
        """Return the new resources of a trial that has reported; None if they stay."""
        base = scheduler.base_trial_resources or PlacementGroupFactory([{"CPU": 1}])
        if result["training_iteration"] < 1:
            return None
        units = self._units_for(tune_controller, trial, base)
        return self._grown(base, units)

    def _units_for(
        self, tune_controller: TuneController, trial: Trial, base: PlacementGroupFactory
    ) -> int:
        """Count the units that the trial gets on top of what it began with.

        These are all that are free now, up to its share of what is spare.
        """
        live = tune_controller.get_live_trials()
        begun = [base] * len(live)
        share = math.ceil(self._free_units(tune_controller, base, begun) / max(len(live), 1))
        return min(self._units_within_reach(tune_controller, trial, base), max(share, 0))

    def _units_within_reach(
        self, tune_controller: TuneController, trial: Trial, base: PlacementGroupFactory
    ) -> int:
        """Count the trial's units and the free ones; fewer than it has, if these are short."""
        live = [one.placement_group_factory for one in tune_controller.get_live_trials()]
        now, begun = trial.placement_group_factory.required_resources, base.required_resources
        grown = {name: now.get(name, 0) - begun.get(name, 0) for name in self._unit(base)}
        units = self._units_in(grown, base) + self._free_units(tune_controller, base, live)
        most = self.increase_by_times if self.increase_by_times > 0 else units
        return max(min(units, most), 0)

    def _free_units(
        self,
        tune_controller: TuneController,
        base: PlacementGroupFactory,
        held: Sequence[PlacementGroupFactory],
    ) -> int:
        """Count the units that are left beside what trials hold."""
        free = _total_of(tune_controller)
        for taken in (self.reserve_resources, *(one.required_resources for one in held)):
            for name, amount in taken.items():
                free[name] = free.get(name, 0) - amount
        return self._units_in(free, base)

    def _units_in(self, amounts: Bundle, base: PlacementGroupFactory) -> int:
        unit = self._unit(base).items()
        counts = [math.floor(amounts.get(name, 0) / amount) for name, amount in unit]
        return min(counts, default=0)

    def _unit(self, base: PlacementGroupFactory) -> Bundle:
        if self.increase_by:
            return {name: amount for name, amount in self.increase_by.items() if amount}
        wanted = base.required_resources
        if self.add_bundles:
            return {n: a for n, a in base.bundles[-1].items() if n in ("CPU", "GPU") and a}
        return {name: 1.0 for name in ("CPU", "GPU") if wanted.get(name)}

    def _grown(self, base: PlacementGroupFactory, units: int) -> PlacementGroupFactory:
        bundles = [dict(bundle) for bundle in base.bundles]
        unit = self._unit(base)
        if self.add_bundles:
            bundles += [dict(unit) for _ in range(units)]
        else:
            for name, amount in unit.items():
                bundles[0][name] = bundles[0].get(name, 0) + amount * units
        head: list[dict[str, float]] = [{}] if base.head_bundle_is_empty else []
        return PlacementGroupFactory(head + bundles, base.strategy)


class DistributeResourcesToTopJob(DistributeResources):
    """Give all that is spare to the best trial so far, by `metric` and `mode`."""

    def __init__(
        self,
        add_bundles: bool = False,
        increase_by: Bundle | None = None,
        increase_by_times: int = -1,
        reserve_resources: Bundle | None = None,
        metric: str | None = None,
        mode: str | None = None,
    ) -> None:
        super().__init__(add_bundles, increase_by, increase_by_times, reserve_resources)
        self.metric = metric
        self.mode = mode

    def _units_for(
        self, tune_controller: TuneController, trial: Trial, base: PlacementGroupFactory
    ) -> int:
        if not self.metric or self.mode not in ("min", "max"):
            raise ValueError(
                f"DistributeResourcesToTopJob needs metric and mode; got {self.metric!r} and "
                f"{self.mode!r}"
            )
        metric, sign = self.metric, 1 if self.mode == "max" else -1
        live = [t for t in tune_controller.get_live_trials() if metric in t.last_result]
        best = max(live, key=lambda t: sign * t.last_result[metric], default=None)
        if trial is not best:
            return 0
        return self._units_within_reach(tune_controller, trial, base)


def _total_of(tune_controller: Any) -> dict[str, float]:
    """Return all resources that trials can have.

    Controllers that are made up to try an allocation, as tests for Ray do, know it by way of
    their `_resource_updater` only.
    """
    if hasattr(tune_controller, "total_resources"):
        return dict(tune_controller.total_resources())
    known = tune_controller._resource_updater
    return {"CPU": known.get_num_cpus(), "GPU": known.get_num_gpus()}


Allocation = Callable[[Any, "Trial", dict[str, Any], Any], PlacementGroupFactory | None]


class ResourceChangingScheduler(TrialScheduler):
    """Change the resources of trials while they run.

    With new resources a trial is paused, and goes on with them from its checkpoint, so trials must
    save checkpoints.

    Args:
        base_scheduler: Decides what goes on; by default everything.
        resources_allocation_function: Is called as `(controller, trial, result, scheduler)` after
            each result with which the trial goes on, and returns its resources; None keeps them.
    """

    def __init__(
        self,
        base_scheduler: TrialScheduler | None = None,
        resources_allocation_function: Allocation | None = DistributeResources(),  # noqa: B008
    ) -> None:
        if resources_allocation_function is None:
            warnings.warn(
                "without a resources_allocation_function no trial's resources change",
                stacklevel=2,
            )
        # a copy, for it is told the metric, and the default is one for all
        self._allocate: Any = copy.copy(resources_allocation_function)
        self._base = base_scheduler or FIFOScheduler()
        self._base_trial_resources: PlacementGroupFactory | None = None
        self._changes: dict[str, tuple[Trial, PlacementGroupFactory]] = {}
        self._changed: set[str] = set()

    @property
    def metric(self) -> str | None:
        return self._base.metric

    @property
    def base_trial_resources(self) -> PlacementGroupFactory | None:
        """What each trial begins with."""
        return self._base_trial_resources

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        self._metric, self._mode = metric, mode
        return self._base.set_search_properties(metric, mode, **spec)

    def on_trial_add(self, tune_controller: TuneController, trial: Trial, **kwargs: Any) -> None:
        wanted = trial.placement_group_factory
        if self._base_trial_resources is None:
            self._base_trial_resources = wanted
        elif trial.trial_id not in self._changed and wanted != self._base_trial_resources:
            raise RuntimeError(
                f"ResourceChangingScheduler needs trials that begin with the same resources: the "
                f"first had {self._base_trial_resources}, {trial} has {wanted}"
            )
        self._base.on_trial_add(tune_controller, trial, **kwargs)

    def on_trial_error(self, tune_controller: TuneController, trial: Trial, **kwargs: Any) -> None:
        self._base.on_trial_error(tune_controller, trial, **kwargs)

    def learn_from(self, trial: Trial, results: Iterable[ResultRow]) -> None:
        self._base.learn_from(trial, results)

    def needs_checkpoint(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> bool:
        return self._base.needs_checkpoint(tune_controller, trial, result)

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> str:
        decision = self._base.on_trial_result(tune_controller, trial, result)
        if decision != TrialScheduler.CONTINUE:
            return decision
        wanted = self.reallocate_trial_resources_if_needed(tune_controller, trial, result)
        if wanted is None:
            return decision
        self._changes[trial.trial_id] = (trial, wanted)
        return TrialScheduler.PAUSE

    def on_trial_complete(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow, **kwargs: Any
    ) -> None:
        self._base.on_trial_complete(tune_controller, trial, result, **kwargs)

    def on_trial_remove(
        self, tune_controller: TuneController, trial: Trial, **kwargs: Any
    ) -> None:
        self._base.on_trial_remove(tune_controller, trial, **kwargs)

    def choose_trial_to_run(self, tune_controller: TuneController, **kwargs: Any) -> Trial | None:
        for trial_id, (trial, wanted) in list(self._changes.items()):
            if trial.status != RUNNING:
                del self._changes[trial_id]
                self.set_trial_resources(trial, wanted)
        return self._base.choose_trial_to_run(tune_controller, **kwargs)

    def set_trial_resources(self, trial: Trial, new_resources: Any) -> bool:
        """Give a trial new resources.

        Args:
            trial: The trial.
            new_resources: The resources; None for none.

        Returns:
            Whether there were any.
        """
        if not new_resources:
            return False
        trial.update_resources(new_resources)
        self._changed.add(trial.trial_id)
        return True

    def reallocate_trial_resources_if_needed(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> PlacementGroupFactory | None:
        """Return what the function says, if it is not what the trial has; else None.

        Args:
            tune_controller: The state of the experiment, which has `get_trials()`.
            trial: The trial.
            result: What it has reported.
        """
        if self._allocate is None:
            return None
        for name in ("metric", "mode"):
            if not getattr(self._allocate, name, None):
                setattr(self._allocate, name, getattr(self._base, f"_{name}"))
        wanted: PlacementGroupFactory | None = self._allocate(tune_controller, trial, result, self)
        return wanted if wanted and wanted != trial.placement_group_factory else None

    def debug_string(self) -> str:
        return f"(ResourceChangingScheduler) {self._base.debug_string()}"
