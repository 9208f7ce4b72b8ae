"""What counts in the folder of a run or a trial, and the order in which it is written.

    result.json        one line per result. It is the commit: with the line a result has happened,
                       and the checkpoint that it names counts
    checkpoints.json   one line per checkpoint of a training run, written before the checkpoint
                       gets its name: that name, its place if that is elsewhere, its class, how
                       far the datasets were read
    validations.json   one line per checkpoint that is to be validated, and one when it has been

A checkpoint comes to count in four steps, and a kill between any two of them ends well:

    1. its files are in a draft        killed: the draft is deleted
    2. its line in checkpoints.json    killed: a line without a result counts for nothing
    3. the draft gets its name; what   killed: the name is given back to the one that had it
       had that name is put aside
    4. the line of its result          killed: it counts; what was put aside is deleted

A checkpoint that was saved without a result counts with its line. A trial of a search has no
checkpoints.json: the lines of its search (`experiment_state.jsonl`) are written after step 4.

Only one program at a time may write: see `claimed`. Loggers write for people; nothing is read back
from them.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from skate._core.folder_locks import locked_folder
from skate._run.append_buffer import AppendBuffer
from skate._run.checkpoint import Checkpoint
from skate._run.checkpoint_manager import RecordedCheckpoint, number_of
from skate._run.folders import LocalFolder
from skate._run.storage import REPLACED, Storage, drop_cut_line, readable_lines
from skate._run.types import MetricsLike, Positions
from skate._run.values import to_json

RESULT_FILE = "result.json"
CHECKPOINTS_FILE = "checkpoints.json"
VALIDATIONS_FILE = "validations.json"

Line = dict[str, Any]


@dataclass
class NewCheckpoint:
    """A checkpoint that all workers have written, and that does not count yet.

    Attributes:
        name: What it is called in the run's folder.
        checkpoint: The checkpoint at the place that it will have.
        put_into_place: Gives the draft that name; does nothing for one that is elsewhere.
        positions: How many rows of each dataset each rank has read, by rank.
    """

    name: str
    checkpoint: Checkpoint
    put_into_place: Callable[[], None]
    positions: list[Positions] = field(default_factory=list)


class Ledger:
    """The results and checkpoints of one run or trial.

    Args:
        storage: Its folder.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._buffer = AppendBuffer()
        self._place: str | None = None
        self._is_empty = False

    @property
    def is_open(self) -> bool:
        """Whether results are written here."""
        return self._place is not None

    # -- reading ---------------------------------------------------------------------------------

    def is_new(self) -> bool:
        """Return whether it is known that there is no folder yet: `open` need not look into it."""
        self._is_empty = self._storage.is_local and not self._storage.exists()
        return self._is_empty

    def results(self) -> list[Line]:
        """Return all results that have happened, in order."""
        self._buffer.flush_file(self._place)
        return self._storage.lines(RESULT_FILE)

    def checkpoints(self, history: list[Line] | None = None) -> list[RecordedCheckpoint]:
        """Return the checkpoints that count and are still there, in order.

        Args:
            history: What `results` has returned, if that is known.
        """
        history = self.results() if history is None else history
        results = dict(_named(history))
        happened = _happened(history)
        lines: dict[str, Line] = {}
        for name, line in _named(self._storage.lines(CHECKPOINTS_FILE)):
            if _counts(line, happened):
                lines.pop(name, None)  # a name that is used again is that of the newest
                lines[name] = line
        for name in results:  # those of trials have no other line in this folder
            lines.setdefault(name, {})
        present = set(self._storage.names())
        given_back = set(self._taken_over(history, present))
        validations = dict(_named(self._storage.lines(VALIDATIONS_FILE)))
        found = []
        for name, line in lines.items():
            if name in given_back:
                line = {**line, "place": name + REPLACED}
            if "place" in line or name.partition("/")[0] in present:
                recorded = self._recorded(name, line, results.get(name, {}))
                _add_validation(recorded, line, validations.get(name))
                found.append(recorded)
        return [recorded for recorded in found if recorded.checkpoint._place().exists()]

    def knows(self, name: str) -> bool:
        """Return whether a checkpoint of this name has been recorded."""
        return any(known == name for known, _ in _named(self._storage.lines(CHECKPOINTS_FILE)))

    def next_number(self, history: list[Line]) -> int:
        """Return a number above all that are in names of checkpoints, also of deleted ones."""
        names = [name for name, _ in _named(history)]
        saved = _named(self._storage.lines(CHECKPOINTS_FILE))
        names += [name for name, line in saved if "training_iteration" not in line]
        numbers = [number for name in names if (number := number_of(name)) is not None]
        return max(numbers, default=-1) + 1

    # -- writing ---------------------------------------------------------------------------------

    def open(self, buffer: AppendBuffer | None = None, path: str | None = None) -> None:
        """Write results here from now on, after what is there; what a crash left of a last line
        is dropped.

        Args:
            buffer: Collects lines until they are flushed; by default each is written at once.
            path: The storage's `local_path`, if that is known.
        """
        if self._place is None:
            self._buffer = buffer or AppendBuffer()
            self._place = os.path.join(path or self._storage.local_path, RESULT_FILE)
            if not self._is_empty:
                drop_cut_line(self._place)
            self._is_empty = False

    def close(self) -> None:
        """Write what waits; nothing more will come for now."""
        self.settle()
        self._place = None

    def record(self, result: Line | None, new: NewCheckpoint | None = None) -> Line | None:
        """Write a result, a checkpoint, or both together: steps 2 to 4.

        Args:
            result: The result; `None` if a checkpoint is saved alone.
            new: The checkpoint, if there is one.

        Returns:
            The line of the checkpoint in checkpoints.json.
        """
        line = None
        if new is not None:
            line = self._line_of(new, result)
            self._storage.append(CHECKPOINTS_FILE, line)
            new.put_into_place()
        if result is not None:
            self.add_result(result)
            self.settle()
        if new is not None:
            self._storage.forget_replaced(new.name)
        return line

    def add_result(self, result: MetricsLike) -> None:
        """Write the line of a result, or have it wait for `settle`; not if this is not open."""
        if self._place is not None:
            self._buffer.add(self._place, f"{to_json(result)}\n".encode())

    def settle(self) -> None:
        """Return when all results are in the file, and on the disk if they have to be."""
        self._buffer.flush_file(self._place)
        self._storage.settle(RESULT_FILE)

    def add_validation(self, line: Line) -> None:
        """Write that a checkpoint is to be validated, or what has come of it."""
        self._storage.append(VALIDATIONS_FILE, line)

    # -- going back ------------------------------------------------------------------------------

    def delete_unfinished(self, history: list[Line]) -> None:
        """Delete drafts, and give names back that checkpoints had taken over which have not come
        to count: what processes that died have left.

        Args:
            history: What `results` has returned.
        """
        for name in self._taken_over(history, set(self._storage.names())):
            self._storage.take_back(name)
        self._storage.tidy_after_crash()

    def keep_results(self, rows: list[Line]) -> None:
        """Take back all results but these, the first ones."""
        self._buffer.flush_file(self._place)
        if not rows:
            self._delete(RESULT_FILE)
            return
        files = self._storage.local_folder
        data = files.read(RESULT_FILE)
        kept = b"".join(line for line, _ in islice(readable_lines(data), len(rows)))
        if kept != data:
            files.write(RESULT_FILE, kept)
        self._storage.sync()

    def begin_anew(self) -> None:
        """Forget everything: the folder is that of a new run."""
        self._delete(RESULT_FILE, CHECKPOINTS_FILE, VALIDATIONS_FILE)

    def _delete(self, *names: str) -> None:
        for name in names:
            self._storage.delete(name)
            self._storage.local_folder.delete(name)

    # -- lines -----------------------------------------------------------------------------------

    def _line_of(self, new: NewCheckpoint, result: Line | None) -> Line:
        line: Line = {"checkpoint_dir_name": new.name}
        if result is not None:
            line["training_iteration"] = result.get("training_iteration")
        kind = type(new.checkpoint)
        if new.checkpoint != self._storage.checkpoint(new.name):
            line["place"] = self._place_of(new.checkpoint)
        if kind is not Checkpoint:
            line["class"] = f"{kind.__module__}:{kind.__qualname__}"
        if any(new.positions):
            line["positions"] = new.positions
        return line

    def _place_of(self, checkpoint: Checkpoint) -> str:
        """Return a relative place, if it is in the run's folder, which may be moved."""
        inside = checkpoint.path.removeprefix(f"{self._storage.path}/")
        if checkpoint == self._storage.checkpoint(inside):
            return inside
        local = isinstance(checkpoint._folder, LocalFolder)
        return checkpoint.path if local else str(checkpoint.uri)

    def _recorded(self, name: str, line: Line, result: Line) -> RecordedCheckpoint:
        place = line.get("place", name)
        elsewhere = "://" in place or place.startswith("/")
        checkpoint = Checkpoint(place) if elsewhere else self._storage.checkpoint(place)
        typed = _class_of(line.get("class")).from_checkpoint(checkpoint)
        return RecordedCheckpoint(typed, dict(result), line.get("positions"))

    def _taken_over(self, history: list[Line], present: set[str]) -> list[str]:
        """Return names whose newest checkpoint does not count, and the one before is put aside."""
        aside = [name.removesuffix(REPLACED) for name in present if name.endswith(REPLACED)]
        lines = dict(_named(self._storage.lines(CHECKPOINTS_FILE))) if aside else {}
        happened = _happened(history)
        return [name for name in aside if name in lines and not _counts(lines[name], happened)]


