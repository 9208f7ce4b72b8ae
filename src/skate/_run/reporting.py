"""What a loop reports, in whichever spelling."""

from __future__ import annotations

import functools
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from skate._core.enumerations import looked_up_by_value
from skate._core.nearest import unknown_parameter
from skate._run.checkpoint import Checkpoint
from skate._run.config_checks import check_folder_name
from skate._run.types import MetricsLike, ResultRow
from skate._run.validation import OwnValidation, ValidationTaskConfig, checked_request
from skate._run.values import shortened

DEFAULT_METRIC = "_metric"


@looked_up_by_value
class CheckpointUploadMode(Enum):
    """Say how a reported checkpoint gets into the run's folder.

    It is copied before `report` returns (SYNC); written while the loop goes on, and recorded when
    that is done (ASYNC; a folder is taken over, unless it is not to be deleted); or not at all,
    because the loop has put it where it belongs (NO_UPLOAD). Trials, and loops with
    `num_workers=0`, write it at once in any case.

    Args:
        value: "SYNC", "ASYNC" or "NO_UPLOAD".
    """

    SYNC = "SYNC"
    ASYNC = "ASYNC"
    NO_UPLOAD = "NO_UPLOAD"

    def default_delete_local_checkpoint_after_upload(self) -> bool:
        """Return whether the original is deleted if `report` does not say it: only with ASYNC."""
        return self is CheckpointUploadMode.ASYNC


@dataclass
class Report:
    """One call of `report`. The metrics are None when a checkpoint alone was saved."""

    metrics: ResultRow | None
    checkpoint: Checkpoint | None = None
    directory_name: str | None = None
    upload_mode: CheckpointUploadMode = CheckpointUploadMode.SYNC
    delete_local: bool = False
    upload_fn: Callable[[Checkpoint, str], Checkpoint] | None = None
    validation: bool | ValidationTaskConfig = False


_OPTIONS = (
    "checkpoint_dir_name",
    "checkpoint_upload_mode",
    "delete_local_checkpoint_after_upload",
    "checkpoint_upload_fn",
    "validation",
)


def read_report(args: tuple[object, ...], kwargs: dict[str, Any]) -> Report:
    """Read `report({"loss": 1}, checkpoint=c)`, `report(metrics=…)`, `report(loss=1)`,
    `report(1)`."""
    if len(args) > 2:
        raise TypeError(f"report takes metrics and a checkpoint; got {len(args)} arguments")
    rest = dict(kwargs)
    if len(args) == 2:
        rest["checkpoint"] = args[1]
    checkpoint = rest.pop("checkpoint", None)
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise TypeError(
            f"report takes a Checkpoint as `checkpoint`; got {type(checkpoint).__name__}. "
            "Make one with Checkpoint.from_directory(folder) or Checkpoint.from_dict(values)"
        )
    _check_no_metric_is_a_checkpoint(rest)
    options = {name: rest.pop(name) for name in _OPTIONS if name in rest}
    validation = checked_request(_asked(options, rest), checkpoint)
    metrics = _metrics(args, rest)
    return Report(metrics, checkpoint, validation=validation, **_options(options))


def _asked(options: dict[str, Any], rest: dict[str, object]) -> Any:
    """Return the validation that is asked for, today's way or that of Ray 2.52."""
    if not callable(rest.get("validate_fn")):  # a metric may have any name
        return options.pop("validation", False)
    if "validation" in options:
        raise ValueError("report takes `validation` or `validate_fn`, not both")
    return OwnValidation.of(rest.pop("validate_fn"), rest.pop("validate_config", None))


def _check_no_metric_is_a_checkpoint(given: dict[str, object]) -> None:
    """Refuse a misspelt `checkpoint`, which would be a metric, and nothing be saved."""
    for name, value in given.items():
        if isinstance(value, Checkpoint):
            raise TypeError(
                f"report takes a checkpoint as `checkpoint`; got one as {name!r}, which would be "
                "a metric"
            )


def _metrics(args: tuple[object, ...], rest: dict[str, object]) -> ResultRow:
    if args:
        first = args[0]
    else:  # a metric of that name is no dict
        first = rest.pop("metrics") if isinstance(rest.get("metrics"), Mapping) else None
    if first is None:
        return rest
    if isinstance(first, Mapping):
        for name in rest:
            raise unknown_parameter("report", name, ("metrics", "checkpoint", *_OPTIONS))
        return dict(first)
    if isinstance(first, (int, float)) or hasattr(first, "item"):
        return {DEFAULT_METRIC: first, **rest}
    raise TypeError(
        "report takes a dict of metrics, or metrics by name; "
        f"got {type(first).__name__}: {first!r}"
    )


