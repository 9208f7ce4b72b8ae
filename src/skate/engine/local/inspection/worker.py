"""What a worker answers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from skate._core.live_rows import all_live_rows, live_rows
from skate.engine.local.inspection.inspection import Inspection, stacks_of

if TYPE_CHECKING:
    from skate.engine.local.inspection.questions import Answers
    from skate.engine.local.worker import WorkerEngine


def of_worker(engine: WorkerEngine) -> Inspection:
    """Let others look into a worker."""
    answers: Answers = {
        "list": live_rows,
        "runs": lambda: _runs(engine),
        "stacks": lambda: _stacks_of(engine),
        "under_way": all_live_rows,
    }
    return Inspection(engine, engine.settings["home"], answers)


def _stacks_of(engine: WorkerEngine) -> dict[str, object]:
    return stacks_of(engine, "worker", _runs(engine))


def _runs(engine: WorkerEngine) -> list[dict[str, object]]:
    """Return what runs on the main thread, and for how long."""
    running = engine.execution.on_main_thread()
    if running is None:
        return []
    name, id, began = running
    seconds = time.perf_counter() - began
    return [{"name": name, "task_id": id.to_bytes(24, "big").hex(), "seconds": seconds}]
