"""Which line of a program has made an object: noted if SKATE_CALL_SITES=1; for `skate memory`, and
the objects of `skate.util.state`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.engine.local.engine import LocalEngine
    from skate.engine.local.objects import ObjectEntry
    from skate.engine.local.worker import WorkerEngine

_VARIABLES = ("SKATE_CALL_SITES", "RAY_record_ref_creation_sites")  # the second is Ray's

Sites = dict[str, tuple[str, str]]

# By the methods of engines; the words are Ray's.
_CALLS = {
    "put": "(put object)",
    "submit": "(task call)",
    "create_actor": "(actor call)",
    "call_actor": "(actor call)",
}
_UNKNOWN = ("(unknown call)",)

_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_SPARE = 1000  # how many of objects that are gone may be kept


def are_noted() -> bool:
    """Return whether the lines are noted, in all processes of the session."""
    return any(os.environ.get(name, "").lower() in ("1", "true") for name in _VARIABLES)


def with_lines(rows: list[dict[str, Any]], sites: Sites) -> list[dict[str, Any]]:
    """Return the rows of objects with how and where these were made, by their ids."""
    return [{**row, "call_site": " ".join(sites.get(row["object_id"], _UNKNOWN))} for row in rows]


class CallSites:
    """Notes, for each object that this process makes, where the program did so."""

    def __init__(self, engine: LocalEngine | WorkerEngine) -> None:
        self._sites: dict[int, tuple[str, str]] = {}
        self._entries = engine.entries
        if are_noted():
            # In the place of the method, so that it costs nothing where nobody wants to know.
            self._own = engine._own
            engine._own = self._own_and_note  # type: ignore[method-assign]

    def _own_and_note(self, entry: ObjectEntry) -> None:
        self._own(entry)
        self._sites[entry.id] = _site()
        if len(self._sites) > 2 * len(self._entries) + _SPARE:
            for id in [id for id in self._sites if id not in self._entries]:
                del self._sites[id]

    def known(self) -> Sites:
        """Return how and where they were made, by the ids of the objects."""
        return {f"{id:056x}": site for id, site in list(self._sites.items())}


def _site() -> tuple[str, str]:
    """Return the kind of call, and the line of the innermost function that is not ours."""
    frame, call = sys._getframe(2), ""
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        call = call or _CALLS.get(frame.f_code.co_name, "")
        frame = frame.f_back
    code = frame.f_code
    return call or _UNKNOWN[0], f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
