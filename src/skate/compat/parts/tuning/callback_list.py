"""`ray.tune.callback.CallbackList`: several callbacks as one, whose states can be kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from skate._run.callbacks import Callback
from skate._run.callbacks import CallbackList as _Callbacks
from skate._run.pickles import signed_pickle, unpickle


class CallbackList(_Callbacks):
    """Calls the same hook of each callback, in order: `callbacks.on_trial_result(…)`."""

    CKPT_FILE_TMPL = "callback-states-{}.pkl"

    def __init__(self, callbacks: Iterable[Callback]) -> None:
        super().__init__(callbacks)
        self._callbacks = self.callbacks

    def __getattr__(self, name: str) -> Any:
        if not hasattr(Callback, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return partial(self.call, name)

    def get_state(self) -> dict[int, Any] | None:
        """Return the states of all callbacks, by their places; None if nobody has one."""
        states = {place: callback.get_state() for place, callback in enumerate(self.callbacks)}
        return states if any(states.values()) else None

    def set_state(self, state: Mapping[int, Any]) -> None:
        """Give each callback its own of what `get_state` has returned."""
        for place, callback in enumerate(self.callbacks):
            if state.get(place):
                callback.set_state(state[place])

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Write the states, if there are any, to a file there."""
        if states := self.get_state():
            place = Path(checkpoint_dir, self.CKPT_FILE_TMPL.format(session_str))
            place.write_bytes(signed_pickle(states))

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Take up the states that were written there last."""
        files = self._files(checkpoint_dir)
        if not files:
            raise RuntimeError(f"there are no states of callbacks in {checkpoint_dir!r}")
        self.set_state(unpickle(files[-1].read_bytes(), str(files[-1])))

    def can_restore(self, checkpoint_dir: str) -> bool:
        """Return whether states were written there."""
        return bool(self._files(checkpoint_dir))

    def _files(self, folder: str) -> list[Path]:
        found = Path(folder).glob(self.CKPT_FILE_TMPL.format("*"))
        return sorted(found, key=lambda file: file.stat().st_mtime)
