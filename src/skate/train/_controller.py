"""Runs a loop on a group of workers until it is done, whatever happens to the workers.

start group ─► events of all ranks ─► record ─► answer all ─► … ─► all finished ─► result
     ▲                  │ a rank raised, died, hangs
     └── again, from the last checkpoint ◄── end the group (max_failures times, else raise)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import skate
from skate._run.checkpoint import Checkpoint
from skate._run.config import FailureConfig, ScalingConfig, may_retry
from skate._run.context import SessionInfo
from skate._run.result import Result
from skate._run.types import Config
from skate.exceptions import ActorDiedError, GetTimeoutError, SkateError
from skate.train._errors import (
    WorkerGroupError,
    WorkerHungError,
    controller_failure_of,
    failure_of,
    shown_cause,
)
from skate.train._events import FINISHED, MEETING, REPORTED, Answer, Event
from skate.train._gpus import share_gpus
from skate.train._group import WorkerGroup
from skate.train._monitor import WorkerFailed
from skate.train._recorder import Recorder
from skate.train._shipping import pickled_loop
from skate.train._view import View
from skate.train._worker import WorkerJob
from skate.train.backend import Backend, BackendConfig

OTHERS_TOO_SECONDS = 0.5  # in which further ranks may fail for the same reason
STOP_GRACE_SECONDS = 5.0  # in which loops may clean up when the run is to stop


@dataclass
class TrainPlan:
    """What a trainer wants to be run."""

    loop: Callable[..., Any]
    config: Config
    scaling: ScalingConfig
    failure: FailureConfig
    backend: BackendConfig
    shards: Callable[[WorkerGroup, Any], list[dict[str, Any]]]
    checkpoint: Checkpoint | None
    metadata: dict[str, Any]
    all_values: bool = False  # what the loops of all ranks return is wanted, not only of the first
    retries_errors: bool = True  # or only where processes have died

    @cached_property
    def pickled(self) -> bytes:
        """The loop and its configuration, for the workers."""
        return pickled_loop(self.loop, self.config)

    def allows(self, failures: int, latest: dict[int, BaseException]) -> bool:
        """Whether to begin again after so many failures."""
        if not self.retries_errors and not all(map(_has_died, latest.values())):
            return False
        return may_retry(failures, self.failure.max_failures)


class WorkersFailed(Exception):  # noqa: N818 - not an error that anybody else sees
    """Some ranks have failed, the one to blame first; the group is to be ended."""

    def __init__(self, failures: dict[int, BaseException]) -> None:
        super().__init__(failures)
        self.failures = failures


class TrainController:
    """Runs a plan on groups of workers, one after the other until one gets to the end."""

    def __init__(self, plan: TrainPlan, recorder: Recorder, view: View) -> None:
        self._plan = plan
        self._recorder = recorder
        self._view = view

    def run(self) -> Result:
        try:
            return self._run()
        except WorkerGroupError:
            raise
        except Exception as error:
            raise controller_failure_of(error) from error

    def _run(self) -> Result:
        failures = 0
        while True:
            try:
                return self._recorder.close(value=self._run_group())
            except WorkersFailed as failed:
                failures += 1
                again = self._plan.allows(failures, failed.failures)
                self._recorder.failed(failed.failures, again)
                if not again:
                    raise failure_of(failed.failures) from shown_cause(failed.failures)
                self._recorder.roll_back()
                self._view.restarting(failures, failed.failures)

    def _run_group(self) -> Any:
        group = WorkerGroup(
            self._plan.scaling,
            self._recorder.run.run_config.worker_runtime_env,
            self._plan.backend.backend_cls.worker_cls,
        )
        try:
            return self._train(group)
        finally:
            group.shutdown()

    def _train(self, group: WorkerGroup) -> Any:
        backend, config = self._plan.backend.backend_cls(), self._plan.backend
        try:
            self._start(group, backend)
        except (SkateError, WorkerHungError) as error:
            raise WorkersFailed(group.failures or {_rank_of(error, group): error}) from error
        self._recorder.clock.restart()
        last = self._converse(_Conversation(group, self._view, self._recorder.check), group)
        if last is None:
            return None
        _shut_down(backend, group, config)
        return [event.value for event in last] if self._plan.all_values else last[0].value

    def _start(self, group: WorkerGroup, backend: Backend) -> None:
        config = self._plan.backend
        group.check_processes()
        if backend.share_cuda_visible_devices and group.get_resources_per_worker().get("GPU"):
            share_gpus(group)
        backend.on_start(group, config)
        self._prepare(group)
        backend.on_training_start(group, config)
        group.gather([worker.start.remote() for worker in group.workers])

    def _converse(self, events: _Conversation, group: WorkerGroup) -> list[Event] | None:
        """Until all loops are done: their last events. None if they were stopped."""
        while True:
            reports = events.next()
            if all(event.kind == FINISHED for event in reports):
                return reports
            if reports[0].kind == MEETING:
                events.answer(Answer(self._recorder.next_checkpoint, value=reports[0].value))
                continue
            _write_held(reports, group)
            checkpoint = self._recorder.record(reports)
            self._view.reported(self._recorder.run)
            stop = self._recorder.should_stop()
            events.answer(Answer(self._recorder.next_checkpoint, checkpoint, stop=stop))
            if stop:
                events.wait(STOP_GRACE_SECONDS)
                return None

    def _prepare(self, group: WorkerGroup) -> None:
        shards = self._plan.shards(group, self._recorder.positions)
        group.gather(
            [
                worker.prepare.remote(self._job(rank, group, shards[rank]), shards[rank])
                for rank, worker in enumerate(group.workers)
            ]
        )

    def _job(self, rank: int, group: WorkerGroup, datasets: dict[str, Any]) -> WorkerJob:
        run, place = self._recorder.run, group.places[rank]
        info = SessionInfo(
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
            validates=self._recorder.validator.configured,
        )
        return WorkerJob(
            self._plan.pickled,
            info,
            self._recorder.storage,
            self._recorder.checkpoint or self._plan.checkpoint,
            self._recorder.next_checkpoint,
            self._plan.backend.train_func_context,
            _data_context() if datasets else None,
            returns=rank == 0 or self._plan.all_values,
        )


class _Conversation:
    """Asks all workers for their next event, and notices when one falls silent for good."""

    def __init__(self, group: WorkerGroup, view: View, check: Callable[[], None]) -> None:
        self._check = check  # raises if the workers may wait in vain
        self._workers = group.workers
        self._monitor = group.monitor
        self._view = view
        self._asked: dict[Any, int] = {}
        self.answer(None)

    def answer(self, answer: Answer | None) -> None:
        self._asked = {
            worker.next_event.remote(answer): rank for rank, worker in enumerate(self._workers)
        }

    def next(self) -> list[Event]:
        """The next event of each rank, when all are there."""
        found: dict[int, Event] = {}

        def silence(missing: list[int], seconds: float) -> None:
            self._check()
            self._view.waiting(missing, found, seconds)

        try:
            for rank, event in self._monitor.answers(self._asked, silence):
                found[rank] = event
                if len({event.kind for event in found.values()}) > 1:
                    _check_together(found)  # they will never meet
        except WorkerFailed as failed:
            raise WorkersFailed(self._failures_with(failed)) from failed.error
        return [found[rank] for rank in sorted(found)]

    def wait(self, seconds: float) -> None:
        """Until all workers have something to say, or for this long."""
        skate.wait(list(self._asked), num_returns=len(self._asked), timeout=seconds)

    def _failures_with(self, first: WorkerFailed) -> dict[int, BaseException]:
        """A process that died makes others fail, whose errors may arrive before the news of its
        death: those that died are to blame."""
        failures = {first.rank: first.error}
        if not _has_died(first.error):
            self.wait(OTHERS_TOO_SECONDS)
            for ref, rank in self._asked.items():
                try:
                    skate.get(ref, timeout=0)
                except GetTimeoutError:
                    pass
                except Exception as error:
                    failures[rank] = error
        return {rank: e for rank, e in failures.items() if _has_died(e)} or failures


def _shut_down(backend: Backend, group: WorkerGroup, config: BackendConfig) -> None:
    """All loops are done, and what they reported is recorded: that stands, whatever happens."""
    try:
        backend.on_shutdown(group, config)
    except Exception as error:
        warnings.warn(
            f"training is done, but {type(backend).__name__}.on_shutdown has failed: {error!r}",
            stacklevel=2,
        )


def _data_context() -> Any:
    from skate.data import DataContext

    return DataContext.get_current()


def _has_died(error: BaseException) -> bool:
    return isinstance(error, (ActorDiedError, WorkerHungError))


def _write_held(reports: list[Event], group: WorkerGroup) -> None:
    """Have the checkpoint of the lowest rank that has one written, if it was held back."""
    source = next((rank for rank, event in enumerate(reports) if event.checkpoint_name), None)
    if source is not None and reports[source].held:
        try:
            group.gather_from({group.workers[source].write_held.remote(): source})
        except (SkateError, WorkerHungError) as error:
            raise WorkersFailed({source: error}) from error


def _rank_of(error: BaseException, group: WorkerGroup) -> int:
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
