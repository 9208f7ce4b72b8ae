"""States of searchers and schedulers in files: whole or not there, the newest of several."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from skate._core.nearest import SpelledOut
from skate._run.folders import LocalFolder
from skate._run.pickles import signed_pickle, unpickle

State = dict[str, Any]  # attributes of a searcher or scheduler, by name


class SavesState(SpelledOut):
    """The part of a searcher or scheduler that writes its state to a file, and reads it."""

    def _state_to_save(self) -> State:
        return self.__dict__

    def _take_saved_state(self, state: State) -> None:
        self.__dict__.update(state)

    def save(self, checkpoint_path: str) -> None:
        """Write the state to a file.

        Args:
            checkpoint_path: The file, which is replaced as a whole.
        """
        write_atomically(checkpoint_path, signed_pickle(self._state_to_save()))

    def restore(self, checkpoint_path: str, *, allow_pickle: bool = False) -> None:
        """Go on from a file that `save` wrote.

        Args:
            checkpoint_path: The file.
            allow_pickle: Whether it may be one that was not written by this user on this machine,
                which runs whatever code it contains.

        Raises:
            UntrustedPickleError: If it was written elsewhere, and that is not allowed.
        """
        data = Path(checkpoint_path).read_bytes()
        self._take_saved_state(unpickle(data, checkpoint_path, allow_pickle))


def write_atomically(path: str, content: bytes) -> None:
    """Replace a file in one step."""
    folder, name = os.path.split(path)
    LocalFolder(folder or ".").write(name, content)


def newest(folder: str, pattern: str) -> Path | None:
    """Find the file that was written last, among those of a pattern."""
    found = sorted(Path(folder).glob(pattern), key=lambda path: (path.stat().st_mtime, path.name))
    return found[-1] if found else None
