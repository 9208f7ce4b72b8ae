"""What a run or a trial has come to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skate._run.checkpoint import Checkpoint
from skate._run.errors import read_error
from skate._run.ledger import CHECKPOINTS_FILE, RESULT_FILE, Ledger
from skate._run.pickles import allowing
from skate._run.reporting import AUTOMATIC
from skate._run.storage import Storage
from skate._run.types import ResultRow
from skate._run.values import flatten, lookup

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow.fs as pafs
    from matplotlib.axes import Axes

    from skate._run.types import Config


class Result:
    """Hold what a run or a trial has come to.

    Args:
        metrics: The last ones that were reported.
        checkpoint: The last one.
        error: What ended the run, if something did.
        path: Its folder.
        metrics_dataframe: All reported results; read from the folder if it is not given.
        best_checkpoints: The best, or last, `num_to_keep` of those that were kept, each with its
            metrics.
        return_value: What the loop of the first worker returned.
    """

    best_checkpoints: list[tuple[Checkpoint, dict[str, Any]]] | None
    return_value: Any

    def __init__(
        self,
        metrics: ResultRow | None = None,
        checkpoint: Checkpoint | None = None,
        error: BaseException | None = None,
        path: str = "",
        metrics_dataframe: pd.DataFrame | None = None,
        best_checkpoints: list[tuple[Checkpoint, ResultRow]] | None = None,
        _storage_filesystem: object = None,
        return_value: Any = None,
    ) -> None:
        self.metrics = metrics
        self.checkpoint = checkpoint
        self.error = error
        self.path = path
        self.best_checkpoints = best_checkpoints
        self.return_value = return_value
        self._storage_filesystem = _storage_filesystem
        self._dataframe = metrics_dataframe

    @classmethod
    def from_path(
        cls,
        path: str | os.PathLike[str],
        storage_filesystem: object = None,
        *,
        allow_pickle: bool = False,
    ) -> Result:
        """Read the result of a run or trial from its folder.

        Args:
            path: The folder, or its URI.
            storage_filesystem: The Arrow file system that `path` is on, if not this machine's.
            allow_pickle: Whether to read pickles that were not written by this user on this
                machine, which runs whatever they contain; also those of the checkpoints. Without
                it, the error of such a run is a description of what was raised.

        Returns:
            The result.

        Raises:
            RuntimeError: If there is no such folder, or if it is that of something else.
        """
        storage = Storage.at(path, storage_filesystem)
        if not storage.exists():
            raise RuntimeError(f"Experiment folder {storage.path!r} doesn't exist!")
        if not storage.exists(RESULT_FILE) and not storage.exists(CHECKPOINTS_FILE):
            raise RuntimeError(
                f"Failed to restore the Result object: {RESULT_FILE} doesn't exist in the "
                "experiment folder. Make sure that this is an output directory created by a Ray "
                f"Train run, or by one of skate, or the folder of a trial; got {storage.path!r}"
            )
        ledger = Ledger(storage)
        history = ledger.results()
        with allowing(allow_pickle):
            recorded = ledger.checkpoints(history)
            error = read_error(storage)
        return cls(
            metrics=history[-1] if history else None,
            checkpoint=recorded[-1].checkpoint if recorded else None,
            error=error,
            path=storage.path,
            best_checkpoints=[(entry.checkpoint, entry.metrics) for entry in recorded],
            _storage_filesystem=None if storage.is_local else storage.filesystem,
        )

    @property
    def config(self) -> Config | None:
        """The configuration that the loop or trial was given."""
        return self.metrics.get("config") if self.metrics else None

    @property
    def filesystem(self) -> pafs.FileSystem:
        """The Arrow file system that `path` is on."""
        return Storage.at(self.path, self._storage_filesystem).filesystem

    @property
    def metrics_dataframe(self) -> Any:
        """All reported results as a pandas DataFrame, nested names joined by slashes."""
        if self._dataframe is None:
            from skate._core.optional_imports import try_import

            pandas = try_import("pandas", "data")
            self._dataframe = pandas.DataFrame([dict(flatten(row)) for row in self._history()])
        return self._dataframe

    @property
    def log_dir(self) -> Path:
        """An older name of `path`, and then a Path."""
        return Path(self.path)

    def _history(self) -> list[ResultRow]:
        return Ledger(Storage.at(self.path, self._storage_filesystem)).results()

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint:
        """Return the kept checkpoint with the best value of a metric.

        Args:
            metric: The metric, "a/b" for nested ones.
            mode: Whether the largest value is the best, "max", or the smallest, "min".

        Raises:
            ValueError: If `mode` is something else.
            RuntimeError: If there is no checkpoint, or none has the metric.
        """
        if mode not in ("max", "min"):
            raise ValueError(f"mode is 'max' or 'min'; got {mode!r}")
        if not self.best_checkpoints:
            raise RuntimeError("No checkpoint exists: none was reported, or none was kept")
        scored = [
            (value, checkpoint)
            for checkpoint, metrics in self.best_checkpoints
            if (value := lookup(metrics, metric)) is not None and value == value  # not NaN
        ]
        if not scored:
            names = sorted({name for _, metrics in self.best_checkpoints for name in metrics})
            raise RuntimeError(f"Invalid metric name {metric!r}: no checkpoint has it; {names} do")
        choose = max if mode == "max" else min
        return choose(scored, key=lambda pair: pair[0])[1]

    def plot(self, *metrics: str, x: str = "training_iteration", ax: Axes | None = None) -> Any:
        """Draw the curves of reported metrics.

        Args:
            metrics: Their names; by default all that are numbers.
            x: The metric on the horizontal axis.
            ax: The axes of matplotlib to draw on; by default new ones.

        Returns:
            The axes.
        """
        from skate._run.plotting import draw

        return draw(self._history(), metrics, x, ax)

    def _repr_html_(self) -> str:
        from skate._core.notebooks import html_curve, html_facts

        last = {name: value for name, value in flatten(self.metrics or {}) if _is_own(name)}
        facts = {**last, "error": self.error, "checkpoint": self.checkpoint, "path": self.path}
        try:
            history = [dict(flatten(row)) for row in self._history()]
        except OSError:  # the folder is gone: what is known is shown
            history = []
        curves = [
            html_curve(name, [row[name] for row in history if name in row])
            for name, value in last.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        ]
        return html_facts(type(self).__name__, facts) + "".join(curves)

    def __repr__(self) -> str:
        shown: dict[str, Any] = {}
        if self.error is not None:
            shown["error"] = type(self.error).__name__
        if self.metrics is not None:
            shown["metrics"] = {k: v for k, v in self.metrics.items() if k not in AUTOMATIC}
        shown |= {"path": self.path, "checkpoint": self.checkpoint}
        lines = ",\n".join(f"  {name}={value!r}" for name, value in shown.items())
        return f"{type(self).__name__}(\n{lines}\n)"


def _is_own(name: str) -> bool:
    """Return whether a metric, as "a/b" if it is nested, was reported by the program."""
    return name.partition("/")[0] not in AUTOMATIC
