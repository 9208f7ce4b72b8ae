"""The replicas of all deployments: started, watched, checked, stopped, as the state machines say.

Each action runs as a task of the controller's event loop; what comes of it is an event for the
deployment's state machine, and `happened` tells the controller to look again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import skate
from skate.exceptions import SkateError
from skate.serve._controller import replica_actors
from skate.serve._controller.deployment_state import DeploymentState
from skate.serve._controller.replicas import (
    Action,
    ReconfigureReplica,
    StartReplica,
    StopReplica,
)
from skate.serve._identity import DeploymentID, ReplicaID

if TYPE_CHECKING:
    from skate.serve._controller.saved_state import ControllerState, StateReference
    from skate.serve._http.peer import PortInvitation
    from skate.serve._identity import ReplicaHandle
    from skate.serve._replica.replica_info import ReplicaInfo
    from skate.serve.gang import GangContext

Result = TypeVar("Result")

_REFUSING_SECONDS = 0.5  # that a replica goes on to refuse requests
_ADOPTION_SECONDS = 2.0  # for replicas of a former controller to tell who they are


class ReplicaManager:
    """The actors behind the replicas, by their tags."""

    def __init__(
        self, happened: Callable[[], None], invite: Callable[[ReplicaID], PortInvitation | None]
    ) -> None:
        """Tell `happened` of events; `invite(id)` returns what a replica needs to answer HTTP."""
        self.actors: dict[str, ReplicaHandle] = {}
        self.saved_state: StateReference = None  # which replicas keep for the next controller
        self._happened = happened
        self._invite = invite
        self._listening: set[str] = set()
        self._starts: dict[str, asyncio.Task[None]] = {}
        self._groups: dict[str, str] = {}  # placement groups of gangs, by each of their replicas
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[object, object, Result]) -> asyncio.Task[Result]:
        """Run this in a task, until it ends or the controller does."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # seen: a replica may die at any moment, and `_watch` tells

    def end(self) -> None:
        """Do nothing more."""
        for task in self._tasks:
            task.cancel()

    def save_state(self, state: ControllerState) -> None:
        """Give this to all replicas, for a controller that comes after this one."""
        self.saved_state = [skate.put(state)]
        for actor in self.actors.values():
            actor.save_state.remote(self.saved_state)

    def perform(self, state: DeploymentState, action: Action) -> None:
        """Do what a state machine has decided, in a task."""
        if isinstance(action, StartReplica):
            self._belongs(action.id, action.gang)
            self._starts[action.id.unique_id] = self.spawn(self._start(state, action))
        elif isinstance(action, ReconfigureReplica):
            self.spawn(self._reconfigure(state, action))
        else:
            self.spawn(self._stop(state, action))

    # -- up ------------------------------------------------------------------------------------

    def _belongs(self, id: ReplicaID, gang: GangContext | None) -> None:
        """Note which placement group is kept for as long as there is this replica."""
        self._groups[id.unique_id] = replica_actors.group_of(id, gang)

    async def _start(self, state: DeploymentState, action: StartReplica) -> None:
        tag = action.id.unique_id
        try:
            actor = self.actors[tag] = await replica_actors.create(action, self.saved_state)
            info = await replica_actors.start(actor, action)
            await self._listen(action.id)
        except Exception as error:
            self._discard(action.id)
            state.failed_to_start(tag, str(error), time.monotonic())
            self._happened()
            return
        finally:
            self._starts.pop(tag, None)
        self._is_running(state, action.id, info)

    async def _listen(self, id: ReplicaID) -> None:
        """Have a replica answer HTTP, if it is to."""
        invitation = self._invite(id)
        if invitation is not None:
            self._listening.add(id.unique_id)
            await self.actors[id.unique_id].listen.remote(invitation)

    def invite_all(self, state: DeploymentState, again: bool = False) -> None:
        """Invite those of a deployment that are to answer HTTP and do not yet; or all, `again`."""
        for tag, record in state.replicas.items():
            if tag in self.actors and record.serves and (again or tag not in self._listening):
                self._listening.add(tag)  # before the task begins: once is enough
                self.spawn(self._listen(record.id))

    def _is_running(self, state: DeploymentState, id: ReplicaID, info: ReplicaInfo) -> None:
        state.started(id.unique_id, info, time.monotonic())
        self.spawn(self._watch(state, id))
        if info.checks_health or info.owns_process:
            self.spawn(self._check_health(state, id.unique_id, info.checks_health))
        self._happened()

    async def _watch(self, state: DeploymentState, id: ReplicaID) -> None:
        """Notice the end of a replica, however it comes."""
        try:
            await self.actors[id.unique_id].ended.remote()
        except Exception as error:
            self._discard(id)
            state.died(id.unique_id, str(error), time.monotonic())
            self._happened()

    async def _check_health(self, state: DeploymentState, tag: str, by_its_code: bool) -> None:
        while True:
            options = state.spec.options
            await asyncio.sleep(options.health_check_period_s)
            if tag not in state.replicas or tag not in self.actors:
                return
            error = await replica_actors.health(
                self.actors[tag], by_its_code, options.health_check_timeout_s
            )
            state.checked(tag, error)
            self._happened()

    # -- changes and ends ----------------------------------------------------------------------

    async def _reconfigure(self, state: DeploymentState, action: ReconfigureReplica) -> None:
        tag = action.id.unique_id
        try:
            await self.actors[tag].reconfigure.remote(action.options)
        except (SkateError, KeyError) as error:
            state.failed_to_reconfigure(tag, str(error), time.monotonic())
        else:
            state.reconfigured(tag)
        self._happened()

    async def _stop(self, state: DeploymentState, action: StopReplica) -> None:
        tag = action.id.unique_id
        actor = self.actors.get(tag)
        if actor is None and tag in self._starts:
            self._starts[tag].cancel()  # it waits for resources
        if actor is not None and action.grace_seconds > 0:
            await replica_actors.drain(actor, action.grace_seconds)
            if action.refuses_late_requests:
                await asyncio.sleep(_REFUSING_SECONDS)
        self._discard(action.id)
        state.stopped(tag)
        self._happened()

    def _discard(self, id: ReplicaID) -> None:
        self._listening.discard(id.unique_id)
        actor = self.actors.pop(id.unique_id, None)
        if actor is not None:
            replica_actors.kill(actor)
        group = self._groups.pop(id.unique_id, "")
        if group and group not in self._groups.values():
            replica_actors.give_back(group)

    # -- replicas of a former controller -------------------------------------------------------

    async def adopt(self, states: dict[DeploymentID, DeploymentState]) -> list[str]:
        """Take over the replicas that run; return the addresses of those that answer HTTP."""
        found = []
        for id, actor in replica_actors.find_running():
            state = states.get(id.deployment_id)
            if state is None:
                replica_actors.kill(actor)
                continue
            self.actors[id.unique_id] = actor
            state.recovered(id, len(state.replicas), time.monotonic())
            found.append(self.spawn(self._find_out(state, id)))
        if not found:
            self._give_back_of_lost()
            return []
        # Waiting, so that routers do not hear of a deployment without replicas.
        done, late = await asyncio.wait(found, timeout=_ADOPTION_SECONDS)
        if not late:  # else nobody knows whose groups these are
            self._give_back_of_lost()
        return [address for task in done if (address := task.result()) is not None]

    def _give_back_of_lost(self) -> None:
        """Give back what was reserved for replicas that ended while there was no controller."""
        for group in set(replica_actors.groups_of_replicas()) - set(self._groups.values()):
            replica_actors.give_back(group)

    async def _find_out(self, state: DeploymentState, id: ReplicaID) -> str | None:
        """Ask a replica what it is; return its address, if it answers HTTP."""
        try:
            info: ReplicaInfo = await self.actors[id.unique_id].describe.remote()
        except Exception as error:
            self._discard(id)
            state.died(id.unique_id, str(error), time.monotonic())
            self._happened()
            return None
        self._belongs(id, info.gang)
        self._is_running(state, id, info)
        return info.address
