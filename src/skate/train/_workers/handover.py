"""A reported checkpoint on its way into the run's folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

from skate._run.checkpoint import Checkpoint
from skate._run.checkpoint_manager import CHECKPOINT_NAME
from skate._run.folders import LocalFolder
from skate._run.reporting import CheckpointUploadMode, Report
from skate._run.storage import Storage, write_into
from skate.exceptions import library_name
from skate.train._workers.events import REPORTED, Event

Staging = Callable[[Report, float], Any] | None


def hand_over(
    report: Report, number: int, storage: Storage, rank: int, began: float, staging: Staging = None
) -> Event:
    """Write this rank's part of what is reported, or have it staged if it may be written later.
    Folders of all ranks are put together; a dict is the same on all ranks, so that those of others
    than rank 0 are held back until it is clear that nobody else has one. Models that were written
    since the session `began` are signed."""
    event = Event(REPORTED, report.metrics)
    if report.checkpoint is None:
        return event
    name = report.directory_name or CHECKPOINT_NAME.format(number)
    event.checkpoint_name = name
    event.validation = report.validation
    event.at_once = report.upload_mode is not CheckpointUploadMode.ASYNC
    if report.upload_mode is CheckpointUploadMode.NO_UPLOAD:
        event.checkpoint = report.checkpoint
    elif report.upload_fn is not None:
        event.checkpoint = _uploaded(report.upload_fn(report.checkpoint, name))
    else:
        event.checkpoint_class = type(report.checkpoint)
        event.held = rank > 0 and report.checkpoint._folder is None
        if report.upload_mode is CheckpointUploadMode.ASYNC and staging and not event.held:
            event.staged = staging(report, began)
        if not event.held and event.staged is None:
            write_into(storage.draft(name), report.checkpoint, written_since=began)
    return event


def _uploaded(returned: object) -> Checkpoint:
    if not isinstance(returned, Checkpoint):
        raise TypeError(
            f"checkpoint_upload_fn must return a `{library_name()}.train.Checkpoint`, of the "
            f"place it has uploaded to; got {returned!r}"
        )
    return returned


def discard_original(report: Report, kept: Checkpoint | None) -> None:
    """Delete the folder that a recorded checkpoint was copied from, if that was asked for."""
    original = report.checkpoint
    if not report.delete_local or original is None or original == kept:
        return
    copied = report.upload_mode is not CheckpointUploadMode.NO_UPLOAD
    if copied and isinstance(original._folder, LocalFolder):
        shutil.rmtree(original.path, ignore_errors=True)
