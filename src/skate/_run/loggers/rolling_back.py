"""The files of loggers, when a run goes on from a checkpoint: they end with its result."""

from __future__ import annotations

from skate._run.loggers.csv_file import PROGRESS_FILE, table_of
from skate._run.loggers.tensorboard import EVENTS, events_until, step_of
from skate._run.storage import Storage
from skate._run.types import ResultRow


def keep_logged(storage: Storage, rows: list[ResultRow]) -> None:
    """Take all results but these, the first ones, out of the table and the event files.

    Args:
        storage: The folder of a run or a trial.
        rows: The results that stay.
    """
    _keep_events(storage, step_of(rows[-1]) if rows else 0)
    files = storage.local_folder
    if not rows:
        storage.delete(PROGRESS_FILE)
        files.delete(PROGRESS_FILE)
    elif files.exists(PROGRESS_FILE):
        files.write(PROGRESS_FILE, table_of(rows))


def _keep_events(storage: Storage, step: int) -> None:
    """Cut events after this step from the files here, and those of an earlier process
    elsewhere."""
    for folder in (storage.local_folder, storage.folder):
        for name in folder.names():
            if name.startswith(EVENTS):
                data = folder.read(name)
                kept = events_until(data, step)
                if len(kept) < len(data):
                    folder.write(name, kept)


def delete_logged(storage: Storage) -> None:
    """Delete the table and the event files.

    Args:
        storage: The folder of a run that begins anew.
    """
    for folder in (storage.local_folder, storage.folder):
        for name in folder.names():
            if name == PROGRESS_FILE or name.startswith(EVENTS):
                folder.delete(name)