def results_until(history: list[Line], checkpoint: str | None) -> list[Line]:
    """Return the results up to the last that came with the checkpoint of this name; all of them,
    if it came with none: it was saved after they were reported."""
    numbers = [i for i, row in enumerate(history) if row.get("checkpoint_dir_name") == checkpoint]
    return history[: numbers[-1] + 1] if checkpoint and numbers else history


def _happened(history: list[Line]) -> set[tuple[str, Any]]:
    return {(name, _iteration_in(row)) for name, row in _named(history)}


def _counts(line: Line, happened: set[tuple[str, object]]) -> bool:
    iteration = _iteration_in(line)
    return iteration is None or (line["checkpoint_dir_name"], iteration) in happened


def _iteration_in(line: Line) -> float | None:
    """Return the number of a line, which is somebody's file, and may have anything there."""
    found = line.get("training_iteration")
    return found if isinstance(found, (int, float)) else None


def _named(lines: list[Line]) -> list[tuple[str, Line]]:
    named = ((line.get("checkpoint_dir_name"), line) for line in lines)
    return [(name, line) for name, line in named if isinstance(name, str) and name]


def _add_validation(recorded: RecordedCheckpoint, line: Line, validation: Line | None) -> None:
    """Add what has come of validating it, unless that was one that had the name before."""
    iteration = line.get("training_iteration")
    if validation is not None and validation.get("training_iteration") == iteration:
        recorded.validation = validation
        recorded.metrics.update(validation.get("metrics", {}))


