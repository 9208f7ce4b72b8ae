"""How many replicas the tasks ask for that wait in a queue, for consumers of tasks."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from skate._core.argument_checks import numbers
from skate._core.optional_imports import try_import
from skate.serve.config import AutoscalingContext

__all__ = ["AsyncInferenceAutoscalingPolicy"]

logger = logging.getLogger("skate.serve")

_CONNECT_SECONDS = 5.0


class AsyncInferenceAutoscalingPolicy:
    """A policy for `autoscaling_config` that counts the tasks that wait, besides requests.

    The broker is asked in a thread, now and then, so that decisions do not wait for it. While it
    does not answer, the last number holds.

    Args:
        broker_url: Where the broker is, as Celery takes it: "redis://localhost:6379/0" or
            "amqp://guest:guest@localhost:5672//".
        queue_name: The queue in which tasks wait.
        rabbitmq_management_url: No effect: the broker itself says how many tasks wait.
        poll_interval_s: After how many seconds the broker is asked again.

    Raises:
        ValueError: If `poll_interval_s` is negative.
    """

    def __init__(
        self,
        broker_url: str,
        queue_name: str,
        rabbitmq_management_url: str | None = None,
        poll_interval_s: float = 10.0,
    ) -> None:
        self._broker = broker_url
        self._queue = queue_name
        check = numbers(0, "a number of seconds, at least 0")
        self._interval: float = check("poll_interval_s", poll_interval_s)
        self._kombu: Any = try_import("kombu", "tasks")
        self._waiting = 0
        self._asker: threading.Thread | None = None
        self._next_time = 0.0

    def __call__(self, ctx: AutoscalingContext) -> tuple[float, dict[str, Any]]:
        """Return how many replicas would have `target_ongoing_requests` each.

        Args:
            ctx: What a policy is given.

        Returns:
            The number, which may be a fraction, and the state of the policy.
        """
        self._ask_now_and_then()
        work = ctx.total_num_requests + self._waiting
        state = {"queue_length": self._waiting}
        if ctx.current_num_replicas == 0:
            return float(work > 0), state
        return work / ctx.config.get_target_ongoing_requests(), state

    def _ask_now_and_then(self) -> None:
        now = time.monotonic()
        is_asking = self._asker is not None and self._asker.is_alive()
        if now >= self._next_time and not is_asking:
            self._next_time = now + self._interval
            self._asker = threading.Thread(target=self._ask, daemon=True)
            self._asker.start()

    def _ask(self) -> None:
        try:
            self._waiting = self._count()
        except Exception as error:
            text = "Serve: how many tasks wait in %r is not known: %s: %s"
            logger.warning(text, self._queue, type(error).__name__, error)

    def _count(self) -> int:
        with self._kombu.Connection(self._broker, connect_timeout=_CONNECT_SECONDS) as broker:
            try:
                queue = broker.default_channel.queue_declare(queue=self._queue, passive=True)
            except broker.channel_errors:  # which there is not before the first task
                return 0
            return int(queue.message_count)
