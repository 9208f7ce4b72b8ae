"""Who is told about a run, and when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from skate._core.errors import add_note

if TYPE_CHECKING:
    from skate._run.checkpoint import Checkpoint
    from skate._run.result import Result
    from skate._run.types import ResultRow


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
        stop: object = None,
        num_samples: int | None = None,
        total_num_samples: int | None = None,
        **info: object,
    ) -> None:
        """Prepare, once, before anything else.

        Args:
            stop: When trials end, as it was given.
            num_samples: How many times the space is sampled.
            total_num_samples: How many trials that makes.
            info: What later versions may add.
        """

    def on_step_begin(self, iteration: int, trials: list[Any], **info: object) -> None:
        """Note that a step of the search begins: one trial has something to tell, or none.

        Args:
            iteration: How many steps are done.
            trials: All trials so far.
            info: What later versions may add.
        """

    def on_step_end(self, iteration: int, trials: list[Any], **info: object) -> None:
        """Note that a step of the search is over.

        Args:
            iteration: How many steps are done, with this one.
            trials: All trials so far.
            info: What later versions may add.
        """

    def on_trial_start(
        self, iteration: int, trials: list[Any], trial: Any, **info: object
    ) -> None:
        """Note that a trial runs.

        Args:
            iteration: The number of the round.
            trials: All trials so far.
            trial: The one.
            info: What later versions may add.
        """

    def on_trial_restore(
        self, iteration: int, trials: list[Any], trial: Any, **info: object
    ) -> None:
        """Note that a trial goes on from a checkpoint.

        Args:
            iteration: The number of the round.
            trials: All trials so far.
            trial: The one.
            info: What later versions may add.
        """

    def on_trial_save(self, iteration: int, trials: list[Any], trial: Any, **info: object) -> None:
        """Note that a checkpoint of a trial was asked for and came.

        Args:
            iteration: The number of the round.
            trials: All trials so far.
            trial: The one.
            info: What later versions may add.
        """

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Any],
        trial: Any,
        result: ResultRow,
        **info: object,
    ) -> None:
        """Note that a trial has reported.

        Args:
            iteration: The number of the round.
            trials: All trials so far.
            trial: The one.
            result: What it has reported, with what is filled in.
            info: What later versions may add.
        """

    def on_trial_complete(
        self, iteration: int, trials: list[Any], trial: Any, **info: object
    ) -> None:
        """Note that a trial has ended well.

        Args:
            iteration: The number of the round.
            trials: All trials so far.
            trial: The one.
            info: What later versions may add.
        """

    def on_trial_recover(
        self, iteration: int, trials: list[Any], trial: Any, **info: object
    ) -> None:
        """Note that a trial has failed and will be tried again.

        Args:
            iteration: The number of the round.
            trials: All trials so far.
            trial: The one.
            info: What later versions may add.
        """

    def on_trial_error(
        self, iteration: int, trials: list[Any], trial: Any, **info: object
    ) -> None:
        """Note that a trial has failed for good.

        Args:
            iteration: The number of the round.
            trials: All trials so far.
            trial: The one.
            info: What later versions may add.
        """

    def on_checkpoint(
        self,
        iteration: int,
        trials: list[Any],
        trial: Any,
        checkpoint: Any,
        **info: object,
    ) -> None:
        """Note that a checkpoint of a trial is in its folder.

        Args:
            iteration: The number of the round.
            trials: All trials so far.
            trial: The one.
            checkpoint: The checkpoint.
            info: What later versions may add.
        """

    def on_experiment_end(self, trials: list[Any], **info: object) -> None:
        """Note that all trials are over.

        Args:
            trials: Those.
            info: What later versions may add.
        """

    def get_state(self) -> dict[str, Any] | None:
        """Return what to keep for `set_state` when the experiment is restored."""
        return None

    def set_state(self, state: dict[str, Any]) -> None:
        """Take up what `get_state` has returned before.

        Args:
            state: That.
        """


class UserCallback:
    """Told about a training run: its reports and its exceptions, its beginning and its end.
    `run_context` has the trainer's `run_config`, `scaling_config`, `train_loop_config` …"""

    def before_run(self, run_context: Any) -> None:
        """Note that the run begins; there are no workers yet.

        Args:
            run_context: The run: `run_context.run_config` is the trainer's, with the run's name.
        """

    def after_report(
        self, run_context: Any, metrics: list[ResultRow], checkpoint: Checkpoint | None
    ) -> None:
        """Note that all workers have reported.

        Args:
            run_context: The run: `run_context.run_config` is the trainer's.
            metrics: Those of each rank.
            checkpoint: The new checkpoint, if there is one.
        """

    def after_exception(
        self, run_context: Any, worker_exceptions: dict[int, BaseException]
    ) -> None:
        """Note that workers have failed.

        Args:
            run_context: The run: `run_context.run_config` is the trainer's.
            worker_exceptions: What they raised, by rank.
        """

    def after_run(self, run_context: Any, result: Result) -> None:
        """Note that the run is over.

        Args:
            run_context: The run: `run_context.run_config` is the trainer's.
            result: What it has come to; `result.error` says whether it has failed.
        """


class CallbackList:
    """Calls the same hook of each callback, in order."""

    def __init__(self, callbacks: Iterable[object]) -> None:
        self.callbacks: list[Any] = list(callbacks)

    def call(self, hook: str, /, *args: Any, **info: object) -> None:
        for callback in self.callbacks:
            method = getattr(callback, hook, None)
            if method is not None:
                try:
                    method(*args, **info)
                except Exception as error:
                    add_note(error, f"in {hook} of the callback {type(callback).__name__}")
                    raise

    def __len__(self) -> int:
        return len(self.callbacks)
