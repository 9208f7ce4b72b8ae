"""Lightning reports to the trial it runs in."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from skate._core.optional_imports import is_installed, try_import
from skate._run.checkpoint import Checkpoint
from skate._run.folders import scratch_dir
from skate._run.session import report
from skate.tune.integration._selection import selected

_lightning = try_import(
    "lightning.pytorch" if is_installed("lightning") else "pytorch_lightning", "lightning"
)
_HOOKS = frozenset(name for name in dir(_lightning.Callback) if name.startswith("on_"))


class TuneCallback(_lightning.Callback):  # type: ignore[name-defined, misc]
    """Calls `_handle(trainer, module)` at the hooks named by `on`, without their "on_"."""

    def __init__(self, on: str | list[str] = "validation_end") -> None:
        names = [on] if isinstance(on, str) else list(on)
        for name in names:
            if f"on_{name}" not in _HOOKS:
                raise ValueError(
                    f"Invalid hook selected: {name!r}; there are "
                    f"{sorted(hook[3:] for hook in _HOOKS)}"
                )
        for name in names:
            setattr(self, f"on_{name}", self._at_hook)

    def _at_hook(self, trainer: Any, pl_module: Any = None, *args: Any, **kwargs: Any) -> None:
        if not trainer.sanity_checking:
            self._handle(trainer, pl_module)

    def _handle(self, trainer: Any, pl_module: Any) -> None:
        raise NotImplementedError


class TuneReportCheckpointCallback(TuneCallback):
    """Reports Lightning's metrics, and a checkpoint with them unless `save_checkpoints` is False.

    `metrics` is a list of names, or a dictionary from the names to report to Lightning's.
    """

    def __init__(
        self,
        metrics: str | list[str] | dict[str, str] | None = None,
        filename: str = "checkpoint",
        save_checkpoints: bool = True,
        on: str | list[str] = "validation_end",
    ) -> None:
        super().__init__(on)
        self._metrics = metrics
        self._filename = filename
        self._save_checkpoints = save_checkpoints

    def _handle(self, trainer: Any, pl_module: Any) -> None:
        metrics = selected(trainer.callback_metrics, self._metrics)
        if not metrics:
            return
        if not self._save_checkpoints:
            report(metrics)
            return
        with tempfile.TemporaryDirectory(dir=scratch_dir()) as folder:
            trainer.save_checkpoint(os.path.join(folder, self._filename))
            report(metrics, checkpoint=Checkpoint.from_directory(folder))


class TuneReportCallback(TuneReportCheckpointCallback):
    """Reports metrics only."""

    def __init__(
        self,
        metrics: str | list[str] | dict[str, str] | None = None,
        on: str | list[str] = "validation_end",
    ) -> None:
        super().__init__(metrics, save_checkpoints=False, on=on)
