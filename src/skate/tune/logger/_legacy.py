"""Loggers as classes with one instance per trial, as they were written before callbacks."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from skate._run.loggers import (
    CSVLoggerCallback,
    JsonLoggerCallback,
    LoggerCallback,
    TBXLoggerCallback,
)
from skate._run.types import Config, ResultRow

if TYPE_CHECKING:
    from skate.tune.experiment.trial import Trial


class Logger:
    """Override `_init`, `on_result` and `close`; `config`, `logdir` and `trial` are the trial's.
    `LegacyLoggerCallback` makes them."""

    def __init__(self, config: Config, logdir: str, trial: Trial | None = None) -> None:
        self.config = config
        self.logdir = logdir
        self.trial = trial
        self._init()

    def _init(self) -> None:
        """Set up what the logger needs; called once, before any result."""

    def on_result(self, result: ResultRow) -> None:
        """Log a result that came; subclasses must say how."""
        raise NotImplementedError(f"{type(self).__name__} must implement on_result()")

    def update_config(self, config: Config) -> None:
        """Note that the trial goes on with another configuration."""

    def flush(self) -> None:
        """Write what is still in memory."""

    def close(self) -> None:
        """Close what is open: the trial is over."""


class NoopLogger(Logger):
    """Writes nothing."""

    def on_result(self, result: ResultRow) -> None:
        pass


class _CallbackLogger(Logger):
    """What a callback writes, for one trial."""

    _kind: type[LoggerCallback]

    def _init(self) -> None:
        self._about = self.trial or SimpleNamespace(
            trial_id="default",
            config=self.config,
            evaluated_params=self.config,
            local_path=self.logdir,
        )
        self._callback = self._kind()
        self._callback.log_trial_start(self._about)

    def on_result(self, result: ResultRow) -> None:
        self._callback.log_trial_result(result.get("training_iteration", 0), self._about, result)

    def update_config(self, config: Config) -> None:
        self.config = config
        if isinstance(self._callback, JsonLoggerCallback):
            self._callback.update_config(self._about, config)

    def close(self) -> None:
        self._callback.log_trial_end(self._about)


class JsonLogger(_CallbackLogger):
    """result.json and params.json."""

    _kind = JsonLoggerCallback


class CSVLogger(_CallbackLogger):
    """progress.csv."""

    _kind = CSVLoggerCallback


class TBXLogger(_CallbackLogger):
    """Files for TensorBoard."""

    _kind = TBXLoggerCallback


class UnifiedLogger(Logger):
    """Several loggers as one; by default those that every trial has."""

    def __init__(
        self, config: Config, logdir: str, trial: Trial | None = None, loggers: Any = None
    ) -> None:
        self._kinds = (JsonLogger, CSVLogger, TBXLogger) if loggers is None else loggers
        super().__init__(config, logdir, trial)

    def _init(self) -> None:
        self._loggers = [kind(self.config, self.logdir, self.trial) for kind in self._kinds]

    def on_result(self, result: ResultRow) -> None:
        for logger in self._loggers:
            logger.on_result(result)

    def update_config(self, config: Config) -> None:
        for logger in self._loggers:
            logger.update_config(config)

    def flush(self) -> None:
        for logger in self._loggers:
            logger.flush()

    def close(self) -> None:
        for logger in self._loggers:
            logger.close()


class LegacyLoggerCallback(LoggerCallback):
    """Runs loggers of the older kind, given as classes, as a callback."""

    def __init__(self, logger_classes: Iterable[type[Logger]]) -> None:
        super().__init__()
        self._kinds = tuple(logger_classes)
        self._loggers: dict[str, UnifiedLogger] = {}

    def log_trial_start(self, trial: Trial) -> None:
        logger = UnifiedLogger(trial.config, trial.local_path, trial, self._kinds)
        self._loggers[trial.trial_id] = logger

    def log_trial_restore(self, trial: Trial) -> None:
        self._loggers[trial.trial_id].flush()

    def log_trial_save(self, trial: Trial) -> None:
        self._loggers[trial.trial_id].flush()

    def log_trial_result(self, iteration: int, trial: Trial, result: ResultRow) -> None:
        self._loggers[trial.trial_id].on_result(result)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        self._loggers.pop(trial.trial_id).close()
