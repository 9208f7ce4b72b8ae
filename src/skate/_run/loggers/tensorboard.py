"""TensorBoard's event files, in the folder of each trial.

The numbers of a result are written by hand: a record of the event file is a length, two checksums
and a small protocol-buffer message. Packages that write them start a thread per file and lose what
they hold when the process is killed.
"""

from __future__ import annotations

import functools
import os
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from skate._core.protocol_buffers import field, varint
from skate._core.record_files import record_of, records_in
from skate._run.loggers.files import FileLoggerCallback, folder_of
from skate._run.loggers.hparams import VALID_HPARAMS, hparams_summary
from skate._run.types import MetricsLike, ResultRow
from skate._run.values import numbers_in

if TYPE_CHECKING:
    from skate._run.callbacks import TrialLike


EVENTS = "events.out.tfevents."  # how the names of the files begin
_TAG = "ray/tune/"
_UNSHOWN = {"config", "pid", "timestamp", "done", "date", "time_total_s", "trial_id", "hostname"}


class TBXLoggerCallback(FileLoggerCallback):
    """Every reported number is a curve over `training_iteration`; at its end, the hyperparameters
    of a trial are on TensorBoard's page for them."""

    VALID_HPARAMS = VALID_HPARAMS
    VALID_NP_HPARAMS: tuple[type, ...] = ()  # NumPy's numbers are shown as Python's

    def __init__(self, flush_every_s: float = 0.0) -> None:
        super().__init__(flush_every_s)
        self._files: dict[str, str] = {}
        self._metrics: dict[str, Iterable[str]] = {}  # of each trial, those that it reported last

    def log_trial_result(self, iteration: int, trial: TrialLike, result: ResultRow) -> None:
        shown = {name: value for name, value in result.items() if name not in _UNSHOWN}
        numbers = dict(numbers_in(shown))
        if not numbers:
            return
        self._metrics[trial.trial_id] = numbers
        place = self._files.get(trial.trial_id)
        data = b""
        if place is None:
            place = self._files[trial.trial_id] = _new_file(folder_of(trial))
            data = record_of(_event(file_version="brain.Event:2"))
        data += record_of(_event(step=step_of(result) or iteration, numbers=numbers))
        self.add(place, data)

    def place_of(self, trial: TrialLike) -> str | None:
        return self._files.get(trial.trial_id)

    def on_trial_recover(
        self, iteration: int, trials: Sequence[object], trial: TrialLike, **info: object
    ) -> None:
        """Let go of the file, and begin another one later.

        What came after the last checkpoint may be taken out of it, which a TensorBoard that has
        it open does not notice.

        Args:
            iteration: The number of the round.
            trials: All trials so far.
            trial: The one.
            info: What later versions may say besides.
        """
        self._flush_trial(trial)
        self._files.pop(trial.trial_id, None)

    def log_trial_end(self, trial: TrialLike, failed: bool = False) -> None:
        metrics = (f"{_TAG}{name}" for name in self._metrics.pop(trial.trial_id, ()))
        place = self._files.get(trial.trial_id)
        params = getattr(trial, "evaluated_params", None) or {}
        if place is not None and (summary := hparams_summary(params, metrics, failed)):
            self.add(place, record_of(_event(summary=summary)))
        super().log_trial_end(trial, failed)
        self._files.pop(trial.trial_id, None)


def step_of(result: MetricsLike) -> int:
    """Return where a result is on the curves; 0 if it does not say."""
    return int(result.get("timesteps_total") or result.get("training_iteration") or 0)


def events_until(data: bytes, step: int) -> bytes:
    """Return the content of an event file without the results after this step. What others have
    written, as a loop with a writer of its own, stays."""
    records = list(_complete_records(data))
    return b"".join(
        record_of(one) for one in records if _TAG.encode() not in one or _step(one) <= step
    )


def _complete_records(data: bytes) -> Iterator[bytes]:
    """Yield all records but what a crash has cut off."""
    try:
        yield from records_in(data)
    except ValueError:
        return


def _step(event: bytes) -> int:
    """Read the step that `_event` has written behind the time."""
    step = 0
    for place, byte in enumerate(event[10:]):
        step |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            break
    return step


def _new_file(folder: str) -> str:
    name = f"{EVENTS}{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
    return os.path.join(folder, name)


# -- the format -----------------------------------------------------------------------------------


def _event(
    step: int = 0,
    numbers: dict[str, float] | None = None,
    file_version: str = "",
    summary: bytes = b"",
) -> bytes:
    """Encode Event{wall_time = 1, step = 2, file_version = 3, summary = 5}."""
    message = b"\x09" + struct.pack("<d", time.time()) + b"\x10" + varint(step)
    if file_version:
        message += field(3, file_version.encode())
    if numbers:
        message += _values(numbers)
    if summary:
        message += field(5, summary)
    return message


def _values(numbers: dict[str, float]) -> bytes:
    """Encode the summary of an event."""
    form, heads = _layout_of(tuple(numbers))
    parts: list[Any] = [*heads, *heads]
    parts[::2] = heads
    parts[1::2] = numbers.values()
    try:
        return form.pack(*parts)
    except OverflowError:
        parts[1::2] = map(_within_limits, numbers.values())
        return form.pack(*parts)


@functools.lru_cache(maxsize=1024)  # the results of a run have few sets of names
def _layout_of(names: tuple[str, ...]) -> tuple[struct.Struct, list[bytes]]:
    """Return how the numbers of these names are packed, and what stands before each."""
    heads = [_head(f"{_TAG}{name}") for name in names]
    size = sum(len(head) + 4 for head in heads)
    heads[0] = varint(5 << 3 | 2) + varint(size) + heads[0]
    return struct.Struct("<" + "".join(f"{len(head)}sf" for head in heads)), heads


def _head(name: str) -> bytes:
    """Encode Summary{value = 1}, Value{tag = 1, simple_value = 2} up to the number, of 4 bytes."""
    tag = field(1, name.encode()) + b"\x15"
    return b"\x0a" + varint(len(tag) + 4) + tag


def _within_limits(number: float) -> float:
    """Return the number, or infinity if it has no place in 4 bytes."""
    try:
        struct.pack("<f", number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")
    return number
