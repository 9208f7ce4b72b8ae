"""How XGBoost workers find each other: a tracker, in the process of rank 0."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from threading import Thread
from typing import Any

from skate.train._workers.group import WorkerGroup
from skate.train._workers.threads import own_threads
from skate.train.backend import Backend, BackendConfig
from skate.util import get_node_ip_address

COMMUNICATORS = ("rabit",)


@dataclass
class XGBoostConfig(BackendConfig):
    """`xgboost_communicator`: how the workers talk to each other; there is one way, "rabit"."""

    xgboost_communicator: str = "rabit"

    def __post_init__(self) -> None:
        if self.xgboost_communicator not in COMMUNICATORS:
            raise ValueError(
                f"xgboost_communicator is one of {COMMUNICATORS}; "
                f"got {self.xgboost_communicator!r}"
            )

    @property
    def backend_cls(self) -> type[Backend]:
        return XGBoostBackend

    @property
    def train_func_context(self) -> object:
        return connected

    def to_dict(self) -> dict[str, Any]:
        return {"xgboost_communicator": self.xgboost_communicator}


class XGBoostBackend(Backend):
    """Inside the loop of each worker XGBoost is connected to that of the others."""

    def on_start(self, worker_group: WorkerGroup, backend_config: XGBoostConfig) -> None:
        size = len(worker_group)
        if size < 2:
            return
        arguments = worker_group.execute_single(0, _start_tracker, size)
        for rank in range(size):
            worker_group.execute_single(rank, _remember, arguments, rank)


_arguments: dict[str, Any] = {}
_trackers: list[Any] = []


def _start_tracker(size: int) -> dict[str, object]:
    """Start the tracker in the process of rank 0, so that it ends with the group."""
    from xgboost.tracker import RabitTracker

    tracker = RabitTracker(n_workers=size, host_ip=get_node_ip_address(), sortby="task")
    tracker.start()
    Thread(target=tracker.wait_for, name="skate-xgboost-tracker", daemon=True).start()
    _trackers.append(tracker)
    return dict(tracker.worker_args())


def _remember(arguments: dict[str, object], rank: int) -> None:
    # The tracker gives out ranks in the order of these names.
    _arguments.update(arguments, dmlc_task_id=f"{rank:08}")


@contextmanager
def connected() -> Iterator[None]:
    """Connect XGBoost to the other workers while a worker's loop runs."""
    from xgboost.collective import CommunicatorContext

    with own_threads(), CommunicatorContext(**_arguments) if _arguments else nullcontext():
        yield