def _class_of(name: str | None) -> type[Checkpoint]:
    """Return the class of this name. One of somebody's program may not be there; it is not
    imported: the name comes from a file, which must not choose what code runs."""
    module, _, qualified = (name or "").partition(":")
    if module.startswith("skate.train."):
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    kind: Any = sys.modules.get(module)
    for part in qualified.split("."):
        kind = getattr(kind, part, None)
    return kind if isinstance(kind, type) and issubclass(kind, Checkpoint) else Checkpoint


# -- one writer at a time -------------------------------------------------------------------------


class RunFolderInUseError(RuntimeError):
    """Another run, of this program or of another, has the folder."""


@contextlib.contextmanager
def claimed(storage: Storage) -> Iterator[None]:
    """Have a folder for oneself: two programs would delete each other's drafts, cut each other's
    history, and give their checkpoints the same names.

    Folders that are elsewhere, and file systems without locks, have none.

    Raises:
        RunFolderInUseError: If a run that has not ended has it.
    """
    if not storage.is_local:
        yield
        return
    with contextlib.ExitStack() as lock:
        try:
            lock.enter_context(locked_folder(storage.local_path))
        except BlockingIOError:
            raise RunFolderInUseError(
                f"a run that has not ended writes to {storage.path!r}. Wait for it, end it, or "
                "give this one another RunConfig(name=…) or storage_path"
            ) from None
        yield
