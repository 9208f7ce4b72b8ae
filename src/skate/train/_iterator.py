"""A training run in a thread, and its reports as they come."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from skate._run.callbacks import UserCallback
from skate._run.checkpoint import Checkpoint
from skate._run.result import Result
from skate._run.types import ResultRow


class IncomingReports(UserCallback):
    """Hands over what all workers have reported."""

    def __init__(self) -> None:
        self.reports: queue.SimpleQueue[list[dict[str, Any]] | None] = queue.SimpleQueue()
        self.checkpoint: Checkpoint | None = None
        self.stopped: threading.Event = threading.Event()
        self._last = time.time()
        self._count = 0

    def after_report(
        self, run_context: object, metrics: list[dict[str, object]], checkpoint: Any
    ) -> None:
        self.checkpoint = checkpoint or self.checkpoint
        if not any(metrics):  # a checkpoint alone
            return
        now, self._count = time.time(), self._count + 1
        filled = {
            "_timestamp": int(now),
            "_time_this_iter_s": now - self._last,
            "_training_iteration": self._count,
        }
        self._last = now
        self.reports.put([{**one, **filled} for one in metrics])

    def should_stop(self, trial_id: str, result: ResultRow) -> bool:
        return self.stopped.is_set()


class TrainingIterator(Iterator[list[dict[str, Any]]]):
    """The reports of a run, each a list with one dict per worker."""

    def __init__(self, fit: Callable[[], Result], incoming: IncomingReports) -> None:
        self._fit = fit
        self._reports = incoming.reports
        self._values: list[Any] | None = None
        self._error: BaseException | None = None
        self._finished = False
        threading.Thread(target=self._train, name="skate-trainer", daemon=True).start()

    def _train(self) -> None:
        try:
            self._values = self._fit().return_value
        except BaseException as error:
            self._error = error
        self._reports.put(None)

    def __next__(self) -> list[dict[str, Any]]:
        if self._finished:
            raise StopIteration
        results = self._reports.get()
        if results is not None:
            return results
        self._finished = True
        if self._error is not None:
            raise self._error
        raise StopIteration

    def is_finished(self) -> bool:
        """Return whether all reports have been seen."""
        return self._finished

    def get_final_results(self, force: bool = False) -> list[Any] | None:
        """Return what the loop returned in each worker; None before the end, unless `force` passes
        over the reports that have not been seen."""
        if force:
            for _ in self:
                pass
        return self._values if self._finished else None
