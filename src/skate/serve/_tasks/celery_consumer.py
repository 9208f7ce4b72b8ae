"""The worker of Celery inside a replica, which outlives whatever comes by its queue.

In a process of its own, a worker that fails ends, and somebody starts the next one. In a replica
nobody would notice that tasks are handled no more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from skate._core.optional_imports import try_import

logger = logging.getLogger("skate.serve")

_PAUSE_S = 1.0  # before the next worker: what ends one at once must not keep a processor busy


def consume(first: Any, make_worker: Callable[[], Any], told_to_stop: threading.Event) -> None:
    """Handle tasks until told to stop, by another worker when one ends by itself.

    Args:
        first: The first worker.
        make_worker: Makes the next one.
        told_to_stop: Is set when no more are wanted.
    """
    state = try_import("celery.worker.state", "tasks")
    _guarded(_run, first)
    while not told_to_stop.wait(_PAUSE_S):
        state.should_stop = state.should_terminate = None  # a message can set them
        _guarded(lambda: _run(make_worker()))


def _run(worker: Any) -> None:
    try:
        worker.blueprint.start(worker)
    finally:
        worker.stop()


def _guarded(function: Callable[..., None], *args: object) -> None:
    """Go on, whatever a function raises."""
    try:
        function(*args)
    except SystemExit:
        logger.info("a consumer of tasks was told to stop")
    except Exception:
        logger.exception("a consumer of tasks failed; the next one begins soon")


def consumer_class(set_aside: Callable[[Any, object], None]) -> type:
    """Return Celery's consumer of messages, which gives those that are no tasks to a function."""
    base: Any = try_import("celery.worker.consumer", "tasks").Consumer

    class CarefulConsumer(base):  # type: ignore[misc]
        """Takes any message: one that cannot be read would end the worker."""

        def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], None]:
            handle = super().create_task_handler(*args, **kwargs)

            def handle_or_set_aside(message: Any) -> None:
                try:
                    handle(message)
                except (*self.connection_errors, *self.channel_errors):
                    raise  # the worker connects again
                except Exception as error:
                    self.on_decode_error(message, error)

            return handle_or_set_aside

        def on_decode_error(self, message: Any, exc: object) -> None:
            set_aside(message, exc)
            if not message.acknowledged:
                message.ack_log_error(logger, self.connection_errors)

        def on_unknown_message(self, body: Any, message: Any) -> None:
            self.on_decode_error(message, "it has no name of a task")

        def on_invalid_task(self, body: Any, message: Any, exc: object) -> None:
            self.on_decode_error(message, exc)

    return CarefulConsumer
