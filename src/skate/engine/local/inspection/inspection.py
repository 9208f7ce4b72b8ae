"""The part of a process by which others look into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate.engine.local.call_sites import CallSites
from skate.engine.local.inspection.dumps import StackDump
from skate.engine.local.inspection.questions import Answers, QuestionSocket
from skate.engine.local.inspection.stacks import own_stacks

if TYPE_CHECKING:
    from skate.engine.local.engine import LocalEngine
    from skate.engine.local.objects import ObjectTable
    from skate.engine.local.worker import WorkerEngine

Row = dict[str, Any]

_LOCK_SECONDS = 0.2


class Inspection:
    """Answers questions, and writes down stacks where that is not possible.

    Args:
        engine: Of the driver or of a worker.
        home: The session's folder in shared memory.
        answers: What is answered, beside what all processes answer.
    """

    def __init__(self, engine: LocalEngine | WorkerEngine, home: str, answers: Answers) -> None:
        sites = CallSites(engine)
        self._dump = StackDump(home)
        try:
            common = {"sites": sites.known}
            self._socket = QuestionSocket(engine.reactor, home, {**common, **answers})
        except BaseException:
            self._dump.close()
            raise

    def close(self) -> None:
        """End it, before the reactor."""
        self._socket.close()
        self._dump.close()

    def detach_in_child(self) -> None:
        """Detach in a forked child."""
        self._socket.detach_in_child()
        self._dump.close()


def stacks_of(engine: ObjectTable, role: str, runs: list[Row]) -> Row:
    """Return what a process does now: the answer to "stacks"."""
    return {"role": role, "runs": runs, "waits_for": _waited(engine), **own_stacks()}


def _waited(engine: ObjectTable) -> list[str]:
    """Return the ids of the objects that this process waits for."""
    if not engine.lock.acquire(timeout=_LOCK_SECONDS):
        return []  # whoever has it is in one of the stacks
    try:
        entries = dict.fromkeys(engine.wanted())
        return [f"{entry.id:056x}" for entry in entries if entry.kind is None]
    finally:
        engine.lock.release()
