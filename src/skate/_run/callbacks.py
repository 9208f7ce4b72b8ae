"""Who is told about a run, and when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol


class TrialLike(Protocol):
    """What loggers know of a trial of tuning, or of a run of training, which is a single one."""

    @property
    def trial_id(self) -> str: ...

    @property
    def config(self) -> Mapping[str, Any]: ...

    @property
    def local_path(self) -> str:
        """A folder to write to."""
        ...


class Callback:
    """Override what is of interest. All hooks are called in the program that runs the tuner or
    trainer. Later versions may pass more arguments: take `**info`."""

    def setup(
        self,
        stop: Any = None,
        num_samples: int | None = None,
        total_num_samples: int | None = None,
        **info: Any,
    ) -> None:
        """Once, before anything else."""

    def on_step_begin(self, iteration: int, trials: Sequence[Any], **info: Any) -> None:
        """A step of the tuning loop begins."""

    def on_step_end(self, iteration: int, trials: Sequence[Any], **info: Any) -> None:
        """A step of the tuning loop is over."""

    def on_trial_start(
        self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any
    ) -> None:
        """A trial runs."""

    def on_trial_restore(
        self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any
    ) -> None:
        """A trial goes on from a checkpoint."""

    def on_trial_save(
        self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any
    ) -> None:
        """A checkpoint of a trial was asked for and came."""

    def on_trial_result(
        self, iteration: int, trials: Sequence[Any], trial: Any, result: Any, **info: Any
    ) -> None:
        """A trial reported."""

    def on_trial_complete(
        self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any
    ) -> None:
        """A trial ended well."""

    def on_trial_recover(
        self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any
    ) -> None:
        """A trial failed and will be tried again."""

    def on_trial_error(
        self, iteration: int, trials: Sequence[Any], trial: Any, **info: Any
    ) -> None:
        """A trial failed for good."""

    def on_checkpoint(
        self, iteration: int, trials: Sequence[Any], trial: Any, checkpoint: Any, **info: Any
    ) -> None:
        """A checkpoint of a trial is in its folder."""

    def on_experiment_end(self, trials: Sequence[Any], **info: Any) -> None:
        """All trials are over."""

    def get_state(self) -> dict[str, Any] | None:
        """What to keep for `set_state` when the experiment is restored."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """What `get_state` gave before."""


class UserCallback:
    """Told about a training run: its reports and its exceptions, its beginning and its end.
    `run_context.run_config` is the trainer's."""

    def before_run(self, run_context: Any) -> None:
        """The run begins; there are no workers yet."""

    def after_report(
        self, run_context: Any, metrics: list[dict[str, Any]], checkpoint: Any
    ) -> None:
        """All workers have reported: `metrics` has those of each rank."""

    def after_exception(
        self, run_context: Any, worker_exceptions: dict[int, BaseException]
    ) -> None:
        """Workers have failed, by rank."""

    def after_run(self, run_context: Any, result: Any) -> None:
        """The run is over; `result.error` says whether it has failed."""


class CallbackList:
    """Calls the same hook of each callback, in order."""

    def __init__(self, callbacks: Iterable[Any]) -> None:
        self.callbacks: list[Any] = list(callbacks)

    def call(self, hook: str, /, *args: Any, **info: Any) -> None:
        for callback in self.callbacks:
            method = getattr(callback, hook, None)
            if method is not None:
                method(*args, **info)

    def __len__(self) -> int:
        return len(self.callbacks)
