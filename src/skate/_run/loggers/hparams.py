"""What TensorBoard's page of hyperparameters shows: a summary in the event file of a trial.

Of its parts the first names the hyperparameters and the metrics, the second has their values, and
the third says how the trial ended. They are messages of TensorBoard's plugin `hparams`, written
by hand as the rest of the file.
"""

from __future__ import annotations

import functools
import logging
import struct
from collections.abc import Iterable, Mapping

from skate._core.protocol_buffers import field, number_field
from skate._run.values import flatten

VALID_HPARAMS = (str, bool, int, float, list, type(None))
_TEXT, _TRUTH, _NUMBER = 1, 2, 3  # kinds of hyperparameters
_SUCCESS, _FAILURE = 1, 2

logger: logging.Logger = logging.getLogger("skate.tune.logger.hparams")


def hparams_summary(params: Mapping[str, object], metrics: Iterable[str], failed: bool) -> bytes:
    """Encode what a trial was run with, and how it ended; nothing if it has no hyperparameters.

    Args:
        params: Its hyperparameters. Those that TensorBoard cannot show are left out.
        metrics: The names of its curves.
        failed: How it ended.
    """
    shown = _shown(params)
    if not shown:
        return b""
    kinds = tuple((name, _kind(value)) for name, value in shown.items())
    values = [field(1, field(1, name.encode()) + field(2, _value(v))) for name, v in shown.items()]
    start = _part("session_start_info", field(3, b"".join(values)))
    return _experiment(kinds, tuple(metrics)) + start + _end(failed)


def _shown(params: Mapping[str, object]) -> dict[str, object]:
    plain = {name: _python(value) for name, value in flatten(params)}
    removed = {name: v for name, v in plain.items() if not isinstance(v, VALID_HPARAMS)}
    if removed:
        logger.info("TensorBoard cannot show these hyperparameters: %s", removed)
    return {n: v for n, v in plain.items() if n not in removed and v is not None}


def _python(value: object) -> object:
    """Return a number of NumPy as one of Python, if there is such a number."""
    item = getattr(value, "item", None)
    return item() if item is not None and getattr(value, "shape", None) == () else value


def _kind(value: object) -> int:
    if isinstance(value, bool):
        return _TRUTH
    return _NUMBER if isinstance(value, (int, float)) else _TEXT


def _value(value: object) -> bytes:
    """Encode Value{number_value = 2, string_value = 3, bool_value = 4}."""
    if isinstance(value, bool):
        return number_field(4, value)
    if isinstance(value, (int, float)):
        return b"\x11" + struct.pack("<d", _as_float(value))
    return field(3, str(value).encode())


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


@functools.lru_cache(maxsize=64)  # the trials of a search are alike
def _experiment(kinds: tuple[tuple[str, int], ...], metrics: tuple[str, ...]) -> bytes:
    params = [field(4, field(1, name.encode()) + number_field(4, kind)) for name, kind in kinds]
    curves = [field(5, field(1, field(2, metric.encode()))) for metric in metrics]
    return _part("experiment", field(2, b"".join(params + curves)))


@functools.cache
def _end(failed: bool) -> bytes:
    return _part("session_end_info", field(4, number_field(1, _FAILURE if failed else _SUCCESS)))


def _part(tag: str, content: bytes) -> bytes:
    """Encode Summary{value = 1}, Value{tag = 1, metadata = 9}, SummaryMetadata{plugin_data = 1},
    PluginData{plugin_name = 1, content = 2}."""
    plugin = field(1, b"hparams") + field(2, content)
    return field(1, field(1, f"_hparams_/{tag}".encode()) + field(9, field(1, plugin)))
