"""Which checkpoints of a run count, by the files in its folder.

    checkpoints.json   a line per checkpoint, written before it gets its name: that name, its
                       place if that is elsewhere, its class, how far the datasets were read
    result.json        the line of the result that it was reported with makes it count

    validations.json   a line per checkpoint that is to be validated, and one when it has been

A crash between the first two leaves a line without a result, which counts for nothing: what is
not in the history did not happen, and a name that it had taken over is given back. A checkpoint
that was saved without a result counts at once.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Mapping
from typing import Any

from skate._run.checkpoint import Checkpoint
from skate._run.checkpoints import Kept
from skate._run.folders import LocalFolder
from skate._run.storage import REPLACED, Storage

RESULT_FILE = "result.json"
CHECKPOINTS_FILE = "checkpoints.json"
VALIDATIONS_FILE = "validations.json"

Line = dict[str, Any]


def checkpoint_line(
    storage: Storage,
    name: str,
    checkpoint: Checkpoint,
    result: Mapping[str, Any] | None,
    positions: list[dict[str, int]],
) -> Line:
    """What is written down about a checkpoint."""
    line: Line = {"checkpoint_dir_name": name}
    if result is not None:
        line["training_iteration"] = result.get("training_iteration")
    if checkpoint != storage.checkpoint(name):
        line["place"] = _place_of(checkpoint, storage)
    if type(checkpoint) is not Checkpoint:
        line["class"] = f"{type(checkpoint).__module__}:{type(checkpoint).__qualname__}"
    if any(positions):
        line["positions"] = positions
    return line


def recorded_checkpoints(storage: Storage, history: list[Line]) -> list[Kept]:
    """The checkpoints of a run that count and are still there, in order."""
    results = {
        row["checkpoint_dir_name"]: row for row in history if row.get("checkpoint_dir_name")
    }
    happened = _happened(history)
    lines: dict[str, Line] = {}
    for name, line in _named(storage.lines(CHECKPOINTS_FILE)):
        if _counts(line, happened):
            lines.pop(name, None)  # a name that is used again is that of the newest
            lines[name] = line
    for name in results:  # trials of tuning have no other books
        lines.setdefault(name, {})
    present = set(storage.names())
    given_back = set(_taken_over(storage, history, present))
    validations = dict(_named(storage.lines(VALIDATIONS_FILE)))
    found = []
    for name, line in lines.items():
        if name in given_back:
            line = {**line, "place": name + REPLACED}
        if "place" in line or name.partition("/")[0] in present:
            kept = _kept(storage, name, line, results.get(name, {}))
            _add_validation(kept, line, validations.get(name))
            found.append(kept)
    return [kept for kept in found if kept.checkpoint._place().exists()]


def take_back_unrecorded(storage: Storage, history: list[Line]) -> None:
    """Give names back that checkpoints had taken over which have not come to count."""
    for name in _taken_over(storage, history, set(storage.names())):
        storage.take_back(name)


def _taken_over(storage: Storage, history: list[Line], present: set[str]) -> list[str]:
    """Names of which the newest checkpoint does not count, and the one before is put aside."""
    aside = [name.removesuffix(REPLACED) for name in present if name.endswith(REPLACED)]
    lines = dict(_named(storage.lines(CHECKPOINTS_FILE))) if aside else {}
    happened = _happened(history)
    return [name for name in aside if name in lines and not _counts(lines[name], happened)]


def _happened(history: list[Line]) -> set[tuple[str, Any]]:
    return {(name, row.get("training_iteration")) for name, row in _named(history)}


def _counts(line: Line, happened: set[tuple[str, Any]]) -> bool:
    iteration = line.get("training_iteration")
    return iteration is None or (line["checkpoint_dir_name"], iteration) in happened


def _named(lines: list[Line]) -> list[tuple[str, Line]]:
    return [(line["checkpoint_dir_name"], line) for line in lines if "checkpoint_dir_name" in line]


def _kept(storage: Storage, name: str, line: Line, result: Line) -> Kept:
    place = line.get("place", name)
    elsewhere = "://" in place or place.startswith("/")
    checkpoint = Checkpoint(place) if elsewhere else storage.checkpoint(place)
    kind = _class_of(line.get("class"))
    return Kept(kind.from_checkpoint(checkpoint), dict(result), line.get("positions"))


def _add_validation(kept: Kept, line: Line, validation: Line | None) -> None:
    """What has come of validating it, unless that was a checkpoint that had the name before."""
    iteration = line.get("training_iteration")
    if validation is not None and validation.get("training_iteration") == iteration:
        kept.validation = validation
        kept.metrics.update(validation.get("metrics", {}))


def _place_of(checkpoint: Checkpoint, storage: Storage) -> str:
    """Relative, if it is in the run's folder, which may be moved."""
    inside = checkpoint.path.removeprefix(f"{storage.path}/")
    if checkpoint == storage.checkpoint(inside):
        return inside
    local = isinstance(checkpoint._folder, LocalFolder)
    return checkpoint.path if local else str(checkpoint.uri)


def _class_of(name: str | None) -> type[Checkpoint]:
    """The class of this name. One of somebody's program may not be there; it is not imported: the
    name comes from a file, which must not choose what code runs."""
    module, _, qualified = (name or "").partition(":")
    if module.startswith("skate.train."):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    kind: Any = sys.modules.get(module)
    for part in qualified.split("."):
        kind = getattr(kind, part, None)
    return kind if isinstance(kind, type) and issubclass(kind, Checkpoint) else Checkpoint
