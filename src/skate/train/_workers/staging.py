"""Checkpoints that are written while the loop goes on: `CheckpointUploadMode.ASYNC`.

A worker stages what it reports: a dict goes into shared memory, which is one copy of it; a folder
is renamed, or linked if the loop keeps it. A task of the driver writes it into the draft. What was
reported is recorded when that is done, and all that is reported meanwhile after it, in order: so a
checkpoint that counts is whole, and the history never runs ahead of it.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import skate
from skate._run.checkpoint import Checkpoint
from skate._run.folders import LocalFolder, copy_tree, scratch_dir
from skate._run.links import check_foreign_links
from skate._run.own_files import signatures_of_models
from skate._run.reporting import Report
from skate._run.signing_key import adopt_signing_key, signing_key
from skate._run.storage import Storage, write_into
from skate._run.types import ResultRow
from skate.exceptions import TaskError
from skate.train._workers.events import Event

MOST_UNDER_WAY = 2  # writes; the next report waits for the first of them


@dataclass
class StagedCheckpoint:
    """A checkpoint on its way.

    Attributes:
        data: A reference to the dict in shared memory, if it is one.
        folder: Where its files are, if it is a folder; deleted when they are written.
        signatures: Files beside models that the loop has written itself.
    """

    data: Any = None
    folder: str | None = None
    signatures: dict[str, bytes] = field(default_factory=dict)


def stage(report: Report, began: float) -> StagedCheckpoint | None:
    """Have a copy of what is reported, or the only one, as quickly as can be.

    Args:
        report: The report, with a checkpoint.
        began: When the session began: models written since then are its own.

    Returns:
        None for what is elsewhere, and is copied at once.
    """
    checkpoint = report.checkpoint
    assert checkpoint is not None
    if checkpoint._folder is None:
        return StagedCheckpoint(data=skate.put(checkpoint._data))
    if not isinstance(checkpoint._folder, LocalFolder) or not os.path.isdir(checkpoint.path):
        return None
    check_foreign_links(checkpoint.path)
    signatures = signatures_of_models(checkpoint.path, began)
    folder = _taken_over(checkpoint.path, report.delete_local)
    return StagedCheckpoint(folder=folder, signatures=signatures)


def _taken_over(path: str, whole: bool) -> str:
    """Have a folder's files where they end with the session, or beside it if that is on another
    disk."""
    name = f"{os.path.basename(path)}.{os.urandom(4).hex()}.staged"
    for place in (scratch_dir() or os.path.dirname(path), os.path.dirname(path)):
        folder = os.path.join(place, name)
        try:
            if whole:
                os.rename(path, folder)
            else:
                shutil.copytree(path, folder, copy_function=os.link)
            return folder
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
    copy_tree(path, folder)
    return folder


def write_staged(
    data: dict[str, object] | None,
    staged: StagedCheckpoint,
    storage: Storage,
    name: str,
    key: bytes,
) -> None:
    """Write what was staged into the draft of this name, in a task."""
    adopt_signing_key(key)
    draft = storage.draft(name)
    if data is not None:
        write_into(draft, Checkpoint.from_dict(data))
        return
    assert staged.folder is not None
    write_into(draft, Checkpoint(staged.folder))
    for file, signature in staged.signatures.items():
        draft.write(file, signature)
    shutil.rmtree(staged.folder, ignore_errors=True)


@dataclass
class PendingReport:
    """What all workers have reported, and the writes that it waits for."""

    events: Sequence[Event]
    result: ResultRow | None
    writes: list[Any] = field(default_factory=list)


class ReportQueue:
    """Reports in order, of which some wait for their checkpoints to be written."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._waiting: deque[PendingReport] = deque()

    def add(self, events: Sequence[Event], result: ResultRow | None) -> None:
        """Have the checkpoint that all workers have staged written."""
        staged = [event for event in events if event.staged is not None]
        writes = [self._write(event) for event in staged]
        self._waiting.append(PendingReport(events, result, writes))

    def last_name(self) -> str | None:
        """Return the checkpoint of the last report that waits and has one."""
        names = (event.checkpoint_name for one in reversed(self._waiting) for event in one.events)
        return next((name for name in names if name), None)

    def _write(self, event: Event) -> object:
        write: Any = skate.remote(num_cpus=0, max_retries=-1)(write_staged)
        staged = event.staged
        key = signing_key()
        return write.remote(staged.data, staged, self._storage, event.checkpoint_name, key)

    def ready(self, wait: bool = False) -> Iterator[PendingReport]:
        """Take out those whose checkpoints are written, up to the first whose is not.

        Args:
            wait: Whether to wait for all; else only if too many are under way.

        Raises:
            Exception: What a write has failed with; the report is dropped, and those after it.
        """
        while self._waiting:
            under_way = sum(bool(report.writes) for report in self._waiting)
            writes = self._waiting[0].writes
            if writes and not wait and under_way <= MOST_UNDER_WAY:
                done, _ = skate.wait(writes, num_returns=len(writes), timeout=0)
                if len(done) < len(writes):
                    return
            if writes:  # a loop in this process has none, and no session
                self._finish(writes)
            yield self._waiting.popleft()

    def _finish(self, writes: list[Any]) -> None:
        try:
            skate.get(writes)
        except TaskError as error:
            self._waiting.clear()
            raise error.cause from error
