"""A loop in processes that somebody else has started: torchrun, `accelerate launch`, `fabric run`,
or `skate run`.

`train.report`, `get_context` and `prepare_*` do what they do below a trainer. The processes meet
by the process group that is there, or is made by the environment; rank 0 records. The run's name
is that of `SKATE_RUN_NAME`, else of the program and its launcher: what a launcher starts again
goes on from the last checkpoint.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import skate
from skate._run.config import RunConfig
from skate._run.config_checks import check_folder_name
from skate._run.context import SessionInfo
from skate._run.ledger import Ledger, claimed
from skate._run.reporting import Report
from skate._run.session import RunSession
from skate._run.storage import Storage, write_into
from skate.train._early_start import was_launched
from skate.train._recorder import Recorder
from skate.train._workers.events import Answer, Event
from skate.train._workers.handover import discard_original, hand_over
from skate.train._workers.worker import check_metrics, positions_of

NAME_VARIABLE = "SKATE_RUN_NAME"


def launched_session() -> RunSession | None:
    """Make the session of this process, if it was launched to train; None in others, as workers of
    skate that have inherited the environment."""
    if not was_launched():
        return None
    if skate.is_initialized() and skate.get_runtime_context().get_task_id() is not None:
        return None
    return LaunchedSession()


class LaunchedSession(RunSession):
    """One of the processes; they meet at each report."""

    is_launched = True

    def __init__(self) -> None:
        name = os.environ.get(NAME_VARIABLE) or _name()
        check_folder_name(NAME_VARIABLE, name, "storage_path")
        config = RunConfig(name=name)
        self._storage = Storage(config.storage_path, name, durability=config.durability)
        super().__init__(_info(name, self._storage))
        found = [recorded.checkpoint for recorded in Ledger(self._storage).checkpoints()]
        self.latest_checkpoint = found[-1] if found else None
        self._recorder: Recorder | None = None
        self._next: int | None = None
        self._group: Any = None
        if self.info.world_rank == 0:
            self._recorder = _opened(Recorder(name, config, {}))

    # -- meeting --------------------------------------------------------------------------------

    def connect(self) -> None:
        """Have a process group, if there are several processes and nobody has made one."""
        if self.info.world_size == 1 or self._group is not None:
            return
        import torch
        import torch.distributed as dist

        if not dist.is_initialized():
            dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        own = dist.get_backend() == "gloo"
        self._group = dist.group.WORLD if own else dist.new_group(backend="gloo")

    def _all(self, value: object) -> list[Any]:
        """Gather what all processes bring, by rank."""
        if self.info.world_size == 1:
            return [value]
        import torch.distributed as dist

        self.connect()
        found: list[Any] = [None] * self.info.world_size
        dist.all_gather_object(found, value, group=self._group)
        return found

    def meet(self, value: object = None) -> Any:
        """Wait for all ranks; what rank 0 brought."""
        return self._all(value if self.info.world_rank == 0 else None)[0]

    def report(self, report: Report) -> None:
        check_metrics(report.metrics)
        if self._next is None:
            self._next = self.meet(self._recorder and self._recorder.next_checkpoint)
        assert self._next is not None
        rank = self.info.world_rank
        event = hand_over(report, self._next, self._storage, rank, self.began)
        event.positions = positions_of(self.datasets)
        events = self._all(event)
        self._write_held(events, report)
        answer = self.meet(self._recorded(events))
        if isinstance(answer, Exception):
            raise answer
        self._next = answer.next_checkpoint
        self.latest_checkpoint = answer.checkpoint or self.latest_checkpoint
        discard_original(report, event.checkpoint)

    def _write_held(self, events: list[Event], report: Report) -> None:
        """Have the checkpoint of the lowest rank that has one written, if it was held back."""
        source = next((rank for rank, event in enumerate(events) if event.checkpoint_name), None)
        if source is None or not events[source].held:
            return
        if source == self.info.world_rank and report.checkpoint is not None:
            draft = self._storage.draft(str(events[source].checkpoint_name))
            write_into(draft, report.checkpoint, written_since=self.began)
        self._all(None)

    def _recorded(self, events: list[Event]) -> Answer | Exception | None:
        """Record the events in rank 0, and return what all are told."""
        if self._recorder is None:
            return None
        try:
            checkpoint = self._recorder.record(events)
        except Exception as error:
            return error
        return Answer(self._recorder.next_checkpoint, checkpoint)


def _info(name: str, storage: Storage) -> SessionInfo:
    rank, size = (int(os.environ.get(key, default)) for key, default in _WORLD.items())
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    return SessionInfo(
        experiment_name=name,
        trial_name=name,
        trial_id=name,
        trial_dir=storage.path,
        world_size=size,
        world_rank=rank,
        local_rank=local_rank,
        local_world_size=int(os.environ.get("LOCAL_WORLD_SIZE", size)),
        node_rank=int(os.environ.get("GROUP_RANK", os.environ.get("NODE_RANK", 0))),
        storage=storage,
    )


_WORLD = {"RANK": "0", "WORLD_SIZE": "1"}


def _name() -> str:
    """Make a name that is the same in all processes of a launcher, and in those that it starts
    again."""
    program = os.path.splitext(os.path.basename(sys.argv[0] or "run"))[0]
    launcher = os.getppid() if os.environ.get("RANK") else os.getpid()
    began = Path(f"/proc/{launcher}/stat").read_text().rpartition(")")[2].split()[19]
    return f"{program}_{launcher}_{began}"


def _opened(recorder: Recorder) -> Recorder:
    """Begin to record; the run ends with the process, and an exception that ends that is the
    run's error."""
    stack = ExitStack()
    stack.enter_context(claimed(recorder.storage))
    stack.enter_context(recorder)
    raised: list[BaseException] = []
    before = sys.excepthook

    def remember(kind: Any, error: BaseException, trace: Any) -> None:
        raised.append(error)
        before(kind, error, trace)

    def close() -> None:
        with stack:
            recorder.close(raised[0] if raised else None)

    sys.excepthook = remember
    atexit.register(close)
    return recorder
