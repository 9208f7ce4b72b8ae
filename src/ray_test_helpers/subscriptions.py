"""What Ray publishes, and its tests subscribe to: errors of tasks, and what workers print."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

import skate
from skate.engine import current_engine
from skate.util.state import StateRow

_PAUSE_SECONDS = 0.05

# What a task failed by, in the words of what is published.
_KINDS = {"TASK_EXECUTION_EXCEPTION": "task", "WORKER_DIED": "worker_died", "ACTOR_DIED": "task"}


class _Subscription(ABC):
    """What has happened since it was made, one after the other."""

    def __init__(self) -> None:
        self._waiting: deque[dict[str, Any]] = deque()

    def close(self) -> None:  # noqa: B027 - as Ray's has it
        """Do nothing: nothing is held that would have to be given back."""

    @abstractmethod
    def news(self) -> list[dict[str, Any]]:
        """Return what has happened since the last time."""

    def next_one(self, end: float) -> dict[str, Any] | None:
        """Return the next one, waited for until `end` (of `time.monotonic`)."""
        while not self._waiting:
            late = time.monotonic() > end
            self._waiting.extend(self.news())
            if late and not self._waiting:
                return None
            if not self._waiting:
                time.sleep(_PAUSE_SECONDS)
        return self._waiting.popleft()

    def first(
        self, num: float, timeout: float, fits: Callable[[dict[str, Any]], bool]
    ) -> list[dict[str, Any]]:
        """Return at most `num` that fit and come within `timeout` seconds."""
        end = time.monotonic() + timeout
        found: list[dict[str, Any]] = []
        while len(found) < num and (each := self.next_one(end)) is not None:
            if fits(each):
                found.append(each)
        return found


class ErrorSubscription(_Subscription):
    """Tasks, calls of actors and actors that failed."""

    def __init__(self) -> None:
        super().__init__()
        self._known = {row["task_id"] for row in self._failed()}

    def news(self) -> list[dict[str, Any]]:
        rows = [row for row in self._failed() if row["task_id"] not in self._known]
        self._known.update(row["task_id"] for row in rows)
        return [_published(row) for row in rows]

    @staticmethod
    def _failed() -> list[dict[str, Any]]:
        rows = current_engine().state("tasks")
        return [row for row in reversed(rows) if row["state"] == "FAILED"]


class LogSubscription(_Subscription):
    """Lines that workers print, in pieces as they arrive."""

    def __init__(self) -> None:
        super().__init__()
        self._number = 0
        self._recent: Any = current_engine().output.recent  # type: ignore[attr-defined]
        self.news()

    def news(self) -> list[dict[str, Any]]:
        pieces = self._recent.since(self._number)
        if pieces:
            self._number = pieces[-1]["number"]
        return [_batch(piece) for piece in pieces]


def _published(row: dict[str, Any]) -> dict[str, Any]:
    told = {
        "job_id": row["job_id"],
        "type": _KINDS.get(row["error_type"], "task"),
        "error_message": row["error_message"],
        "timestamp": (row["end_time_ms"] or 0) / 1000,
    }
    return StateRow(told)


def _batch(piece: dict[str, Any]) -> dict[str, Any]:
    context = skate.get_runtime_context()
    return {
        "ip": "127.0.0.1",
        "pid": str(piece["pid"]),
        "job": context.get_job_id(),
        "is_err": piece["stream"] == 2,
        "lines": piece["text"].splitlines(),
        "task_name": piece["label"],
        "actor_name": piece["label"],
    }


def init_error_pubsub() -> ErrorSubscription:
    return ErrorSubscription()


def init_log_pubsub() -> LogSubscription:
    return LogSubscription()


def get_error_message(
    subscriber: ErrorSubscription,
    num: float = 1e6,
    error_type: str | None = None,
    timeout: float = 20,
) -> list[dict[str, Any]]:
    """Return at most `num` errors, of one kind if it is named, that come in time."""
    return subscriber.first(num, timeout, lambda e: error_type in (None, e["type"]))


def get_log_batch(
    subscriber: LogSubscription,
    num: float,
    timeout: float = 20,
    job_id: str | None = None,
    matcher: Callable[[dict[str, Any]], Any] | None = None,
) -> list[dict[str, Any]]:
    """Return at most `num` pieces of output that fit and come in time."""
    return subscriber.first(num, timeout, lambda b: not matcher or bool(matcher(b)))


def get_log_data(
    subscriber: LogSubscription,
    num: float = 1e6,
    timeout: float = 20,
    job_id: str | None = None,
    matcher: Callable[[str], Any] | None = None,
) -> list[dict[str, Any]]:
    """Return at most `num` pieces of output with a line that fits."""
    fits = (lambda b: any(map(matcher, b["lines"]))) if matcher else None
    return get_log_batch(subscriber, num, timeout, job_id, fits)


def get_log_message(
    subscriber: LogSubscription,
    num: float = 1e6,
    timeout: float = 20,
    job_id: str | None = None,
    matcher: Callable[[str], Any] | None = None,
) -> list[list[str]]:
    """Return the lines of such pieces."""
    return [b["lines"] for b in get_log_data(subscriber, num, timeout, job_id, matcher)]


def get_log_sources(
    subscriber: LogSubscription,
    num: float = 1e6,
    timeout: float = 20,
    job_id: str | None = None,
    matcher: Callable[[str], Any] | None = None,
) -> set[str]:
    """Return the processes that have printed such pieces."""
    return {b["pid"] for b in get_log_data(subscriber, num, timeout, job_id, matcher)}
