"""The history of a run that begins again from a checkpoint: what came after that is taken back."""

from __future__ import annotations

from itertools import islice
from typing import Any

from skate._run.loggers.csv_file import PROGRESS_FILE, table_of
from skate._run.loggers.tensorboard import EVENTS, events_until, step_of
from skate._run.records import CHECKPOINTS_FILE, RESULT_FILE, VALIDATIONS_FILE
from skate._run.storage import Storage, readable_lines


def results_until(history: list[dict[str, Any]], checkpoint: str | None) -> list[dict[str, Any]]:
    """The results up to the last that came with the checkpoint of this name. All of them, if it
    came with none: it was saved after they were reported."""
    numbers = [i for i, row in enumerate(history) if row.get("checkpoint_dir_name") == checkpoint]
    return history[: numbers[-1] + 1] if checkpoint and numbers else history


def keep_results(storage: Storage, rows: list[dict[str, Any]]) -> None:
    """Let the files of loggers end with these, the first results of the run."""
    _keep_events(storage, step_of(rows[-1]) if rows else 0)
    if not rows:
        _delete(storage, RESULT_FILE, PROGRESS_FILE)
        return
    files = storage.local_folder
    data = files.read(RESULT_FILE)
    kept = b"".join(line for line, _ in islice(readable_lines(data), len(rows)))
    if kept != data:
        files.write(RESULT_FILE, kept)
    if files.exists(PROGRESS_FILE):
        files.write(PROGRESS_FILE, table_of(rows))
    storage.sync()


def _keep_events(storage: Storage, step: int) -> None:
    """Those files that loggers have here, and those of an earlier process, elsewhere."""
    for folder in (storage.local_folder, storage.folder):
        for name in folder.names():
            if name.startswith(EVENTS):
                data = folder.read(name)
                kept = events_until(data, step)
                if len(kept) < len(data):
                    folder.write(name, kept)


def begin_anew(storage: Storage) -> None:
    """There is nothing to go on from: the folder is that of a new run."""
    events = [name for name in storage.names() if name.startswith(EVENTS)]
    files = (RESULT_FILE, PROGRESS_FILE, CHECKPOINTS_FILE, VALIDATIONS_FILE)
    _delete(storage, *files, *events)


def _delete(storage: Storage, *names: str) -> None:
    staged = storage.local_folder
    for name in names:
        storage.delete(name)
        staged.delete(name)
