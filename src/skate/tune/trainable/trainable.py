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
from skate._run.folders import scratch_dir
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


class Trainable:
    """Override `setup`, `step`, `save_checkpoint` and `load_checkpoint`.

    `reset_config` makes an instance usable for the next trial; `cleanup` is called at its end.
    The result of a step may contain "done": True to end the trial. Outside of the tuner,
    `logger_creator` may make a `tune.logger.Logger` from the configuration.
    """

    def __init__(
        self,
        config: Config | None = None,
        storage: Any = None,
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

    # -- to be overridden --------------------------------------------------------------------

    def setup(self, config: Config) -> None:
        """Called once, before the first step."""

    def step(self) -> dict[str, Any]:
        """One iteration; the metrics of it."""
        raise NotImplementedError(f"{type(self).__name__} must implement step()")

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        """Write the state into the folder, or return it as a dictionary."""
        raise NotImplementedError(f"{type(self).__name__} must implement save_checkpoint()")

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Take up the state from the folder, or from the dictionary that was returned."""
        raise NotImplementedError(f"{type(self).__name__} must implement load_checkpoint()")

    def reset_config(self, new_config: Config) -> bool:
        """Begin anew with `new_config`, in the same instance; True if it did. Override it where
        that is cheaper than a new process, which is what False asks for."""
        return False

    def cleanup(self) -> None:
        """Called at the end."""

    def log_result(self, result: ResultRow) -> None:
        """Called with each result, in the trial's process."""
        if self._result_logger is not None:
            self._result_logger.on_result(result)

    def export_model(self, export_formats: Any, export_dir: str | None = None) -> dict[str, str]:
        """Write the model in the formats; {format: path}."""
        formats = [export_formats] if isinstance(export_formats, str) else list(export_formats)
        return self._export_model(formats, export_dir or self.logdir)

    def _export_model(self, export_formats: list[str], export_dir: str) -> dict[str, str]:
        return {}

    @classmethod
    def default_resource_request(cls, config: Config) -> Any:
        """The resources that a trial with this configuration needs; None for one CPU."""
        return None

    @classmethod
    def resource_help(cls, config: Config) -> str:
        """A hint for people whose trials do not get their resources."""
        return ""

    # -- what runs ---------------------------------------------------------------------------

    def train(self) -> dict[str, Any]:
        """One step, with what every result has."""
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
        """What every result has; only what is known before the first step if so wished."""
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
        """Steps until the time is over, one is done, or there are enough of them."""
        end = time.monotonic() + buffer_time_s
        results: list[ResultRow] = []
        while len(results) < max_buffer_length:
            results.append(self.train())
            if results[-1][DONE] or time.monotonic() >= end:
                break
        return results

    def save(self, checkpoint_dir: str | None = None) -> SavedCheckpoint:
        """Write a checkpoint into the folder, by default a temporary one."""
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
        """A checkpoint as one value, for `restore_from_object`."""
        with tempfile.TemporaryDirectory(prefix="checkpoint_", dir=scratch_dir()) as folder:
            self.save(os.path.join(folder, _INSIDE))
            return Checkpoint(folder).to_bytes()

    def restore_from_object(self, obj: bytes) -> None:
        """Go on from what `save_to_object` gave."""
        with Checkpoint.from_bytes(obj).as_directory() as folder:
            self.restore(os.path.join(folder, _INSIDE))

    def restore(self, checkpoint_path: Any) -> None:
        """Go on from a checkpoint: its folder, or the Checkpoint itself."""
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
        """Make the instance that of another trial; False if it cannot be."""
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
        """The end: calls `cleanup`."""
        self.cleanup()
        if self._result_logger is not None:
            self._result_logger.close()

    # -- who it is ---------------------------------------------------------------------------

    @property
    def logdir(self) -> str:
        """A folder of the trial."""
        if self._logdir is None:
            info = self._trial_info
            self._logdir = getattr(info, "trial_dir", None) or tempfile.mkdtemp(prefix="trial_")
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
        """The configuration."""
        return self.config

    def get_state(self) -> dict[str, Any]:
        """What is counted."""
        return {
            "iteration": self._iteration,
            "timesteps_total": self._timesteps_total,
            "time_total": self._time_total,
            "episodes_total": self._episodes_total,
            "last_result": self._last_result,
        }

    def get_current_ip_pid(self) -> tuple[str, int]:
        """Where it runs."""
        return get_node_ip_address(), os.getpid()

    def is_actor(self) -> bool:
        """Whether it runs in a process of its own."""
        return self._trial_info is not None
