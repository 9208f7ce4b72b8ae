"""Tasks by Celery."""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skate._core.optional_imports import try_import
from skate.serve._tasks.celery_consumer import consume, consumer_class
from skate.serve._tasks.contract import (
    CeleryAdapterConfig,
    TaskProcessorAdapter,
    TaskProcessorConfig,
    TaskResult,
)
from skate.serve.context import current_replica

logger = logging.getLogger("skate.serve")

_MANAGED = {  # settings of Celery that tasks of a deployment need
    "worker_pool": "threads",
    "task_ignore_result": False,
    "task_acks_late": True,  # a task of a replica that is killed is another one's
    "task_reject_on_worker_lost": True,
}


class CeleryTaskProcessorAdapter(TaskProcessorAdapter):
    """Tasks in a queue of Celery; a consumer is a worker of Celery in a thread of the replica.

    Args:
        config: The queue, with a `CeleryAdapterConfig`.

    Raises:
        TypeError: If the `adapter_config` is none.
        ValueError: If it sets what consumers depend on.
    """

    def __init__(self, config: TaskProcessorConfig) -> None:
        celery = config.adapter_config
        if not isinstance(celery, CeleryAdapterConfig):
            raise TypeError(
                "TaskProcessorConfig.adapter_config must be an instance of CeleryAdapterConfig; "
                f"got {celery!r}"
            )
        taken = sorted({*_MANAGED, "worker_concurrency"} & {*(celery.app_custom_config or ())})
        if taken:
            raise ValueError(
                f"The following configuration keys cannot be changed via app_custom_config: "
                f"{taken}: the consumer depends on them"
            )
        self._config = config
        self._celery = celery
        self._thread: threading.Thread | None = None
        self._told_to_stop = threading.Event()

    def initialize(self, consumer_concurrency: int = 5) -> None:
        """Make the Celery application.

        Args:
            consumer_concurrency: How many tasks a consumer handles at a time.
        """
        celery = try_import("celery", "tasks")
        config, given = self._config, self._celery
        self._app = celery.Celery(
            config.queue_name, backend=given.backend_url, broker=given.broker_url
        )
        queues = {
            name: {"exchange": name, "exchange_type": "direct", "routing_key": name}
            for name in config.queue_names()
        }
        self._app.conf.update(
            {
                **_MANAGED,
                "worker_concurrency": consumer_concurrency,
                "worker_prefetch_multiplier": 1,  # what waits, waits where others find it
                **(given.app_custom_config or {}),
                "task_queues": queues,
                "task_routes": {"*": {"queue": config.queue_name}},
            }
        )
        if given.broker_transport_options is not None:
            self._app.conf.update(broker_transport_options=given.broker_transport_options)

    def register_task_handle(self, func: Callable[..., Any], name: str | None = None) -> None:
        """Have a function handle tasks.

        Args:
            func: The function, which is no coroutine.
            name: Of which name.

        Raises:
            NotImplementedError: If it is a coroutine.
        """
        if inspect.iscoroutinefunction(func):
            raise NotImplementedError(
                "Async task handlers are not supported yet by Celery: write a plain function"
            )
        options: dict[str, Any] = {
            "autoretry_for": (Exception,),
            "retry_kwargs": {"max_retries": self._config.max_retries},
            "retry_backoff": True,
            "retry_backoff_max": 60,
            "retry_jitter": False,
            "typing": False,  # it would count `self` of a method among the arguments
            **(self._celery.task_custom_config or {}),
        }
        self._app.task(**options, **({"name": name} if name else {}))(func)

    def enqueue_task_sync(
        self,
        task_name: str,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> TaskResult:
        """Send a task.

        Args:
            task_name: Who handles it.
            args: Its arguments.
            kwargs: Named ones.
            options: What `send_task` of Celery takes.
        """
        sent = self._app.send_task(
            task_name, args=args, kwargs=kwargs, queue=self._config.queue_name, **options
        )
        return TaskResult(
            id=sent.id, status=sent.status, result=sent.result, created_at=time.time()
        )

    def get_task_status_sync(self, task_id: str) -> TaskResult:
        """Return what became of a task.

        Args:
            task_id: Which one.
        """
        found = self._app.AsyncResult(task_id)
        return TaskResult(id=found.id, status=found.status, result=found.result)

    def start_consumer(self, **kwargs: Any) -> None:
        """Begin to handle tasks, in a thread.

        Args:
            kwargs: What a worker of Celery takes.

        Raises:
            Exception: What Celery raises, if it can make no worker of these.
        """
        if self._thread is not None and self._thread.is_alive():
            return
        replica = current_replica()
        place = "here" if replica is None else replica.replica_tag
        settings = {
            "hostname": f"{self._app.main}@{place}",
            "queues": [self._config.queue_name],
            "consumer_cls": consumer_class(self._keep_unreadable),
            "without_gossip": True,
            "without_mingle": True,
            **kwargs,
        }
        self._app.set_default()  # tasks that are tried again are sent by the default one

        def make_worker() -> Any:
            return self._app.WorkController(**settings)

        first, self._told_to_stop = make_worker(), threading.Event()
        signals = try_import("celery.signals", "tasks")
        signals.task_failure.connect(self._keep_failed)
        signals.task_unknown.connect(self._keep_unknown)
        self._thread = threading.Thread(
            target=consume,
            args=(first, make_worker, self._told_to_stop),
            name="skate-serve-tasks",
            daemon=True,
        )
        self._thread.start()

    def stop_consumer(self, timeout: float = 10.0) -> None:
        """Handle no more tasks, after those that have begun.

        Args:
            timeout: How many seconds to wait for them.
        """
        thread, self._thread = self._thread, None
        if thread is None or not thread.is_alive():
            return
        self._told_to_stop.set()
        self._stop(thread, timeout)
        signals = try_import("celery.signals", "tasks")
        signals.task_failure.disconnect(self._keep_failed)
        signals.task_unknown.disconnect(self._keep_unknown)

    def _stop(self, thread: threading.Thread, timeout: float) -> None:
        # The loop of the worker looks at it; by itself it would only be told by the broker.
        state = try_import("celery.worker.state", "tasks")
        state.should_stop = 0
        thread.join(timeout)
        state.should_stop = None
        if thread.is_alive():
            logger.warning("a consumer of tasks has not ended within %s s", timeout)

    def _check_consumer(self) -> None:
        if self._thread is not None and not self._thread.is_alive():
            raise RuntimeError(
                f"the consumer has ended, and handles no more tasks of the queue "
                f"{self._config.queue_name}"
            )

    def cancel_task_sync(self, task_id: str) -> None:
        """Take back a task that has not begun, where the broker can.

        Args:
            task_id: Which one.
        """
        self._app.control.revoke(task_id)

    def get_metrics_sync(self) -> dict[str, Any]:
        """Return what Celery's workers measure."""
        return self._app.control.inspect().stats() or {}

    def health_check_sync(self) -> list[dict[str, Any]]:
        """Return which of Celery's workers answer."""
        answers: list[dict[str, Any]] = self._app.control.ping()
        return answers

    def _keep_failed(
        self, sender: Any, task_id: str, args: Any, kwargs: Any, einfo: Any, **rest: Any
    ) -> None:
        """Send a task that failed for good to the queue for those. Celery tells it of all tasks in
        this process, also of those of other queues."""
        if sender.app is not self._app:
            return
        told = [task_id, str(einfo.exception), str(args), str(kwargs), str(einfo)]
        logger.error("the task %s failed for good: %s", task_id, einfo.exception)
        self._keep(sender.name, self._config.failed_task_queue_name, told)

    def _keep_unknown(
        self, sender: Any, name: str, id: str, message: Any, exc: Any, **rest: Any
    ) -> None:
        """Send a task that nobody handles to the queue for those."""
        if sender.app is not self._app:
            return
        told = [name, id, str(message), str(exc), str(rest)]
        logger.error("nobody handles the task %s of the name %r", id, name)
        self._keep(name, self._config.unprocessable_task_queue_name, told)

    def _keep_unreadable(self, message: Any, error: object) -> None:
        """Send what is no task to the queue for those that nobody handles."""
        headers = message.headers if isinstance(message.headers, dict) else {}
        name, id = str(headers.get("task")), str(headers.get("id"))
        logger.error("a message of the queue %s is no task: %s", self._config.queue_name, error)
        told = [name, id, str(message), str(error), "{}"]
        self._keep(name, self._config.unprocessable_task_queue_name, told)

    def _keep(self, name: str, queue: str | None, told: list[str]) -> None:
        if queue:
            self._app.send_task(name, queue=queue, args=told)
