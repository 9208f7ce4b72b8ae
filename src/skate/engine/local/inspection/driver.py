"""What the driver of a session answers."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from skate._core.live_rows import all_live_rows, live_rows
from skate.engine.local.hub import news, overview
from skate.engine.local.inspection.inspection import Inspection, stacks_of

if TYPE_CHECKING:
    from skate.engine.local.engine import LocalEngine
    from skate.engine.local.inspection.questions import Answers

Row = dict[str, Any]

_OF_THE_HUB = (
    "actors",
    "live_workers",
    "nodes",
    "objects",
    "placement_groups",
    "runtime_envs",
    "tasks",
    "workers",
)


def of_driver(engine: LocalEngine) -> Inspection:
    """Let others look into a session."""
    return Inspection(engine, engine.session.home, _DriverAnswers(engine).all())


class _DriverAnswers:
    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine
        self._started = time.time()

    def all(self) -> Answers:
        return {
            "list": self._list,
            "logs": self._engine.output.recent.since,
            "memory": self._memory,
            "news": self._news,
            "stacks": self._stacks,
            "status": self._status,
            "timeline": self._timeline,
            "under_way": all_live_rows,
            "wait_graph": self._engine.wait_graph,
            "waits": self._waits,
        }

    def _status(self) -> Row:
        engine = self._engine
        with engine.lock:
            answers = engine.hub.requests.answers
            return {
                "pid": os.getpid(),
                "session": engine.session.name,
                "program": list(sys.orig_argv),
                "folder": engine.session.dir,
                "namespace": engine.info.namespace,
                "started": self._started,
                "resources": answers["cluster_resources"](),
                "available": answers["available_resources"](),
                **overview.summary(engine.info, engine.hub.state),
            }

    def _list(self, kind: str) -> list[Row]:
        if kind not in _OF_THE_HUB:
            return live_rows(kind)
        with self._engine.lock:
            requests = self._engine.hub.requests
            if kind == "nodes":
                return list(requests.answers["nodes"]())
            if kind == "placement_groups":
                return list(requests.answers["group_table"]().values())
            return requests.rows(kind)

    def _news(self, ended: int, failed: int, gone: int, printed: int) -> Row:
        engine = self._engine
        with engine.lock:
            found = news.gathered(engine.info, engine.hub, ended, failed, gone)
            store = engine.spilling.bytes_in_memory
        return {
            **news.told(found),
            "time": time.time(),
            "started": self._started,
            "program": list(sys.orig_argv),
            "spill_folder": engine.session.disk_dir,
            "store_bytes": store,
            "logs": engine.output.recent.since(printed),
        }

    def _memory(self) -> list[Row]:
        with self._engine.lock:
            return overview.memory(self._engine.hub.state)

    def _timeline(self) -> list[Row]:
        with self._engine.lock:
            return list(self._engine.hub.requests.answers["timeline"]())

    def _stacks(self) -> Row:
        return stacks_of(self._engine, "driver", [])

    def _waits(self, ids: list[str]) -> list[Row]:
        with self._engine.lock:
            return overview.awaited(self._engine.hub.state, [int(id, 16) for id in ids])
