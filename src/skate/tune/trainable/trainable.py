"""A trial as a class: `setup` once, `step` again and again, saved and loaded in between."""

from __future__ import annotations

import copy
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from typing import Any

from skate._run.checkpoint import DICT_FILE, Checkpoint
from skate._run.folders import folder_for_life_of, scratch_dir
from skate._run.types import Config, ResultRow
from skate.tune.result import (
    DONE,
    EPISODES_THIS_ITER,
    EPISODES_TOTAL,
    TIME_THIS_ITER_S,
    TIMESTEPS_THIS_ITER,
    TIMESTEPS_TOTAL,
    TRAINING_ITERATION,
    TRIAL_INFO,
)
from skate.util import get_node_ip_address

STATE_FILE = ".trainable.json"
_INSIDE = "checkpoint"


class SavedCheckpoint(str):
    """The folder that `Trainable.save` wrote; also as `checkpoint`, with the `metrics` so far."""

    checkpoint: Checkpoint
    metrics: ResultRow

    @classmethod
    def at(cls, path: str, metrics: ResultRow) -> SavedCheckpoint:
        saved = cls(path)
        saved.checkpoint = Checkpoint(path)
        saved.metrics = metrics
        return saved


# What classes of Ray before 1.0 override instead.
_FORMER_NAMES = {
    "_setup": "setup",
    "_train": "step",
    "_save": "save_checkpoint",
    "_restore": "load_checkpoint",
    "_stop": "cleanup",
    "_log_result": "log_result",
}