def _options(given: dict[str, object]) -> dict[str, Any]:
    mode = given.get("checkpoint_upload_mode", CheckpointUploadMode.SYNC)
    if not isinstance(mode, CheckpointUploadMode):
        raise TypeError(f"checkpoint_upload_mode is a CheckpointUploadMode; got {mode!r}")
    delete = given.get("delete_local_checkpoint_after_upload")
    if delete is None:
        delete = mode.default_delete_local_checkpoint_after_upload()
    name = given.get("checkpoint_dir_name")
    if name is not None:
        check_folder_name("checkpoint_dir_name", name, "the run's folder")
    return {
        "directory_name": name,
        "upload_mode": mode,
        "delete_local": delete,
        "upload_fn": given.get("checkpoint_upload_fn"),
    }


_COUNTED = {"timesteps_this_iter": "timesteps_total", "episodes_this_iter": "episodes_total"}


class ResultClock:
    """Fills in what every result has: its number, times, and where it came from."""

    def __init__(
        self,
        trial_id: str,
        config: Mapping[str, object] | None = None,
        iteration: int = 0,
        seconds: float = 0.0,
        totals: Mapping[str, int] | None = None,
    ) -> None:
        self.trial_id = trial_id
        self.config = shortened(config or {})
        self.iteration = iteration
        self.seconds = seconds
        self._since = self._steps = 0  # results, and steps in an environment, since the start
        self._totals = dict(totals or {})
        self._start = self._last = time.monotonic()

    def go_on_from(self, result: MetricsLike, iteration: int) -> None:
        """Let the next result come after this one; where that does not say it, `iteration` is its
        number."""
        self.iteration = result.get("training_iteration", iteration)
        self.seconds = result.get("time_total_s", 0.0)
        self._totals = totals_in(result)
        self.restart()

    def restart(self) -> None:
        """Leave out the time until now, as while workers start."""
        self._since = self._steps = 0
        self._start = self._last = time.monotonic()

    def fill(self, metrics: MetricsLike) -> ResultRow:
        """Return the metrics of the next result, with what was not reported itself."""
        now = time.monotonic()
        took = now - self._last
        self._last = now
        self.iteration += 1
        self._since += 1
        self.seconds += took
        stamp = time.time()
        return {
            "timestamp": int(stamp),
            "done": False,
            "training_iteration": self.iteration,
            "trial_id": self.trial_id,
            "date": time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(stamp)),
            "time_this_iter_s": took,
            "time_total_s": self.seconds,
            "time_since_restore": now - self._start,
            "iterations_since_restore": self._since,
            "pid": os.getpid(),
            **_machine(),
            "config": self.config,
            **self._sums(metrics),
            **metrics,
        }

    def _sums(self, metrics: MetricsLike) -> dict[str, int]:
        """Add up what is counted per result, as steps in an environment, and return the totals."""
        for each, total in _COUNTED.items():
            if metrics.get(each) is not None:
                self._totals[total] = self._totals.get(total, 0) + metrics[each]
        self._steps += metrics.get("timesteps_this_iter") or 0
        if not self._steps:
            return self._totals
        return {**self._totals, "timesteps_since_restore": self._steps}


def totals_in(result: MetricsLike) -> dict[str, int]:
    """Pick what a result has summed up."""
    found = {total: result.get(total) for total in _COUNTED.values()}
    return {name: value for name, value in found.items() if value is not None}


AUTOMATIC = frozenset(
    """timestamp done training_iteration trial_id date time_this_iter_s time_total_s
    time_since_restore iterations_since_restore pid hostname node_ip config checkpoint_dir_name
    experiment_tag should_checkpoint""".split()
)
"""What results have without being reported."""


class Metrics(dict[str, Any]):
    """The metrics of a result. Equal to a dict of what was reported, whether or not that has what
    was filled in: programs are written either way."""

    def __eq__(self, other: object) -> bool:
        if dict.__eq__(self, other):
            return True
        if not isinstance(other, Mapping):
            return False
        return _reported(self, other) == _reported(other, self)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None


def _reported(metrics: MetricsLike, other: Mapping[str, object]) -> ResultRow:
    return {k: v for k, v in metrics.items() if k not in AUTOMATIC or k in other}


@functools.cache  # every result asks
def _machine() -> dict[str, Any]:
    from skate.util import get_node_ip_address

    return {"hostname": socket.gethostname(), "node_ip": get_node_ip_address()}
