"""Reports and checkpoints from `model.fit`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from skate._imports import try_import
from skate._run.checkpoint import MODEL_KEY, Checkpoint
from skate._run.session import report
from skate.train.tensorflow.tensorflow_checkpoint import TensorflowCheckpoint

_Callback: Any = try_import("tensorflow", "tensorflow").keras.callbacks.Callback

EVENTS = tuple(
    f"{what}_{when}"
    for what in ("epoch", "train_batch", "test_batch", "predict_batch", "train", "test", "predict")
    for when in ("begin", "end")
)

Names = str | Sequence[str]


class ReportCheckpointCallback(_Callback):  # type: ignore[misc]
    """Reports what Keras logs, and saves the model, at events such as "epoch_end".

    `metrics`: names to report, or a dictionary of names to report by names that Keras uses; by
    default all. A checkpoint never comes without metrics.
    """

    def __init__(
        self,
        checkpoint_on: Names = "epoch_end",
        report_metrics_on: Names = "epoch_end",
        metrics: Names | dict[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._checkpoint_on = _checked(checkpoint_on)
        self._metrics = metrics
        # Set on the instance: Keras gathers the logs of every batch as soon as a class has the
        # methods for batches, which costs time.
        for event in dict.fromkeys([*self._checkpoint_on, *_checked(report_metrics_on)]):
            setattr(self, f"on_{event}", partial(self._handle, event))

    def _handle(self, event: str, *args: Any, logs: dict[str, Any] | None = None) -> None:
        found = logs if logs is not None else (args[-1] if args else None)
        metrics = self._chosen(found if isinstance(found, dict) else {})
        report(metrics, checkpoint=self._saved(event))

    def _saved(self, event: str) -> Checkpoint | None:
        """The model as it is; None if this event asks for none."""
        due = event in self._checkpoint_on
        return TensorflowCheckpoint.from_model(self.model) if due else None

    def _chosen(self, logs: dict[str, Any]) -> dict[str, Any]:
        if self._metrics is None:
            return dict(logs)
        if isinstance(self._metrics, dict):
            names = self._metrics
        else:
            names = {name: name for name in _listed(self._metrics)}
        missing = [name for name in names.values() if name not in logs]
        if missing:
            raise ValueError(f"Keras has logged no {missing} here; it has {sorted(logs)}")
        return {ours: logs[theirs] for ours, theirs in names.items()}


class Callback(ReportCheckpointCallback):
    """As it was until Ray 2.4: reports at the events `on`, and at every `frequency`-th of them
    the weights, as `{"model": weights}`. A list has one frequency per event; 0 is never."""

    def __init__(
        self,
        metrics: Names | dict[str, str] | None = None,
        on: Names = "epoch_end",
        frequency: int | Sequence[int] = 1,
    ) -> None:
        super().__init__(checkpoint_on=(), report_metrics_on=on, metrics=metrics)
        events = _listed(on)
        each = [frequency] * len(events) if isinstance(frequency, int) else frequency
        if len(each) != len(events):
            raise ValueError(
                f"frequency takes a number, or one for each of {events}; got {frequency!r}"
            )
        self._every = dict(zip(events, each, strict=True))
        self._seen: Counter[str] = Counter()

    def _saved(self, event: str) -> Checkpoint | None:
        self._seen[event] += 1
        every = self._every[event]
        due = every > 0 and self._seen[event] % every == 0
        return Checkpoint.from_dict({MODEL_KEY: self.model.get_weights()}) if due else None


def _listed(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _checked(events: Names) -> list[str]:
    for event in _listed(events):
        if event not in EVENTS:
            raise ValueError(f"{event!r} is no event of Keras; allowed are {', '.join(EVENTS)}")
    return _listed(events)


__all__ = ["Callback", "ReportCheckpointCallback"]
