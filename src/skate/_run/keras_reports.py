"""Reports and checkpoints from `model.fit`: what the callbacks of train and tune share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from skate._core.tensorflow_processes import keras_in_use
from skate._run.checkpoint import Checkpoint
from skate._run.keras_models import model_checkpoint
from skate._run.session import report
from skate._run.values import plain

if TYPE_CHECKING:
    from skate._run.types import MetricsLike, ResultRow


EVENTS = tuple(
    f"{what}_{when}"
    for what in ("epoch", "train_batch", "test_batch", "predict_batch", "train", "test", "predict")
    for when in ("begin", "end")
)

Names = str | Sequence[str]
Metrics = Names | Mapping[str, str] | None

_Callback: Any = keras_in_use().callbacks.Callback


class Reporting(_Callback):  # type: ignore[misc]
    """Reports what Keras logs at events such as "epoch_end", at every n-th of them with a
    checkpoint. `every` has the n of each event; 0 is never."""

    def __init__(self, every: Mapping[str, int], metrics: Metrics) -> None:
        super().__init__()
        self._every = dict(every)
        self._metrics = metrics
        self._seen: Counter[str] = Counter()
        # Set on the instance: Keras gathers the logs of every batch as soon as a class has the
        # methods for batches, which costs time.
        for event in self._every:
            if event not in EVENTS:
                raise ValueError(
                    f"{event!r} is no event of Keras; allowed are {', '.join(EVENTS)}"
                )
            setattr(self, f"on_{event}", partial(self._handle, event))

    def _handle(self, event: str, *args: object, logs: MetricsLike | None = None) -> None:
        found = logs if logs is not None else (args[-1] if args else None)
        metrics = self._chosen(found if isinstance(found, dict) else {})
        self._seen[event] += 1
        every = self._every[event]
        due = every > 0 and self._seen[event] % every == 0
        report(metrics, checkpoint=self._checkpoint() if due else None)

    def _checkpoint(self) -> Checkpoint:
        """Make a checkpoint of the model as it is."""
        return model_checkpoint(Checkpoint, self.model)

    def _chosen(self, logs: MetricsLike) -> ResultRow:
        wanted = self._metrics or list(logs)
        names = wanted if isinstance(wanted, Mapping) else {name: name for name in listed(wanted)}
        missing = [name for name in names.values() if name not in logs]
        if missing:
            raise ValueError(f"Keras has logged no {missing} here; it has {sorted(logs)}")
        return {ours: plain(logs[theirs]) for ours, theirs in names.items()}


def listed(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def each_event(checkpoint_on: Names, report_metrics_on: Names) -> dict[str, int]:
    """Return how often each event brings a checkpoint."""
    saving = listed(checkpoint_on)
    return {event: int(event in saving) for event in [*saving, *listed(report_metrics_on)]}


def every_so_often(on: Names, frequency: int | Sequence[int]) -> dict[str, int]:
    """Return how often each event brings a checkpoint, as one number, or one each, says."""
    events = listed(on)
    numbers = [frequency] * len(events) if isinstance(frequency, int) else list(frequency)
    if len(numbers) != len(events) or min(numbers, default=0) < 0:
        raise ValueError(
            f"frequency takes a number from 0, which is never, or one for each of {events}; got "
            f"{frequency!r}"
        )
    return dict(zip(events, numbers, strict=True))
