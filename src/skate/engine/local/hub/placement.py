"""Placement groups of a session: made, found, removed with what runs in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skate import exceptions
from skate._core.labels import with_labels
from skate.engine.local.hub import errors
from skate.engine.local.hub.groups import HubGroup
from skate.engine.local.hub.resources import to_units
from skate.engine.local.objects import FAILED

if TYPE_CHECKING:
    from skate._core.labels import Selector
    from skate.engine.local.hub.counts import Counts
    from skate.engine.local.hub.processes import Processes
    from skate.engine.local.hub.scheduler import Scheduler, Shape
    from skate.engine.local.hub.state import SessionFacts, State
    from skate.engine.local.hub.tasks import TaskLifecycle
    from skate.engine.local.hub.values import Values
    from skate.engine.local.hub.workers import WorkerProcess


class PlacementGroups:
    """The groups of a session; `groups.HubGroup` keeps the state of each."""

    def __init__(
        self,
        info: SessionFacts,
        state: State,
        values: Values,
        counts: Counts,
        scheduler: Scheduler,
        tasks: TaskLifecycle,
        processes: Processes,
    ) -> None:
        self._node_id = info.node_id
        self._labels = info.labels
        self._state = state
        self._values = values
        self._counts = counts
        self._scheduler = scheduler
        self._tasks = tasks
        self._processes = processes

    def create(
        self,
        id: int,
        bundles: Sequence[Mapping[str, float]],
        strategy: str,
        name: str,
        detached: bool,
        selectors: Sequence[Selector],
        *,
        creator: WorkerProcess | None = None,
    ) -> None:
        """Make a group. It lives until it is removed, or the actor that made it is killed."""
        self._forget_impossible()
        groups, machine = self._state.groups, self._scheduler.machine
        if name and any(group.name == name for group in groups.values()):
            raise exceptions.PlacementGroupExistsError(name)
        actor = creator is not None and creator.actor is not None
        group = HubGroup(id, bundles, strategy, name, creator if actor and not detached else None)
        group.demands = [*map(to_units, with_labels(bundles, selectors, self._labels))]
        groups[id] = group
        problem = group.why_impossible(machine)
        if problem is not None:
            self._give_up(group, problem)
        else:
            self._counts.add((id,))  # until it is removed
            self._scheduler.dispatch_all()

    def _give_up(self, group: HubGroup, problem: str) -> None:
        """Tell who waits for a group that it can never be."""
        machine, demand = self._scheduler.machine, group.whole_demand()
        label = group.name or group.describe(self._node_id)["placement_group_id"]
        text = f"placement group {label}: {problem}"
        if not machine.could_ever_fit(demand):
            text += f". {errors.what_there_is(demand, machine)}"
        group.state, group.problem = "INFEASIBLE", text
        error = errors.packed(exceptions.TaskUnschedulableError(text))
        self._values.complete(group.id, FAILED, error)

    def _forget_impossible(self) -> None:
        """Forget the groups that could never be, and that nobody refers to any more."""
        groups = self._state.groups
        for group in [group for group in groups.values() if group.state == "INFEASIBLE"]:
            if group.id not in self._state.entries:
                del groups[group.id]

    def find(self, name: str) -> tuple[int, list[dict[str, float]]]:
        """Return the id and the bundles of a group by its name. Raises ValueError."""
        for group in self._state.groups.values():
            if name and group.name == name:
                return group.id, group.bundles
        names = [group.name for group in self._state.groups.values() if group.name]
        raise ValueError(
            f"Failed to look up placement group with name {name!r}; named groups: {names}"
        )

    def table(self) -> dict[str, dict[str, Any]]:
        """Describe all groups, those removed lately too."""
        groups = [*self._state.groups.values(), *self._state.removed_groups]
        rows = [group.describe(self._node_id) for group in groups]
        return {str(row["placement_group_id"]): row for row in rows}

    def remove(self, id: int) -> None:
        """Remove a group, with what waits or runs in it."""
        group = self._state.groups.pop(id, None)
        if group is not None:
            was_held = group.state != "INFEASIBLE"
            self._empty(group)
            group.maker = None
            self._state.removed_groups.append(group)
            if was_held:
                self._counts.drop((id,))
            self._scheduler.dispatch_all()

    def lose_maker(self, worker: WorkerProcess) -> None:
        """Remove the groups of an actor that was killed: what it began anew would wait for them.
        One that ended as it should may have made them for others."""
        for group in list(self._state.groups.values()):
            if group.maker is worker:
                group.maker = None
                if not errors.ended_as_it_should(worker):
                    self.remove(group.id)

    def _empty(self, group: HubGroup) -> None:
        def inside(shape: Shape | None) -> bool:
            return shape is not None and shape.group is group

        for task in self._scheduler.drop_shapes(inside):
            self._tasks.fail(task, errors.packed(errors.group_removed(task)))
        for worker in list(self._state.workers.values()):
            if inside(worker.shape):
                self._end_inside(worker)
        if group.state == "CREATED":
            group.give_back(self._scheduler.machine)
        group.state = "REMOVED"
        error = errors.packed(exceptions.TaskPlacementGroupRemoved())
        self._values.fail_from_now_on(group.id, error)

    def _end_inside(self, worker: WorkerProcess) -> None:
        for task in list(worker.in_flight.values()):
            if not task.method:
                worker.in_flight.pop(task.id)
                self._tasks.fail(task, errors.packed(errors.ended_with_group(task)))
        if worker.actor is not None:
            worker.actor.stop_reason = errors.GROUP_REMOVED
        self._processes.kill(worker)
