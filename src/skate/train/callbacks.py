"""Loggers for `RunConfig(callbacks=[…])`, and callbacks for `Trainer.run`.

JSON, CSV and TensorBoard are written anyway. The callbacks are told what each worker reported.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from skate._core.public_names import name_publicly
from skate._run import loggers
from skate._run.loggers import CSVLoggerCallback
from skate._run.loggers.mlflow import MLflowLoggerCallback
from skate._run.types import Config, ResultRow
from skate._run.values import to_json

__all__ = [
    "CSVLoggerCallback",
    "JsonLoggerCallback",
    "MLflowLoggerCallback",
    "PrintCallback",
    "TBXLoggerCallback",
    "TrainingCallback",
]


class TrainingCallback:
    """Override what is of interest. Later versions may pass more arguments: take `**info`."""

    def start_training(self, logdir: str, config: Config, **info: object) -> None:
        """Hear that a run begins.

        Args:
            logdir: The run's folder.
            config: The configuration of its loop.
            info: What later versions may say besides.
        """

    def handle_result(self, results: list[ResultRow], **info: object) -> None:
        """Hear that all workers have reported.

        Args:
            results: What they reported: one dictionary for each, in the order of their ranks.
            info: What later versions may say besides.
        """

    def finish_training(
        self, error: bool = False, run_dir: str | None = None, **info: object
    ) -> None:
        """Hear that a run is over.

        Args:
            error: Whether it has failed.
            run_dir: The run's folder.
            info: What later versions may say besides.
        """


class PrintCallback(TrainingCallback):
    """Prints what the workers report."""

    def handle_result(self, results: list[ResultRow], **info: object) -> None:
        print(json.dumps(results, indent=4, default=str))


class JsonLoggerCallback(loggers.JsonLoggerCallback, TrainingCallback):
    """Write the reports of `Trainer.run` to a JSON file.

    It is results.json, or `filename`, in the run's folder or `logdir`: a list with one list per
    report, of the dicts of `workers_to_log` (None: all).
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str] | None = None,
        filename: str | None = None,
        workers_to_log: int | Sequence[int] | None = 0,
    ) -> None:
        super().__init__()
        self._logdir = logdir
        self._filename = filename or "results.json"
        self._workers = [workers_to_log] if isinstance(workers_to_log, int) else workers_to_log
        self.log_path: Path | None = None

    def start_training(self, logdir: str, config: Config, **info: object) -> None:
        self.log_path = Path(self._logdir or logdir, self._filename)
        self.log_path.write_text("[]")

    def handle_result(self, results: list[ResultRow], **info: object) -> None:
        wanted = range(len(results)) if self._workers is None else self._workers
        row = f"[{', '.join(to_json(results[rank]) for rank in wanted)}]"
        assert self.log_path is not None
        with self.log_path.open("r+b") as file:
            end = file.seek(-1, os.SEEK_END)
            file.write(f"{',' if end > 1 else ''}\n{row}]".encode())


class TBXLoggerCallback(loggers.TBXLoggerCallback, TrainingCallback):
    """Write the numbers of one worker of `Trainer.run` for TensorBoard.

    They are in `logdir`; those of the first worker, which `worker_to_log` is by default, are in
    the run's folder anyway.
    """

    def __init__(
        self, logdir: str | os.PathLike[str] | None = None, worker_to_log: int = 0
    ) -> None:
        super().__init__()
        self._logdir = logdir
        self._worker = worker_to_log
        self._run: Any = None

    def start_training(self, logdir: str, config: Config, **info: object) -> None:
        if self._logdir is not None or self._worker:
            folder = os.fspath(self._logdir or logdir)
            self._run = SimpleNamespace(trial_id="run", config=config, local_path=folder)

    def handle_result(self, results: list[ResultRow], **info: object) -> None:
        if self._run is not None:
            result = results[self._worker]
            self.log_trial_result(result["_training_iteration"], self._run, result)

    def finish_training(
        self, error: bool = False, run_dir: str | None = None, **info: object
    ) -> None:
        if self._run is not None:
            self.log_trial_end(self._run, failed=error)


name_publicly(__name__)
