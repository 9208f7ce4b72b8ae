"""Which line of a program has made an object: noted if SKATE_CALL_SITES=1; for `skate memory`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.engine.local.engine import LocalEngine
    from skate.engine.local.objects import ObjectEntry
    from skate.engine.local.worker import WorkerEngine

VARIABLE = "SKATE_CALL_SITES"

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_SPARE = 1000  # how many of objects that are gone may be kept


class CallSites:
    """Notes, for each object that this process makes, where the program did so."""

    def __init__(self, engine: LocalEngine | WorkerEngine) -> None:
        self._sites: dict[int, str] = {}
        self._entries = engine.entries
        if os.environ.get(VARIABLE) == "1":
            # In the place of the method, so that it costs nothing where nobody wants to know.
            self._own = engine._own
            engine._own = self._own_and_note  # type: ignore[method-assign]

    def _own_and_note(self, entry: ObjectEntry) -> None:
        self._own(entry)
        self._sites[entry.id] = _site()
        if len(self._sites) > 2 * len(self._entries) + _SPARE:
            for id in [id for id in self._sites if id not in self._entries]:
                del self._sites[id]

    def known(self) -> dict[str, str]:
        """Return the places, by the ids of the objects."""
        return {f"{id:056x}": site for id, site in list(self._sites.items())}


def _site() -> str:
    """Return the line of the innermost function that is not ours."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
