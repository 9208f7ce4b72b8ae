"""A function as a class: each step lets it go on until its next report."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate._run.checkpoint import Checkpoint
from skate._run.context import SessionInfo
from skate._run.folders import copy_tree
from skate._run.links import check_links
from skate._run.storage import Storage
from skate._run.types import Config
from skate.tune.execution.channel import Channel
from skate.tune.execution.events import Reported, Saved, TrialVerdict
from skate.tune.execution.placement_groups import PlacementGroupFactory
from skate.tune.result import DONE, RESULT_DUPLICATE
from skate.tune.trainable.trainable import Trainable

if TYPE_CHECKING:
    from skate.tune.execution.session import TrialTask

_LOOK_SECONDS = 1.0
_GRACE_SECONDS = 5.0  # for a stopped function to come to its next report


class FunctionTrainable(Trainable):
    """Step through a function, as a class of trainables; `wrap_function` makes subclasses of it.

    The tuner runs functions as they are; this is for programs that want to step one themselves.
    """

    _function: Callable[..., Any]

    def setup(self, config: Config) -> None:
        self._channel = Channel()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._latest: Checkpoint | None = None

    def step(self) -> dict[str, Any]:
        """Return what the function reports next; once it has returned, its last result again."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, args=(self._task(),), daemon=True)
            self._thread.start()
        else:
            self._channel.answer(TrialVerdict.GO_ON)
        over = False
        while not over:
            events, over = self._channel.take(_LOOK_SECONDS)
            for event in events:
                assert isinstance(event, (Reported, Saved))
                self._note(event.checkpoint)
                if isinstance(event, Reported):
                    return event.result
                self._channel.answer(TrialVerdict.GO_ON)
        if self._error is not None:
            raise self._error
        return {**self._last_result, DONE: True, RESULT_DUPLICATE: True}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Copy the last checkpoint that the function has reported, if there is one.

        Args:
            checkpoint_dir: The folder to copy it to.
        """
        if self._latest is not None:
            with self._latest.as_directory() as folder:
                copy_tree(folder, checkpoint_dir)

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Keep a checkpoint for the function, which begins with it later: a folder is copied."""
        if isinstance(checkpoint, dict):
            self._latest = Checkpoint.from_dict(checkpoint)
        else:
            own = os.path.join(self.logdir, "restored")
            check_links(checkpoint)
            copy_tree(checkpoint, own)
            self._latest = Checkpoint(own)

    def reset_config(self, new_config: Config) -> bool:
        self.cleanup()
        self.setup(new_config)
        return True

    def cleanup(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._channel.answer(TrialVerdict.HALT)
            thread.join(_GRACE_SECONDS)

    @classmethod
    def default_resource_request(cls, config: Config) -> Any:
        wanted = getattr(cls._function, "_resources", None)
        if callable(wanted) and not isinstance(wanted, PlacementGroupFactory):
            return wanted(config)
        return wanted

    # -- the function's thread ---------------------------------------------------------------

    def _task(self) -> TrialTask:
        from skate.tune.execution.session import TrialTask

        storage = Storage.at(self.logdir)
        about = SessionInfo(
            trial_id=self.trial_id,
            trial_name=self.trial_name,
            trial_dir=self.logdir,
            trial_resources=self.trial_resources,
            storage=storage,
        )
        return TrialTask(
            info=about,
            config=self.config,
            checkpoint=self._latest,
            iteration=self._iteration,
            seconds=self._time_total,
        )

    def _run(self, task: TrialTask) -> None:
        from skate.tune.execution.programs import run_function

        try:
            run_function(type(self)._function, task, self._channel)
        except SystemExit:  # it was stopped
            pass
        except BaseException as error:
            self._error = error
        finally:
            self._channel.end()

    def _note(self, name: str | None) -> None:
        if name is not None:
            self._latest = Storage.at(self.logdir).checkpoint(name)


def wrap_function(train_func: Callable[..., object], name: str | None = None) -> Any:
    """Make a subclass of Trainable, to `train()`, `save()` and `restore()` a function by hand.

    Args:
        train_func: A function of a configuration, which reports.
        name: The name of the class; by default that of the function.
    """
    members = {"_function": staticmethod(train_func)}
    title = str(name or getattr(train_func, "__name__", "func"))
    return type(title, (FunctionTrainable,), members)
