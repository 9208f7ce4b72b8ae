"""The life of one deployment's replicas: targets and events in, actions out. No input or output.

    set_target, scale_to, delete ─┐
    started, failed, died, …     ─┴─► DeploymentState.reconcile(now) ─► start, reconfigure, stop

Replicas of the target's version are current, others outdated. Outdated ones are replaced in
batches: where a replica reserves nothing, the new one starts before the old one stops. The
replicas of a gang start together, and when one of them ends, the others are stopped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from skate.serve._application.specs import DeploymentSpec
from skate.serve._controller.replicas import (
    Action,
    ReconfigureReplica,
    ReplicaRecord,
    StartReplica,
    StopReplica,
)
from skate.serve._gang_scheduling import whole_gangs
from skate.serve._identity import GANG_GROUP, ReplicaID, new_tag
from skate.serve._status import DeploymentStatus, DeploymentStatusTrigger, ReplicaState
from skate.serve.gang import GangContext

if TYPE_CHECKING:
    from skate.serve._replica.replica_info import ReplicaInfo

_UNHEALTHY_AFTER_CHECKS = 3  # failed health checks in a row
_SHORT_LIFE_SECONDS = 1.0  # a replica that died sooner counts as one that failed to start
_STARTING_GRACE_SECONDS = 0.5  # for a replica that has not started yet to end by itself
_LONGEST_PAUSE_SECONDS = 10.0


class DeploymentState:
    """Targets, replicas and status of one deployment."""

    def __init__(self, spec: DeploymentSpec) -> None:
        self.spec = spec
        self.id = spec.id
        self.wanted = self.whole(spec.options.num_replicas)
        self.replicas: dict[str, ReplicaRecord] = {}
        self.deleting = False
        self.status = DeploymentStatus.UPDATING
        self.trigger = DeploymentStatusTrigger.CONFIG_UPDATE_STARTED
        self.message = ""
        self._begin_rollout()

    def _begin_rollout(self) -> None:
        self._failures = 0
        self._next_start = 0.0
        self._has_run = False  # a replica of this version has been up
        self._error = ""

    # -- targets -------------------------------------------------------------------------------

    def set_target(self, spec: DeploymentSpec) -> None:
        """Aim at this code and these options."""
        before, self.spec = self.spec, spec
        self.deleting = False
        changed = before.version != spec.version or before.options != spec.options
        self.wanted = self.whole(self._first_wanted(before)) if changed else self.wanted
        failed = self.status == DeploymentStatus.DEPLOY_FAILED
        if before.version != spec.version or failed:
            self._begin_rollout()
        if changed or failed:
            self._set(DeploymentStatus.UPDATING, DeploymentStatusTrigger.CONFIG_UPDATE_STARTED)

    def _first_wanted(self, before: DeploymentSpec) -> int:
        """Return how many replicas to begin with, by the new spec and what there is already."""
        options = self.spec.options
        limits, first = options.autoscaling, options.num_replicas
        if limits is None or before.options.autoscaling is None:
            return first
        if limits.initial_replicas is None:
            first = self.wanted
        elif before.version == self.spec.version:  # those that the load asked for are not ended
            first = max(self.wanted, first)
        return min(max(first, limits.min_replicas), limits.max_replicas)

    def whole(self, replicas: float) -> int:
        """Return as many replicas, in whole gangs."""
        options = self.spec.options
        most = None if options.autoscaling is None else options.autoscaling.max_replicas
        return whole_gangs(replicas, options.gang_size, most)

    def scale_to(self, wanted: int) -> None:
        """Aim at so many replicas, by decision of the autoscaler."""
        if wanted == self.wanted:
            return
        if self.status == DeploymentStatus.HEALTHY:
            up = wanted > self.wanted
            status = DeploymentStatus.UPSCALING if up else DeploymentStatus.DOWNSCALING
            self._set(status, DeploymentStatusTrigger.AUTOSCALING)
        self.wanted = wanted

    def delete(self) -> None:
        """Aim at no replicas, and no deployment."""
        self.deleting = True
        self._set(DeploymentStatus.UPDATING, DeploymentStatusTrigger.DELETING)

    # -- events --------------------------------------------------------------------------------

    def recovered(self, id: ReplicaID, rank: int, now: float) -> None:
        """Note a replica that was there before this controller; `started` or `died` follows."""
        record = ReplicaRecord(id, "", self.spec.options, rank, now)
        record.state = ReplicaState.RECOVERING
        self.replicas[id.unique_id] = record

    def started(self, tag: str, info: ReplicaInfo, now: float) -> None:
        """Note that a replica answers."""
        record = self.replicas.get(tag)
        if record is None or record.state == ReplicaState.STOPPING:
            return
        record.state, record.since = ReplicaState.RUNNING, now
        record.version, record.options = info.version, info.options
        record.models, record.metadata = info.models, info.metadata
        record.gang = record.gang or info.gang  # that of one that was there before
        if record.version == self.spec.version:
            self._has_run = True
            self._error = ""

    def failed_to_start(self, tag: str, error: str, now: float) -> None:
        """Note that a replica did not come up, unless it was told to end."""
        record = self.replicas.pop(tag, None)
        if record is not None and record.state != ReplicaState.STOPPING:
            self._count_failure(error, now)

    def died(self, tag: str, error: str, now: float) -> None:
        """Note that a replica is gone, by itself."""
        record = self.replicas.pop(tag, None)
        if record is None or record.state == ReplicaState.STOPPING or self.deleting:
            return
        if record.state == ReplicaState.STARTING:
            self._count_failure(error, now)
        elif record.state != ReplicaState.RECOVERING:
            if now - record.since < _SHORT_LIFE_SECONDS:
                self._count_failure(error, now)
            else:
                self._failures = 0
            if record.version == self.spec.version:
                self._be_unhealthy(f"A replica died: {error}")

    def stopped(self, tag: str) -> None:
        """Note that a replica is gone, as it was told."""
        self.replicas.pop(tag, None)

    def reconfigured(self, tag: str) -> None:
        """Note that a replica has its new options."""
        record = self.replicas.get(tag)
        if record is not None and record.state == ReplicaState.UPDATING:
            record.state = ReplicaState.RUNNING

    def failed_to_reconfigure(self, tag: str, error: str, now: float) -> None:
        """Replace a replica whose `reconfigure` raised by one that starts with the config."""
        record = self.replicas.get(tag)
        if record is not None:
            for member in self._gang_of(record):
                member.make_outdated()
            self._has_run = False
            self._count_failure(error, now)

    def checked(self, tag: str, error: str | None) -> None:
        """Note that a health check has ended, with an error or without."""
        record = self.replicas.get(tag)
        if record is None:
            return
        record.health_failures = 0 if error is None else record.health_failures + 1
        if record.health_failures >= _UNHEALTHY_AFTER_CHECKS:
            record.unhealthy, record.version = True, ""  # to be replaced
            self._be_unhealthy(f"A replica's health check failed: {error}")

    def has_models(self, tag: str, models: tuple[str, ...]) -> None:
        """Note which models a replica has loaded."""
        if tag in self.replicas:
            self.replicas[tag].models = models

    def has_stats(self, tag: str, stats: bytes) -> None:
        """Note what the code of a replica has measured, for routers of the user's."""
        if tag in self.replicas:
            self.replicas[tag].stats = stats

    def _count_failure(self, error: str, now: float) -> None:
        self._failures += 1
        self._error = error
        self._next_start = now + _pause(self._failures)
        limit = min(self.spec.options.max_constructor_retry_count, 3 * max(1, self.wanted))
        if not self._has_run and self._failures >= limit:
            self._set(
                DeploymentStatus.DEPLOY_FAILED,
                DeploymentStatusTrigger.REPLICA_STARTUP_FAILED,
                f"{self._failures} replicas, one after the other, did not come up: look at the "
                f"constructor and, if there is one, check_health. The last error:\n{error}",
            )
        elif self.status == DeploymentStatus.UPDATING:
            self.message = f"A replica failed to start, trying again. Error:\n{error}"

    def _be_unhealthy(self, message: str) -> None:
        if self.status not in (DeploymentStatus.UPDATING, DeploymentStatus.DEPLOY_FAILED):
            trigger = DeploymentStatusTrigger.HEALTH_CHECK_FAILED
            self._set(DeploymentStatus.UNHEALTHY, trigger, message)

    def _set(
        self, status: DeploymentStatus, trigger: DeploymentStatusTrigger, message: str = ""
    ) -> None:
        self.status, self.trigger, self.message = status, trigger, message

    # -- decisions -----------------------------------------------------------------------------

    def reconcile(self, now: float) -> list[Action]:
        """Return what is to be done to come closer to the target."""
        if self.deleting:
            return [self._stop(record) for record in self._alive()]
        actions = [*self._reconfigure(), *self._replace(now)]
        self._settle()
        return actions

    @property
    def next_time(self) -> float | None:
        """When to look again although nothing happened; None: not before something does."""
        waits = self._current_count() < self.wanted and self._next_start
        return self._next_start if waits and not self._has_failed() else None

    def _has_failed(self) -> bool:
        return self.status == DeploymentStatus.DEPLOY_FAILED

    def _alive(self) -> list[ReplicaRecord]:
        return [r for r in self.replicas.values() if r.state != ReplicaState.STOPPING]

    def _is_current(self, record: ReplicaRecord) -> bool:
        recovering = record.state == ReplicaState.RECOVERING
        return recovering or record.version == self.spec.version

    def _current_count(self) -> int:
        return sum(map(self._is_current, self._alive()))

    def _reconfigure(self) -> Iterator[Action]:
        for record in self._alive():
            outdated = record.options != self.spec.options
            if record.state == ReplicaState.RUNNING and self._is_current(record) and outdated:
                record.options = self.spec.options
                record.state = ReplicaState.UPDATING
                yield ReconfigureReplica(record.id, self.spec.options)

    def _replace(self, now: float) -> Iterator[Action]:
        yield from self._stop_useless()
        alive = self._alive()
        current = [record for record in alive if self._is_current(record)]
        outdated = [record for record in alive if not self._is_current(record)]
        yield from self._stop_outdated(current, outdated)
        if now >= self._next_start and not self._has_failed():
            for _ in range(self._missing(len(current)) // self.spec.options.gang_size):
                yield from self._start_gang(now)
        surplus = len(current) - self.wanted
        if surplus > 0:
            yield from self._stop_some(self._least_useful(current), surplus)

    def _stop_useless(self) -> Iterator[Action]:
        """Stop outdated replicas that do not serve, and those whose gang is not whole any more."""
        for record in self._alive():
            if not (self._is_current(record) or record.serves):
                yield self._stop(record)
        for record in self._alive():
            if record.gang is not None and len(self._gang_of(record)) < record.gang.world_size:
                record.make_outdated()
                yield self._stop(record)

    def _gang_of(self, record: ReplicaRecord) -> list[ReplicaRecord]:
        """Return those of the replica's gang that are alive; without a gang, the replica."""
        if record.gang is None:
            return [record]
        members = map(self.replicas.get, record.gang.member_replica_ids)
        return [m for m in members if m is not None and m.state != ReplicaState.STOPPING]

    def _stop_some(self, records: list[ReplicaRecord], most: int) -> Iterator[Action]:
        """Stop so many, the first ones first, or fewer: of a gang all or none."""
        for record in records:
            gang = self._gang_of(record) if record.state != ReplicaState.STOPPING else []
            if gang and len(gang) <= most:
                most -= len(gang)
                yield from map(self._stop, gang)

    def _surges(self) -> bool:
        return self.spec.options.max_surge_percent > 0 or not self.spec.options.reserves

    def _batch(self) -> int:
        """Return how many replicas are replaced at a time, at least a gang of before."""
        options = self.spec.options
        share = options.rolling_update_percentage
        if self._surges() and options.max_surge_percent:
            share = options.max_surge_percent / 100
        size = options.gang_size
        largest = max((len(self._gang_of(record)) for record in self._alive()), default=1)
        return max(math.ceil(largest / size), math.floor(share * self.wanted) // size) * size

    def _stop_outdated(
        self, current: list[ReplicaRecord], outdated: list[ReplicaRecord]
    ) -> Iterator[Action]:
        serving = sum(record.serves for record in current) + len(outdated)
        if self._has_failed():
            return
        spare = serving - self.wanted
        if not self._surges():
            spare += self._batch()
        yield from self._stop_some(outdated, spare)

    def _missing(self, current: int) -> int:
        """Return how many replicas may be started now."""
        alive = len(self._alive())
        if self._surges():
            room = self.wanted + self._batch() - alive if alive > current else self.wanted
        else:
            room = self.wanted - len(self.replicas)  # those that stop still hold what they took
        return max(0, min(self.wanted - current, room))

    @staticmethod
    def _least_useful(records: list[ReplicaRecord]) -> list[ReplicaRecord]:
        """Sort those that do not serve yet first, then the youngest."""
        return sorted(records, key=lambda record: (record.serves, -record.since))

    def _start_gang(self, now: float) -> Iterator[StartReplica]:
        options = self.spec.options
        tags = [new_tag() for _ in range(options.gang_size)]
        if options.gangs is None:
            yield self._start(tags[0], None, now)
            return
        name = new_tag()
        group = f"{GANG_GROUP}{self.id.app_name}_{self.id.name}_{name}"
        for rank, tag in enumerate(tags):
            gang = GangContext(name, rank, len(tags), tags, group if options.reserves else "")
            yield self._start(tag, gang, now)

    def _start(self, tag: str, gang: GangContext | None, now: float) -> StartReplica:
        id = ReplicaID(tag, self.id)
        taken = {record.rank for record in self._alive()}
        rank = next(number for number in range(len(taken) + 1) if number not in taken)
        record = ReplicaRecord(id, self.spec.version, self.spec.options, rank, now, gang)
        self.replicas[tag] = record
        return StartReplica(id, self.spec, rank, self.wanted, gang)

    def _stop(self, record: ReplicaRecord) -> StopReplica:
        serves = record.serves
        starting = _STARTING_GRACE_SECONDS if record.state == ReplicaState.STARTING else 0
        grace = self.spec.options.graceful_shutdown_timeout_s if serves else starting
        record.state = ReplicaState.STOPPING
        return StopReplica(record.id, grace, refuses_late_requests=not self.deleting)

    def _settle(self) -> None:
        """Set the status, once the target is reached."""
        alive = self._alive()
        running = [r for r in alive if r.state == ReplicaState.RUNNING and self._is_current(r)]
        if len(running) != self.wanted or len(alive) != self.wanted:
            return
        ending = len(self.replicas) - len(alive)
        if ending:
            self.message = f"{ending} replicas that are not needed any more finish what they have."
            return
        done = {
            DeploymentStatus.UPDATING: DeploymentStatusTrigger.CONFIG_UPDATE_COMPLETED,
            DeploymentStatus.UPSCALING: DeploymentStatusTrigger.UPSCALE_COMPLETED,
            DeploymentStatus.DOWNSCALING: DeploymentStatusTrigger.DOWNSCALE_COMPLETED,
            DeploymentStatus.UNHEALTHY: self.trigger,
        }
        if self.status in done:
            self._set(DeploymentStatus.HEALTHY, done[self.status])


def _pause(failures: int) -> float:
    """Return the seconds before the next try: none after a single failure, then ever more."""
    pause: float = 0.1 * 2 ** (failures - 2) if failures > 1 else 0.0
    return min(pause, _LONGEST_PAUSE_SECONDS)
