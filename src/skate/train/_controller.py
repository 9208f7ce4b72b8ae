"""Runs a loop on a group of workers until it is done, whatever happens to the workers.

start group ─► events of all ranks ─► record ─► answer all ─► … ─► all finished ─► result
     ▲                  │ a rank raised, died, hangs
     └── again, from the last checkpoint ◄── end the group (max_failures times, else raise)
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import skate
from skate._run.checkpoint import Checkpoint
from skate._run.config import FailureConfig, ScalingConfig
from skate._run.context import Whereabouts
from skate._run.result import Result
from skate.exceptions import GetTimeoutError, SkateError
from skate.train._errors import WorkerGroupError, WorkerHungError, cause_of, failure_of
from skate.train._gpus import share_gpus
from skate.train._group import WorkerGroup
from skate.train._recorder import Recorder
from skate.train._shipping import pickled_loop
from skate.train._view import View
from skate.train._worker import FINISHED, MEETING, REPORTED, Answer, Event, Job
from skate.train.backend import BackendConfig

LOOK_AROUND = 1.0  # seconds between two looks at workers that say nothing
HUNG_VARIABLE = "SKATE_TRAIN_HUNG_AFTER"
HUNG_AFTER = 60.0  # seconds without an answer from a worker's process


@dataclass
class Plan:
    """What a trainer wants to be run."""

    loop: Callable[..., Any]
    config: dict[str, Any]
    scaling: ScalingConfig
    failure: FailureConfig
    backend: BackendConfig
    shards: Callable[[WorkerGroup, Any], list[dict[str, Any]]]
    checkpoint: Checkpoint | None
    metadata: dict[str, Any]

    @cached_property
    def pickled(self) -> bytes:
        """The loop and its configuration, for the workers."""
        return pickled_loop(self.loop, self.config)


class WorkersFailed(Exception):  # noqa: N818 - not an error that anybody else sees
    """Some ranks have failed; the group is to be ended."""

    def __init__(self, failures: dict[int, BaseException]) -> None:
        super().__init__(failures)
        self.failures = failures


class Controller:
    """One call of `fit`."""

    def __init__(self, plan: Plan, recorder: Recorder, view: View) -> None:
        self._plan = plan
        self._recorder = recorder
        self._view = view

    def run(self) -> Result:
        failures = 0
        while True:
            try:
                value = self._run_group()
                return self._recorder.close(value=value)
            except WorkersFailed as failed:
                failures += 1
                again = not 0 <= self._plan.failure.max_failures < failures
                self._recorder.failed(failed.failures, again)
                if not again:
                    raise self._given_up(failed) from cause_of(failed.failures)
                self._recorder.roll_back()
                self._view.restarting(failures, failed.failures)
            except BaseException as error:
                self._recorder.close(error)
                raise

    def _given_up(self, failed: WorkersFailed) -> WorkerGroupError:
        error = failure_of(failed.failures)
        self._recorder.close(error)
        return error

    def _run_group(self) -> Any:
        group = WorkerGroup(self._plan.scaling, self._recorder.run.run_config.worker_runtime_env)
        try:
            return self._train(group)
        finally:
            group.shutdown()

    def _train(self, group: WorkerGroup) -> Any:
        backend, config = self._plan.backend.backend_cls(), self._plan.backend
        try:
            group.check_processes()
            if backend.share_cuda_visible_devices and group.get_resources_per_worker().get("GPU"):
                share_gpus(group)
            backend.on_start(group, config)
            self._prepare(group)
            backend.on_training_start(group, config)
            skate.get([worker.start.remote() for worker in group.workers])
        except SkateError as error:
            raise WorkersFailed({_rank_of(error, group): error}) from error
        self._recorder.clock.restart()
        events = _Conversation(group, self._view)
        while True:
            reports = events.next()
            if all(event.kind == FINISHED for event in reports):
                backend.on_shutdown(group, config)
                return reports[0].value
            if reports[0].kind == MEETING:
                events.answer(self._answer(reports[0].value))
                continue
            self._recorder.record(reports)
            self._view.reported(self._recorder.run)
            if self._recorder.should_stop():
                return None
            events.answer(self._answer())

    def _answer(self, value: Any = None) -> Answer:
        latest = self._recorder.checkpoint or self._plan.checkpoint
        return Answer(self._recorder.next_checkpoint, latest, value)

    def _prepare(self, group: WorkerGroup) -> None:
        shards = self._plan.shards(group, self._recorder.positions)
        skate.get(
            [
                worker.prepare.remote(self._job(rank, group), shards[rank])
                for rank, worker in enumerate(group.workers)
            ]
        )

    def _job(self, rank: int, group: WorkerGroup) -> Job:
        run, place = self._recorder.run, group.places[rank]
        whereabouts = Whereabouts(
            experiment_name=run.name,
            trial_name=run.name,
            trial_id=run.trial_id,
            trial_dir=run.storage.path,
            trial_resources=self._plan.scaling.total_resources,
            world_size=len(group),
            world_rank=rank,
            local_rank=place.local_rank,
            local_world_size=place.local_world_size,
            node_rank=place.node_rank,
            metadata=self._plan.metadata,
            storage=run.storage,
        )
        return Job(
            self._plan.pickled,
            whereabouts,
            self._recorder.storage,
            self._recorder.checkpoint or self._plan.checkpoint,
            self._recorder.next_checkpoint,
            self._plan.backend.train_func_context,
        )


class _Conversation:
    """Asks all workers for their next event, and notices when one falls silent for good."""

    def __init__(self, group: WorkerGroup, view: View) -> None:
        self._workers = group.workers
        self._view = view
        self._asked = {worker.next_event.remote(None): i for i, worker in enumerate(self._workers)}
        self._pulse = _Pulse(group)

    def answer(self, answer: Answer) -> None:
        self._asked = {
            worker.next_event.remote(answer): rank for rank, worker in enumerate(self._workers)
        }

    def next(self) -> list[Event]:
        """The next event of each rank, when all are there."""
        found: dict[int, Event] = {}
        since = time.monotonic()
        while self._asked:
            ready, _ = skate.wait(list(self._asked), num_returns=1, timeout=LOOK_AROUND)
            for ref in ready:
                rank = self._asked.pop(ref)
                found[rank] = self._event(ref, rank)
            if not ready:
                self._pulse.feel(list(self._asked.values()))
                self._view.waiting(sorted(self._asked.values()), found, time.monotonic() - since)
            if len({event.kind for event in found.values()}) > 1:
                _check_together(found)  # they will never meet
        return [found[rank] for rank in sorted(found)]

    def _event(self, ref: Any, rank: int) -> Event:
        try:
            event: Event = skate.get(ref)
        except Exception as error:
            raise WorkersFailed({rank: error}) from error
        return event


class _Pulse:
    """Whether the processes of the workers still answer, however busy their loops are."""

    def __init__(self, group: WorkerGroup) -> None:
        self._workers = group.workers
        self._limit = float(os.environ.get(HUNG_VARIABLE, HUNG_AFTER))
        self._pings: dict[int, tuple[Any, float]] = {}

    def feel(self, ranks: list[int]) -> None:
        """Raise if the process of one of these ranks has not answered for too long."""
        now = time.monotonic()
        for rank in ranks:
            if rank not in self._pings:
                self._pings[rank] = (self._workers[rank].ping.remote(), now)
            ping, sent = self._pings[rank]
            try:
                skate.get(ping, timeout=0)
                del self._pings[rank]
            except GetTimeoutError:
                if now - sent > self._limit:
                    raise WorkersFailed({rank: _hung(rank, now - sent)}) from None
            except SkateError:
                del self._pings[rank]  # it is dead, as its pending event says in a moment


def _hung(rank: int, seconds: float) -> WorkerHungError:
    return WorkerHungError(
        f"the process of rank {rank} has not answered for {seconds:.0f} s. If it may be busy "
        f"outside of Python for that long, set {HUNG_VARIABLE} to more seconds"
    )


def _rank_of(error: SkateError, group: WorkerGroup) -> int:
    """Which worker an error of the start-up is about; the first, where it does not say."""
    name = getattr(error, "actor_id", None) or getattr(error, "_actor_id", None)
    ids = [worker._actor_id.hex() for worker in group.workers]
    return ids.index(name) if name in ids else 0


def _check_together(reports: dict[int, Event]) -> None:
    kinds = {rank: event.kind for rank, event in sorted(reports.items())}
    if len(set(kinds.values())) > 1:
        done = "; ".join(f"rank {rank} has {_DONE[kind]}" for rank, kind in kinds.items())
        error = RuntimeError(
            f"the workers are out of step: {done}. All of them must call report, and the "
            "functions of train.collective, equally often and in the same order"
        )
        odd = next((rank for rank, kind in kinds.items() if kind == FINISHED), 0)
        raise WorkersFailed({odd: error})


_DONE = {
    REPORTED: "reported",
    FINISHED: "returned from the loop",
    MEETING: "called a function of train.collective",
}
