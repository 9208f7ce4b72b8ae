"""A queue of tasks: its settings, and what an adapter to one does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import

if TYPE_CHECKING:
    from pydantic import BaseModel
else:
    BaseModel = try_import("pydantic", "serve").BaseModel


class CeleryAdapterConfig(BaseModel):
    """Where Celery keeps tasks and results.

    Args:
        broker_url: Where tasks wait, such as "redis://localhost:6379/0" or "filesystem://".
        backend_url: Where results are kept, such as "redis://localhost:6379/1".
        broker_transport_options: What the broker takes besides.
        app_custom_config: Settings of the Celery application.
        task_custom_config: Options of all tasks.
    """

    broker_url: str
    backend_url: str
    broker_transport_options: dict[str, Any] | None = None
    app_custom_config: dict[str, Any] | None = None
    task_custom_config: dict[str, Any] | None = None


class TaskProcessorConfig(BaseModel):
    """A queue of tasks.

    Args:
        queue_name: Its name.
        adapter_config: What the adapter takes: a `CeleryAdapterConfig`.
        adapter: A class derived from `TaskProcessorAdapter`, or the path to one; Celery's by
            default.
        max_retries: How often a task that fails is tried again.
        failed_task_queue_name: A queue for tasks that failed for good.
        unprocessable_task_queue_name: A queue for tasks that nobody handles, and for messages that
            are none.
    """

    queue_name: str
    adapter_config: Any
    adapter: str | Callable[..., Any] = "skate.serve.task_processor.CeleryTaskProcessorAdapter"
    max_retries: int | None = 3
    failed_task_queue_name: str | None = None
    unprocessable_task_queue_name: str | None = None

    def queue_names(self) -> list[str]:
        """Return the names of all its queues, that of tasks first."""
        others = self.failed_task_queue_name, self.unprocessable_task_queue_name
        return [self.queue_name, *filter(None, others)]


class TaskResult(BaseModel):
    """A task, and what became of it.

    Args:
        id: Its id.
        status: "PENDING", "STARTED", "RETRY", "SUCCESS" or "FAILURE", with Celery.
        result: What it returned, or its error.
        created_at: When it was sent, where that is known.
    """

    id: str
    status: str
    result: Any
    created_at: float | None = None


class TaskProcessorAdapter(ABC):
    """Sends tasks to a queue, and has them handled; derive from it for a queue of your own."""

    @abstractmethod
    def initialize(self, consumer_concurrency: int = 5) -> None:
        """Connect.

        Args:
            consumer_concurrency: How many tasks a consumer handles at a time.
        """

    @abstractmethod
    def register_task_handle(self, func: Callable[..., Any], name: str | None = None) -> None:
        """Have a function handle tasks.

        Args:
            func: The function.
            name: Of which name.
        """

    @abstractmethod
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
            options: What the queue takes besides.
        """

    @abstractmethod
    def get_task_status_sync(self, task_id: str) -> TaskResult:
        """Return what became of a task.

        Args:
            task_id: Which one.
        """

    @abstractmethod
    def start_consumer(self, **kwargs: Any) -> None:
        """Begin to handle tasks.

        Args:
            kwargs: What the queue takes.
        """

    @abstractmethod
    def stop_consumer(self, timeout: float = 10.0) -> None:
        """Handle no more tasks, after those that have begun.

        Args:
            timeout: How many seconds to wait for them.
        """

    @abstractmethod
    def cancel_task_sync(self, task_id: str) -> None:
        """Take back a task that has not begun.

        Args:
            task_id: Which one.
        """

    @abstractmethod
    def get_metrics_sync(self) -> dict[str, Any]:
        """Return what the consumers measure."""

    @abstractmethod
    def health_check_sync(self) -> list[dict[str, Any]]:
        """Return which consumers answer."""

    async def enqueue_task_async(
        self,
        task_name: str,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> TaskResult:
        """Send a task, in async code.

        Args:
            task_name: Who handles it.
            args: Its arguments.
            kwargs: Named ones.
            options: What the queue takes besides.
        """
        raise self._not_async("enqueue_task")

    async def get_task_status_async(self, task_id: str) -> TaskResult:
        """Return what became of a task, in async code.

        Args:
            task_id: Which one.
        """
        raise self._not_async("get_task_status")

    async def cancel_task_async(self, task_id: str) -> None:
        """Take back a task that has not begun, in async code.

        Args:
            task_id: Which one.
        """
        raise self._not_async("cancel_task")

    async def get_metrics_async(self) -> dict[str, Any]:
        """Return what the consumers measure, in async code."""
        raise self._not_async("get_metrics")

    async def health_check_async(self) -> list[dict[str, Any]]:
        """Return which consumers answer, in async code."""
        raise self._not_async("health_check")

    def _check_consumer(self) -> None:  # noqa: B027 - most have nothing to tell
        """Raise if tasks should be handled and are not; the replica is replaced then."""

    def _not_async(self, name: str) -> NotImplementedError:
        return NotImplementedError(
            f"{type(self).__name__} has no {name}_async of its own: call {name}_sync in a thread"
        )
