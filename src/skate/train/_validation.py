"""Validations run beside the training, one after another, each as a task of its own.

    recorder ── ask(line, checkpoint) ─► queue ─► thread ─► task: fn(checkpoint, **kwargs)
        ▲                                           │ the outcome, also as a line of the folder
        └─────────────── outcomes() ◄───────────────┘

A line of `validations.json` says that a checkpoint is to be validated, another how that has ended.
Workers that wait for a validation read it there. What has no end when the run is interrupted is
asked for again by the next run in the folder.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from typing import Any

import skate
from skate._run.checkpoint import Checkpoint
from skate._run.ledger import Ledger, Line
from skate._run.validation import (
    OwnValidation,
    ReportedCheckpointStatus,
    ValidationConfig,
    ValidationTaskConfig,
)
from skate.exceptions import SkateError

_PENDING = ReportedCheckpointStatus.PENDING_VALIDATION
_VALIDATED = ReportedCheckpointStatus.VALIDATED
_TIMEOUT = ReportedCheckpointStatus.VALIDATION_TIMEOUT
_FAILED = ReportedCheckpointStatus.VALIDATION_FAILED


class Validator:
    """Those of one run."""

    def __init__(self, ledger: Ledger, config: ValidationConfig | None = None) -> None:
        self.configured = config is not None
        self._config = config or ValidationConfig(_none_was_given)
        self._ledger = ledger
        self._asked: queue.SimpleQueue[tuple[Checkpoint, ValidationTaskConfig, Line] | None]
        self._asked = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[tuple[Checkpoint, Line]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._running: Any = None
        self._aborted = False
        self._failure: BaseException | None = None

    def ask(self, checkpoint: Checkpoint, task: bool | ValidationTaskConfig, about: Line) -> Line:
        """Have a checkpoint validated, in its turn. `about` says which one it is; the line."""
        task = self._config.task_for(task)
        about = {key: about.get(key) for key in ("checkpoint_dir_name", "training_iteration")}
        wish: Line = {"fn_kwargs": task.fn_kwargs, "timeout_s": task.timeout_s}
        if isinstance(task, OwnValidation):
            wish["packed"] = task.packed
        line = {**about, "status": _PENDING.value, **wish}
        self._ledger.add_validation(line)
        self._asked.put((checkpoint, task, about))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="skate-validate", daemon=True)
            self._thread.start()
        return line

    def ask_again(self, checkpoint: Checkpoint, line: Line) -> None:
        """Take up a validation that was asked for, by the run that was here before."""
        wish = {key: line[key] for key in ("fn_kwargs", "timeout_s", "packed") if key in line}
        task = OwnValidation(**wish) if "packed" in wish else ValidationTaskConfig(**wish)
        self.ask(checkpoint, task, line)

    def outcomes(self) -> list[tuple[Checkpoint, Line]]:
        """Return the validations that have ended since this was last asked."""
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._ended.get_nowait())
        return found

    def finish(self) -> None:
        """Return when all that was asked for has ended."""
        self._end()
        self.check()

    def check(self) -> None:
        """Raise what has kept outcomes from being written down, once: nobody else would learn
        that validations have come to an end."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def abort(self) -> None:
        """Leave what has not ended to the next run."""
        self._aborted = True
        self._cancel()
        self._end()

    def _end(self) -> None:
        self._asked.put(None)
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    # -- in the thread --------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._validate_all()
        except BaseException as error:
            self._failure = error

    def _validate_all(self) -> None:
        while (asked := self._asked.get()) is not None and not self._aborted:
            checkpoint, task, about = asked
            ended = self._run(checkpoint, task)
            if self._aborted:
                return
            line = {**about, **ended}
            self._ledger.add_validation(line)
            self._ended.put((checkpoint, line))

    def _run(self, checkpoint: Checkpoint, task: ValidationTaskConfig) -> Line:
        options = {"num_cpus": 0, **(self._config.ray_remote_kwargs or {})}
        fn = task if isinstance(task, OwnValidation) else self._config.fn
        try:
            ref = _validate.options(**options).remote(fn, checkpoint, task.fn_kwargs)
            self._running = ref
            if self._aborted:  # before this could be seen there
                self._cancel()
            if not skate.wait([ref], timeout=task.timeout_s)[0]:
                self._cancel()
                return {"status": _TIMEOUT.value, "error": f"not done after {task.timeout_s} s"}
            return {"status": _VALIDATED.value, "metrics": skate.get(ref)}
        except Exception as error:
            return {"status": _FAILED.value, "error": str(error)}

    def _cancel(self) -> None:
        if self._running is not None:
            with contextlib.suppress(SkateError):
                skate.cancel(self._running, force=True)


def _none_was_given(checkpoint: Checkpoint, **kwargs: object) -> dict[str, Any]:
    raise ValueError("the trainer has no validation_config: give it ValidationConfig(fn)")


@skate.remote
def _validate(fn: Any, checkpoint: Checkpoint, kwargs: dict[str, object]) -> dict[str, Any]:
    metrics = fn(checkpoint, **kwargs)
    if not isinstance(metrics, dict):
        raise TypeError(
            "a validation function returns a dict of metrics; "
            f"got {type(metrics).__name__}: {metrics!r}"
        )
    return metrics
