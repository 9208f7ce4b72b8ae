"""Reports of gradient boosting libraries, whose callbacks see a model after each iteration."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from skate._run.checkpoint import Checkpoint
from skate._run.folders import scratch_dir
from skate._run.session import get_context, report
from skate._run.values import plain

Metrics = dict[str, Any]
Wanted = str | list[str] | dict[str, str] | None


class BoostingReports:
    """Reports the metrics of each iteration; the model every `frequency` iterations (0: never)
    and, with `checkpoint_at_end`, at the end, as `saving` gives it.

    `metrics`: names to report, or a dictionary from names to report to the library's own; by
    default all. `results_postprocessing_fn` changes them before they are reported.
    """

    def __init__(
        self,
        metrics: Wanted,
        saving: Callable[[Any], AbstractContextManager[Checkpoint | None]],
        frequency: int,
        checkpoint_at_end: bool,
        results_postprocessing_fn: Callable[[Metrics], Metrics] | None,
    ) -> None:
        self._wanted = metrics
        self._saving = saving
        self._frequency = frequency
        self._checkpoint_at_end = checkpoint_at_end
        self._postprocess = results_postprocessing_fn
        self._last: Metrics = {}
        # What the last iteration has made. Without one there is nothing to report at the end: the
        # iterations of libraries that train in several processes are told elsewhere.
        self._saved = True

    def iteration(
        self, number: int, model: object, found: Mapping[str, object], last: bool = False
    ) -> None:
        """Report iteration `number`, counted from 0, which is over."""
        metrics = chosen(found, self._wanted)
        self._last = self._postprocess(metrics) if self._postprocess else metrics
        regular = self._frequency > 0 and (number + 1) % self._frequency == 0
        self._saved = regular or (last and self._checkpoint_at_end)
        if self._saved:
            self._report_with(model)
        else:
            report(self._last)

    def end(self, model: object) -> None:
        """Report the last model, when iterations end without the library having said so before."""
        if self._checkpoint_at_end and not self._saved:
            self._report_with(model)

    def _report_with(self, model: Any) -> None:
        with self._saving(model) as checkpoint:
            report(self._last, checkpoint=checkpoint)


class BoostingCallback:
    """What callbacks of gradient boosting libraries are made with, whatever the library.

    Args:
        metrics: Names to report, or a dictionary from names to report to the library's own; None
            reports all.
        filename: The file of a checkpoint that has the model; None is `CHECKPOINT_NAME`.
        frequency: At every how many iterations the model is reported; 0 is never.
        checkpoint_at_end: Whether it is reported at the end.
        results_postprocessing_fn: Changes the metrics before they are reported.
    """

    CHECKPOINT_NAME: str

    def __init__(
        self,
        metrics: Wanted = None,
        filename: str | None = None,
        frequency: int = 0,
        checkpoint_at_end: bool = True,
        results_postprocessing_fn: Callable[[Metrics], Metrics] | None = None,
    ) -> None:
        # By Ray's names: libraries that train in several processes make their own callbacks of it.
        self._metrics = [metrics] if isinstance(metrics, str) else metrics
        self._filename = filename or self.CHECKPOINT_NAME
        self._frequency = frequency
        self._reports = BoostingReports(
            metrics,
            self._get_checkpoint,
            frequency,
            checkpoint_at_end,
            results_postprocessing_fn,
        )

    @contextmanager
    def _get_checkpoint(self, model: Any) -> Iterator[Checkpoint | None]:
        """Give the model as a checkpoint; None where another worker does. By Ray's name: programs
        save more files with it."""
        if self._world_rank():
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="checkpoint_", dir=scratch_dir()) as folder:
            model.save_model(os.path.join(folder, self._filename))
            yield Checkpoint.from_directory(folder)

    def _world_rank(self) -> int | None:
        return get_context().get_world_rank()


def chosen(found: Mapping[str, object], wanted: Wanted) -> Metrics:
    """Pick the metrics to report, by the names to report them under."""
    if not wanted:
        return {name: plain(value) for name, value in found.items()}
    listed = [wanted] if isinstance(wanted, str) else wanted
    names = listed if isinstance(listed, Mapping) else {name: name for name in listed}
    missing = [name for name in names.values() if name not in found]
    if missing:
        raise KeyError(f"there are no metrics {missing}; there are {sorted(found)}")
    return {ours: plain(found[theirs]) for ours, theirs in names.items()}