class Trainable:
    """Train step by step: override `setup`, `step`, `save_checkpoint` and `load_checkpoint`.

    `reset_config` makes an instance usable for the next trial; `cleanup` is called at its end. The
    result of a step may contain "done": True to end the trial.

    Args:
        config: The trial's configuration.
        storage: Where the trial's files go; None for a folder that is not kept.
        logger_creator: Outside of the tuner, makes a `tune.logger.Logger` from the configuration.

    Example:
        >>> from skate import tune
        >>> class Counter(tune.Trainable):
        ...     def setup(self, config):
        ...         self.value = config["start"]
        ...     def step(self):
        ...         self.value += 1
        ...         return {"value": self.value, "done": self.value >= 5}
        >>> tuner = tune.Tuner(Counter, param_space={"start": 2}, run_config={"verbose": 0})
        >>> tuner.fit()[0].metrics["value"]
        5
    """

    def __init__(
        self,
        config: Config | None = None,
        storage: object = None,
        *,
        logger_creator: Callable[[dict[str, Any]], Any] | None = None,
    ) -> None:
        self.config: dict[str, Any] = config or {}
        self._trial_info: Any = self.config.pop(TRIAL_INFO, None)
        self._storage = storage
        self._result_logger = logger_creator(self.config) if logger_creator else None
        self._logdir: str | None = getattr(self._result_logger, "logdir", None)
        self._iteration = 0
        self._time_total = 0.0
        self._timesteps_total: int | None = None
        self._episodes_total: int | None = None
        self._timesteps_since_restore = 0
        self._iterations_since_restore = 0
        self._time_since_restore = 0.0
        self._last_result: ResultRow = {}
        self.setup(copy.deepcopy(self.config))

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for older, today in _FORMER_NAMES.items():
            if older in vars(cls) and getattr(cls, today) is getattr(Trainable, today):
                setattr(cls, today, vars(cls)[older])

    # -- to be overridden --------------------------------------------------------------------

    def setup(self, config: Config) -> None:
        """Prepare, once, before the first step. Override it.

        Args:
            config: The trial's configuration.
        """

    def step(self) -> dict[str, Any]:
        """Train one iteration, and return its metrics. Override it."""
        raise NotImplementedError(f"{type(self).__name__} must implement step()")

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        """Write the state into a folder, or return it as a dictionary. Override it.

        Args:
            checkpoint_dir: The folder.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement save_checkpoint()")

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Take up a state. Override it.

        Args:
            checkpoint: The folder that `save_checkpoint` has written to, or the dictionary that it
                returned.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement load_checkpoint()")

    def reset_config(self, new_config: Config) -> bool:
        """Begin anew with another configuration, in the same instance.

        Override it for `reuse_actors=True`, where that is cheaper than a new instance.

        Args:
            new_config: The configuration.

        Returns:
            Whether it did; if not, the trial fails.
        """
        return False

    def cleanup(self) -> None:
        """Give up what the instance holds, at its end. Override it."""

    def log_result(self, result: ResultRow) -> None:
        """Note a result, in the trial's process.

        Args:
            result: The result.
        """
        if self._result_logger is not None:
            self._result_logger.on_result(result)

    def export_model(self, export_formats: Any, export_dir: str | None = None) -> dict[str, str]:
        """Write the model in some formats.

        Args:
            export_formats: A format, or several.
            export_dir: The folder; None is the trial's.

        Returns:
            The paths, by format.
        """
        formats = [export_formats] if isinstance(export_formats, str) else list(export_formats)
        return self._export_model(formats, export_dir or self.logdir)

    def _export_model(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
        return {}

    @classmethod
    def default_resource_request(cls, config: Config) -> Any:
        """Return the resources that a trial needs; None for one CPU. Override it.

        Args:
            config: The trial's configuration.
        """
        return None

    @classmethod
    def resource_help(cls, config: Config) -> str:
        """Return a hint for people whose trials do not get their resources. Override it.

        Args:
            config: The trial's configuration.
        """
        return ""

    # -- what runs ---------------------------------------------------------------------------

    def train(self) -> dict[str, Any]:
        """Make one step, and return its metrics with what every result has.

        Raises:
            ValueError: If `step` has not returned a dictionary.
        """
        start = time.time()
        result = self.step()
        if not isinstance(result, dict):
            raise ValueError(f"step() must return a dictionary; got {type(result).__name__}")
        result = dict(result)
        took = result.get(TIME_THIS_ITER_S) or time.time() - start
        self._iteration += 1
        self._iterations_since_restore += 1
        self._time_total += took
        self._time_since_restore += took
        self._count(result)
        filled = {
            **self.get_auto_filled_metrics(time_this_iter=took),
            DONE: False,
            **result,
        }
        self._last_result = filled
        self.log_result(filled)
        return filled

    def _count(self, result: ResultRow) -> None:
        steps = result.get(TIMESTEPS_THIS_ITER)
        if steps is not None:
            self._timesteps_total = (self._timesteps_total or 0) + steps
            self._timesteps_since_restore += steps
        episodes = result.get(EPISODES_THIS_ITER)
        if episodes is not None:
            self._episodes_total = (self._episodes_total or 0) + episodes
        if self._timesteps_since_restore:
            result.setdefault("timesteps_since_restore", self._timesteps_since_restore)
        if self._timesteps_total is not None:
            result.setdefault(TIMESTEPS_TOTAL, self._timesteps_total)
        if self._episodes_total is not None:
            result.setdefault(EPISODES_TOTAL, self._episodes_total)

    def get_auto_filled_metrics(
        self,
        now: Any = None,
        time_this_iter: float | None = None,
        timestamp: int | None = None,
        debug_metrics_only: bool = False,
    ) -> dict[str, Any]:
        """Return what every result has.

        Args:
            now: The time of the result, as a datetime; None is now.
            time_this_iter: Seconds that the step took.
            timestamp: The time of the result, in seconds since 1970; None is now.
            debug_metrics_only: Whether to return only what is known before the first step.
        """
        stamp = time.time() if timestamp is None else timestamp
        date = now.timetuple() if now is not None else time.localtime(stamp)
        text = time.strftime("%Y-%m-%d_%H-%M-%S", date)
        ip, pid = self.get_current_ip_pid()
        known = {
            "trial_id": self.trial_id,
            "date": text,
            "timestamp": int(stamp),
            "pid": pid,
            "hostname": platform.node(),
            "node_ip": ip,
            "config": self.config,
        }
        if debug_metrics_only:
            return known
        return {
            **known,
            TRAINING_ITERATION: self._iteration,
            TIME_THIS_ITER_S: time_this_iter,
            "time_total_s": self._time_total,
            "time_since_restore": self._time_since_restore,
            "iterations_since_restore": self._iterations_since_restore,
        }

    def train_buffered(
        self, buffer_time_s: float, max_buffer_length: int = 1000
    ) -> list[dict[str, Any]]:
        """Make steps, and return their results.

        Args:
            buffer_time_s: Seconds after which no more steps are made.
            max_buffer_length: How many steps at the most; it also ends with one that says "done".
        """
        end = time.monotonic() + buffer_time_s
        results: list[ResultRow] = []
        while len(results) < max_buffer_length:
            results.append(self.train())
            if results[-1][DONE] or time.monotonic() >= end:
                break
        return results

    def save(self, checkpoint_dir: str | None = None) -> SavedCheckpoint:
        """Write a checkpoint.

        Args:
            checkpoint_dir: The folder; None makes a temporary one.

        Returns:
            The path of the checkpoint, which has `checkpoint` and `metrics`.
        """
        folder = checkpoint_dir or tempfile.mkdtemp(prefix="checkpoint_")
        os.makedirs(folder, exist_ok=True)
        saved = self.save_checkpoint(folder)
        state: dict[str, Any] = {
            "iteration": self._iteration,
            "time_total": self._time_total,
            "timesteps_total": self._timesteps_total,
            "episodes_total": self._episodes_total,
        }
        if isinstance(saved, dict):
            Checkpoint.from_dict(saved).to_directory(folder)
        elif isinstance(saved, str) and os.path.abspath(saved) != os.path.abspath(folder):
            state["payload"] = os.path.relpath(saved, folder)
        with open(os.path.join(folder, STATE_FILE), "w") as file:
            json.dump(state, file)
        return SavedCheckpoint.at(folder, dict(self._last_result))

    def save_to_object(self) -> bytes:
        """Return a checkpoint as one value, for `restore_from_object`."""
        with tempfile.TemporaryDirectory(prefix="checkpoint_", dir=scratch_dir()) as folder:
            self.save(os.path.join(folder, _INSIDE))
            return Checkpoint(folder).to_bytes()

    def restore_from_object(self, obj: bytes) -> None:
        """Go on from a checkpoint that is one value.

        Args:
            obj: What `save_to_object` has returned.
        """
        with Checkpoint.from_bytes(obj).as_directory() as folder:
            self.restore(os.path.join(folder, _INSIDE))

    def restore(self, checkpoint_path: Any) -> None:
        """Go on from a checkpoint.

        Args:
            checkpoint_path: Its folder, or the Checkpoint itself.
        """
        checkpoint = getattr(checkpoint_path, "checkpoint", checkpoint_path)
        if not isinstance(checkpoint, Checkpoint):
            checkpoint = Checkpoint(checkpoint)
        with checkpoint.as_directory() as folder:
            self._take_up(folder)
            self._load_from(folder)
        self._time_since_restore = 0.0
        self._iterations_since_restore = 0
        self._timesteps_since_restore = 0

    def _take_up(self, folder: str) -> dict[str, Any]:
        path = os.path.join(folder, STATE_FILE)
        if not os.path.exists(path):
            return {}
        with open(path) as file:
            state: dict[str, Any] = json.load(file)
        self._iteration = state["iteration"]
        self._time_total = state["time_total"]
        self._timesteps_total = state["timesteps_total"]
        self._episodes_total = state["episodes_total"]
        return state

    def _load_from(self, folder: str) -> None:
        state = self._take_up(folder)
        if os.path.exists(os.path.join(folder, DICT_FILE)):
            self.load_checkpoint(Checkpoint(folder).to_dict())
        elif "payload" in state:
            self.load_checkpoint(os.path.join(folder, state["payload"]))
        else:
            self.load_checkpoint(folder)

    def reset(self, new_config: Config, storage: Any = None) -> bool:
        """Make the instance that of another trial.

        Args:
            new_config: The configuration of that trial.
            storage: Where its files go.

        Returns:
            False if it cannot be.
        """
        trial_info = new_config.pop(TRIAL_INFO, None)
        if trial_info is not None:
            self._trial_info = trial_info
        if not self.reset_config(new_config):
            return False
        self._storage = storage if storage is not None else self._storage
        self.config = new_config
        self._logdir = None
        self._iteration = 0
        self._time_total = 0.0
        self._timesteps_total = None
        self._episodes_total = None
        self._time_since_restore = 0.0
        self._timesteps_since_restore = 0
        self._iterations_since_restore = 0
        self._last_result = {}
        return True

    def stop(self) -> None:
        """End the instance: call `cleanup`, and close loggers."""
        self.cleanup()
        if self._result_logger is not None:
            self._result_logger.close()

    # -- who it is ---------------------------------------------------------------------------

    @property
    def logdir(self) -> str:
        """The folder of the trial; outside of one, a folder that goes with this object."""
        if self._logdir is None:
            folder = getattr(self._trial_info, "trial_dir", None)
            self._logdir = folder or folder_for_life_of(self, "trial_")
        return self._logdir

    @property
    def trial_id(self) -> str:
        """The id of the trial, "default" outside of one."""
        return getattr(self._trial_info, "trial_id", "default")

    @property
    def trial_name(self) -> str:
        """The name of the trial, "default" outside of one."""
        return getattr(self._trial_info, "trial_name", "default")

    @property
    def trial_resources(self) -> Any:
        """The resources of the trial."""
        info = self._trial_info
        if info is None:
            return "default"
        return info.trial_resources

    @property
    def iteration(self) -> int:
        """How many steps there were."""
        return self._iteration

    @property
    def training_iteration(self) -> int:
        """How many steps there were."""
        return self._iteration

    def get_config(self) -> dict[str, Any]:
        """Return the configuration."""
        return self.config

    def get_state(self) -> dict[str, Any]:
        """Return what is counted: iterations, time and the like."""
        return {
            "iteration": self._iteration,
            "timesteps_total": self._timesteps_total,
            "time_total": self._time_total,
            "episodes_total": self._episodes_total,
            "last_result": self._last_result,
        }

    def get_current_ip_pid(self) -> tuple[str, int]:
        """Return where it runs: the address of the machine, and the process."""
        return get_node_ip_address(), os.getpid()

    def is_actor(self) -> bool:
        """Return whether it runs in a process of its own."""
        return self._trial_info is not None
