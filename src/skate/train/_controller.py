"""Runs a loop on a group of workers until it is done, whatever happens to the workers.

start group ─► events of all ranks ─► record ─► answer all ─► … ─► all finished ─► result
     ▲                  │ a rank raised, died, hangs
     └── again, from the last checkpoint ◄── end the group (max_failures times, else raise)

A group whose workers come and go (`_workers/elastic.py`) is formed anew where loops have a
ResilientState (`_replacing.py`). Others are ended at their next checkpoint, and begin again with
another size.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from skate._facade.api import works_elsewhere
from skate._run.checkpoint import Checkpoint
from skate._run.config import FailureConfig
from skate._run.config_checks import may_retry
from skate._run.context import SessionInfo
from skate._run.result import Result
from skate._run.scaling_config import ScalingConfig
from skate._run.types import Config
from skate.exceptions import SkateError
from skate.train._conversation import Conversation, WorkersFailed, has_died
from skate.train._errors import (
    WorkerGroupError,
    WorkerHungError,
    controller_failure_of,
    failure_of,
    shown_cause,
)
from skate.train._recorder import Recorder
from skate.train._replacing import GroupReforming, answers_to
from skate.train._shipping import pickled_loop
from skate.train._view import View
from skate.train._workers.elastic import SizeChanged
from skate.train._workers.events import FINISHED, JOINING, LEAVING, MEETING, Answer, Event
from skate.train._workers.gpus import share_gpus
from skate.train._workers.group import WorkerGroup
from skate.train._workers.membership import SETUP, STEPS
from skate.train._workers.worker import WorkerJob
from skate.train.backend import Backend, BackendConfig

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

    @property
    def replaces(self) -> bool:
        """Whether workers that die are replaced one by one, where their loops can go on."""
        return self.failure.restart == "worker"

    def allows(self, failures: int, latest: dict[int, BaseException]) -> bool:
        """Return whether to begin again after so many failures."""
        if not self.retries_errors and not all(map(has_died, latest.values())):
            return False
        return may_retry(failures, self.failure.max_failures)


class TrainController:
    """Runs a plan on groups of workers, one after the other until one gets to the end."""

    def __init__(self, plan: TrainPlan, recorder: Recorder, view: View) -> None:
        self._plan = plan
        self._recorder = recorder
        self._view = view
        self._failures = 0
        self._size: int | None = None  # of the next group, where it follows what there is

    def run(self) -> Result:
        try:
            return self._run()
        except WorkerGroupError:
            raise
        except Exception as error:
            raise controller_failure_of(error) from error

    def _run(self) -> Result:
        while True:
            try:
                return self._recorder.close(value=self._run_group())
            except WorkersFailed as failed:
                self._failures += 1
                again = self._plan.allows(self._failures, failed.failures)
                self._recorder.failed(failed.failures, again)
                if not again:
                    raise failure_of(failed.failures) from shown_cause(failed.failures)
                self._recorder.roll_back()
                self._view.restarting(self._failures, failed.failures)
                self._size = None
            except SizeChanged as changed:
                self._recorder.roll_back()
                self._view.resized(changed.size)
                self._size = changed.size

    def _run_group(self) -> Any:
        group = WorkerGroup(
            self._plan.scaling,
            self._recorder.run.run_config.worker_runtime_env,
            self._plan.backend.backend_cls.worker_cls,
            self._size,
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
        events = Conversation(group, self._view, self._recorder.check)
        last = self._converse(events, group, backend)
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

    def _converse(
        self, events: Conversation, group: WorkerGroup, backend: Backend
    ) -> list[Event] | None:
        """Respond to reports until all loops are done; return their last events, or None if they
        were stopped."""
        reforming = GroupReforming(
            group,
            events,
            backend,
            self._plan.backend,
            lambda ranks: self._prepare_newcomers(group, backend, ranks),
            self._may_replace,
        )
        while True:
            try:
                reports = events.next(lambda: self._look(events, group))
                if all(event.kind == FINISHED for event in reports):
                    return reports
                if not self._respond(reports, events, group):
                    return None
                self._look(events, group)
            except WorkersFailed as failed:
                if not self._plan.replaces:
                    raise
                before = len(group)
                joined = reforming.replace(failed.failures)
                if len(group) != before:
                    self._view.resized(len(group))
                self._welcome_anew(joined, events, group, reforming)
            except SizeChanged as changed:
                if events.stage != STEPS:
                    raise
                self._resize(changed.size, events, group, reforming)

    def _look(self, events: Conversation, group: WorkerGroup) -> None:
        """Raise SizeChanged if loops with a ResilientState should have more company, or less."""
        if events.stage == STEPS and group.can_change:
            size = group.elasticity.changed(len(group))
            if size is not None:
                raise SizeChanged(size)

    def _resize(
        self, size: int, events: Conversation, group: WorkerGroup, reforming: GroupReforming
    ) -> None:
        joined = reforming.resize(size)
        if joined is None:
            group.elasticity.postpone()
            return
        self._view.resized(len(group))
        self._welcome_anew(joined, events, group, reforming)

    def _welcome_anew(
        self,
        joined: dict[int, Event],
        events: Conversation,
        group: WorkerGroup,
        reforming: GroupReforming,
    ) -> None:
        self._recorder.delete_unfinished()
        self._welcome(joined, events, group, True, reforming.datasets)

    def _respond(self, reports: list[Event], events: Conversation, group: WorkerGroup) -> bool:
        """Do what all workers have asked for, and answer them; False if the run is over."""
        kind, number = reports[0].kind, self._recorder.next_checkpoint
        if kind == JOINING:
            self._welcome(dict(enumerate(reports)), events, group)
        elif kind == LEAVING:
            events.answer_leaving(Answer(number))
        elif kind == MEETING:
            events.answer(Answer(number, value=reports[0].value), self._plan.replaces)
        else:
            return self._record(reports, events, group)
        return True

    def _record(self, reports: list[Event], events: Conversation, group: WorkerGroup) -> bool:
        _write_held(reports, group)
        checkpoint = self._recorder.record(reports)
        self._view.reported(self._recorder.run)
        stop = self._recorder.should_stop()
        size = None if stop else self._size_from_here(reports, events, group)
        ends = stop or size is not None
        pending = self._recorder.pending
        answer = Answer(self._recorder.next_checkpoint, checkpoint, pending, stop=ends)
        events.answer(answer, self._plan.replaces)
        if ends:
            events.wait(STOP_GRACE_SECONDS)
        if size is not None:
            raise SizeChanged(size)
        return not stop

    def _size_from_here(
        self, reports: list[Event], events: Conversation, group: WorkerGroup
    ) -> int | None:
        """Return how many workers should go on from a checkpoint that was just reported, so that
        nothing is done twice; None if that is no other number than before."""
        has_checkpoint = any(event.checkpoint_name for event in reports)
        if not has_checkpoint or events.stage != SETUP:
            return None
        return group.elasticity.changed(len(group))

    def _welcome(
        self,
        joined: dict[int, Event],
        events: Conversation,
        group: WorkerGroup,
        is_new_group: bool = False,
        datasets: list[dict[str, object]] | None = None,
    ) -> None:
        """Tell workers who have all joined who they are, and whose state counts."""
        infos = [self._info(rank, group) for rank in range(len(group))]
        number = self._recorder.next_checkpoint
        answers = answers_to(joined, infos, events, number, is_new_group, datasets)
        events.answer_joined(answers)

    def _may_replace(self, failures: dict[int, BaseException]) -> bool:
        self._failures += 1
        allowed = self._plan.allows(self._failures, failures)
        if allowed:
            self._recorder.failed(failures, again=True)
            self._view.replacing(self._failures, failures)
        return allowed

    def _prepare_newcomers(
        self, group: WorkerGroup, backend: Backend, ranks: set[int]
    ) -> list[dict[str, object]] | None:
        """Give workers that take the places of others their jobs; new parts of the datasets, for
        all ranks."""
        config = self._plan.backend
        if backend.share_cuda_visible_devices and group.get_resources_per_worker().get("GPU"):
            share_gpus(group)
        backend.on_newcomers(group, config, ranks)
        shards = self._plan.shards(group, None)
        jobs = {rank: self._job(rank, group, shards[rank], is_newcomer=True) for rank in ranks}
        group.gather_from(
            {group.workers[rank].prepare.remote(job, shards[rank]): rank
             for rank, job in jobs.items()}
        )  # fmt: skip
        backend.on_training_start(group, config)
        group.gather_from({group.workers[rank].start.remote(): rank for rank in ranks})
        return shards if any(shards) else None

    def _prepare(self, group: WorkerGroup) -> None:
        shards = self._plan.shards(group, self._recorder.positions)
        group.gather(
            [
                worker.prepare.remote(self._job(rank, group, shards[rank]), shards[rank])
                for rank, worker in enumerate(group.workers)
            ]
        )

    def _info(self, rank: int, group: WorkerGroup) -> SessionInfo:
        run, place = self._recorder.run, group.places[rank]
        return SessionInfo(
            experiment_name=run.name,
            trial_name=run.name,
            trial_id=run.trial_id,
            trial_dir=run.storage.path,
            trial_resources=self._plan.scaling,
            world_size=len(group),
            world_rank=rank,
            local_rank=place.local_rank,
            local_world_size=place.local_world_size,
            node_rank=place.node_rank,
            metadata=self._plan.metadata,
            storage=run.storage,
            validates=self._recorder.validator.configured,
        )

    def _job(
        self, rank: int, group: WorkerGroup, datasets: dict[str, Any], is_newcomer: bool = False
    ) -> WorkerJob:
        return WorkerJob(
            self._plan.pickled,
            self._info(rank, group),
            self._recorder.storage,
            self._recorder.checkpoint or self._plan.checkpoint,
            self._recorder.next_checkpoint,
            self._plan.backend.train_func_context,
            _data_context() if datasets else None,
            returns=rank == 0 or self._plan.all_values,
            replaces=self._plan.replaces,
            is_newcomer=is_newcomer,
            folder_of_its_own=_changes_directory(),
        )


def _changes_directory() -> bool:
    """Return whether workers leave the program's working directory, as Ray's variable asks for."""
    return os.environ.get("RAY_CHDIR_TO_TRIAL_DIR") == "1" and works_elsewhere()


def _shut_down(backend: Backend, group: WorkerGroup, config: BackendConfig) -> None:
    """Shut down the back end, and only warn of errors: all loops are done, and what they reported
    is recorded: that stands, whatever happens."""
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


def _write_held(reports: list[Event], group: WorkerGroup) -> None:
    """Have the checkpoint of the lowest rank that has one written, if it was held back."""
    source = next((rank for rank, event in enumerate(reports) if event.checkpoint_name), None)
    if source is not None and reports[source].held:
        try:
            group.gather_from({group.workers[source].write_held.remote(): source})
        except (SkateError, WorkerHungError) as error:
            raise WorkersFailed({source: error}) from error


def _rank_of(error: BaseException, group: WorkerGroup) -> int:
    """Return the worker that an error of the start-up is about; the first, where it does not
    say."""
    name = getattr(error, "actor_id", None) or getattr(error, "_actor_id", None)
    ids = [worker._actor_id.hex() for worker in group.workers]
    return ids.index(name) if name in ids else 0
