"""Deployments that handle tasks of a queue, besides requests."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from skate._core.argument_checks import wrong_type
from skate.serve._application.import_paths import import_attribute
from skate.serve.task_processor import TaskProcessorAdapter, TaskProcessorConfig

__all__ = ["instantiate_adapter_from_config", "task_consumer", "task_handler"]

_DEFAULT_CONCURRENCY = 5  # tasks at a time


def instantiate_adapter_from_config(
    task_processor_config: TaskProcessorConfig,
) -> TaskProcessorAdapter:
    """Connect to a queue, to send tasks to it.

    Args:
        task_processor_config: The queue.

    Returns:
        An adapter, whose `enqueue_task_sync` sends a task.

    Raises:
        TypeError: If it is no config, or the config's adapter is none.
        RuntimeError: If it cannot be made.
    """
    return _adapter(task_processor_config, _DEFAULT_CONCURRENCY)


def task_consumer(*, task_processor_config: TaskProcessorConfig) -> Callable[[type], type]:
    """Have a deployment's class handle the tasks of a queue, by its methods with `task_handler`.

    Args:
        task_processor_config: The queue.

    Returns:
        A decorator, which stands below `@serve.deployment`.

    Raises:
        TypeError: If it is given something else, or to something else than a class.

    Example:
        @serve.deployment
        @task_consumer(task_processor_config=config)
        class Mailer:
            @task_handler(name="send")
            def send(self, address): ...
    """
    _check_config(task_processor_config)

    def decorate(cls: type) -> type:
        given: object = cls
        if not isinstance(given, type):
            raise TypeError(f"task_consumer takes a class, below @serve.deployment; got {given!r}")
        same = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
        added = {"__serve_queue__": task_processor_config, "__serve_handling__": cls}
        return type(cls.__name__, (cls, TaskConsumer), {**same, **added})

    return decorate


def task_handler(
    _func: Callable[..., Any] | None = None, *, name: str | None = None
) -> Callable[..., Any]:
    """Have a method handle tasks.

    Args:
        _func: The method, where nothing is said of it.
        name: The name of the tasks; the method's by default.

    Raises:
        ValueError: If the name is no string, or empty.
    """
    given: object = name
    if given is not None and not (isinstance(given, str) and given.strip()):
        raise ValueError(
            f"Task name must be a non-empty string, got {name}: leave it out for the method's"
        )

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        function._task_name = name or function.__name__  # type: ignore[attr-defined]
        return function

    return decorate if _func is None else decorate(_func)


class _Adapter:
    """Shows the adapter as Ray's consumers do; a user's own attribute of its name goes before."""

    def __get__(self, instance: Any, owner: type) -> TaskProcessorAdapter | None:
        return getattr(instance, "__serve_adapter__", None)


class TaskConsumer:
    """What `task_consumer` adds to a class, under names that are no user's."""

    __serve_queue__: TaskProcessorConfig
    __serve_handling__: type  # the user's class
    __serve_adapter__: TaskProcessorAdapter
    _adapter = _Adapter()

    def initialize_callable(self, consumer_concurrency: int = _DEFAULT_CONCURRENCY) -> None:
        """Begin to handle tasks, so many at a time."""
        adapter = self.__serve_adapter__ = _adapter(self.__serve_queue__, consumer_concurrency)
        for name, method in inspect.getmembers(self.__serve_handling__, inspect.isfunction):
            if hasattr(method, "_task_name"):
                adapter.register_task_handle(getattr(self, name), method._task_name)
        adapter.start_consumer()

    __serve_consume__ = initialize_callable  # by which a replica knows it

    def __serve_check_consuming__(self) -> None:
        """Raise if tasks are not handled any more."""
        self.__serve_adapter__._check_consumer()

    def __serve_end_consuming__(self) -> None:
        """Handle no more tasks, after those that have begun.

        A replica calls it before the user's `__del__`, in a thread.
        """
        self.__serve_adapter__.stop_consumer()


def _check_config(given: object) -> None:
    if not isinstance(given, TaskProcessorConfig):
        allowed = "a TaskProcessorConfig, such as TaskProcessorConfig(queue_name=..., ...)"
        raise wrong_type("task_processor_config", given, allowed)


def _adapter(config: TaskProcessorConfig, concurrency: int) -> TaskProcessorAdapter:
    _check_config(config)
    kind: Any = config.adapter
    if isinstance(kind, str):
        kind = import_attribute(kind)
    try:
        adapter = kind(config)
    except Exception as error:
        raise RuntimeError(f"Failed to instantiate {kind.__name__}: {error}") from error
    if not isinstance(adapter, TaskProcessorAdapter):
        raise TypeError(
            f"{kind.__name__} must inherit from TaskProcessorAdapter; got {type(adapter).__name__}"
        )
    try:
        adapter.initialize(concurrency)
    except Exception as error:
        raise RuntimeError(f"Failed to initialize {kind.__name__}: {error}") from error
    return adapter
