"""Deployments that handle tasks, with a queue that is a list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from skate import serve
from skate.serve.task_consumer import (
    instantiate_adapter_from_config,
    task_consumer,
    task_handler,
)
from skate.serve.task_processor import TaskProcessorAdapter, TaskProcessorConfig, TaskResult
from tests.support import Tally

Run = Callable[..., Any]


class ListAdapter(TaskProcessorAdapter):
    """Writes down what it is told; a task is handled at once."""

    def __init__(self, config: TaskProcessorConfig) -> None:
        self.tally: Tally = config.adapter_config
        self.handlers: dict[str, Any] = {}

    def initialize(self, consumer_concurrency: int = 5) -> None:
        self.tally.add(f"concurrency-{consumer_concurrency}")

    def register_task_handle(self, func: Any, name: str | None = None) -> None:
        self.handlers[str(name)] = func

    def enqueue_task_sync(
        self, task_name: str, args: Any = None, kwargs: Any = None, **options: Any
    ) -> TaskResult:
        result = self.handlers[task_name](*(args or ()), **(kwargs or {}))
        return TaskResult(id="1", status="SUCCESS", result=result)

    def get_task_status_sync(self, task_id: str) -> TaskResult:
        return TaskResult(id=task_id, status="SUCCESS", result=None)

    def start_consumer(self, **kwargs: Any) -> None:
        self.tally.add(f"handles-{'-'.join(sorted(self.handlers))}")

    def stop_consumer(self, timeout: float = 10.0) -> None:
        self.tally.add("stopped")

    def cancel_task_sync(self, task_id: str) -> None: ...

    def get_metrics_sync(self) -> dict[str, Any]:
        return {}

    def health_check_sync(self) -> list[dict[str, Any]]:
        return []


class Base:
    def __del__(self) -> None:
        self.tally.add("deleted")

    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    @task_handler
    def inherited(self) -> str:
        return "inherited"


def consumer(tally: Tally, adapter: Any = ListAdapter) -> Any:
    config = TaskProcessorConfig(queue_name="q", adapter_config=tally, adapter=adapter)

    @task_consumer(task_processor_config=config)
    class Doubles(Base):
        """Doubles numbers."""

        @task_handler(name="twice")
        def double(self, number: int) -> int:
            return 2 * number

        def ask(self, name: str, *args: Any) -> Any:
            adapter: Any = self._adapter
            return adapter.enqueue_task_sync(name, args=args).result

    return Doubles


def test_a_replica_handles_tasks_until_it_ends(run: Run, tally: Tally) -> None:
    cls = consumer(tally)
    assert (cls.__name__, cls.__doc__) == ("Doubles", "Doubles numbers.")
    handle = run(serve.deployment(max_ongoing_requests=7)(cls).bind(tally))
    assert handle.ask.remote("twice", 4).result() == 8
    assert handle.ask.remote("inherited").result() == "inherited"
    serve.delete("default")
    words = tally.words()
    assert words[:4] == ["concurrency-7", "handles-inherited-twice", "stopped", "deleted"]


class OnLoop(ListAdapter):
    """Says where it is stopped: whoever waits on the event loop keeps all requests waiting."""

    def stop_consumer(self, timeout: float = 10.0) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.tally.add("stopped-in-a-thread")


def test_attributes_of_the_class_are_its_own(run_locally: Run, tally: Tally) -> None:
    config = TaskProcessorConfig(queue_name="q", adapter_config=tally, adapter=OnLoop)

    @serve.deployment
    @task_consumer(task_processor_config=config)
    class Own:
        _handling = "of the class"

        def __init__(self) -> None:
            self._config, self._adapter = 1, 2

        async def __del__(self) -> None:
            await asyncio.sleep(0)
            tally.add("ended-by-a-coroutine")

        @task_handler
        def handles(self) -> None: ...

        def attributes(self) -> list[Any]:
            return [self._config, self._adapter, self._handling]

    handle = run_locally(Own.bind())
    assert handle.attributes.remote().result() == [1, 2, "of the class"]
    serve.delete("default")
    words = ["concurrency-5", "handles-handles", "stopped-in-a-thread", "ended-by-a-coroutine"]
    assert tally.words() == words


class Stuck(ListAdapter):
    def stop_consumer(self, timeout: float = 10.0) -> None:
        raise OSError("no broker")


def test_a_consumer_that_cannot_be_stopped_does_not_keep_its_class_from_ending(
    run: Run, tally: Tally
) -> None:
    run(serve.deployment(consumer(tally, Stuck)).bind(tally))
    serve.delete("default")
    assert "deleted" in tally.words()


class Ill(ListAdapter):
    def _check_consumer(self) -> None:
        raise RuntimeError("nobody handles tasks")


def test_a_replica_whose_consumer_is_not_well_is_not_either(
    run_locally: Run, tally: Tally
) -> None:
    with pytest.raises(RuntimeError, match="nobody handles tasks"):
        run_locally(serve.deployment(consumer(tally, Ill)).bind(tally))


def test_a_class_may_be_derived_from_a_consumer(run: Run, tally: Tally) -> None:
    config = TaskProcessorConfig(queue_name="q", adapter_config=tally, adapter=ListAdapter)

    @task_consumer(task_processor_config=config)
    class Triples(consumer(tally)):  # type: ignore[misc]
        @task_handler
        def triple(self, number: int) -> int:
            return 3 * number

    handle = run(serve.deployment(Triples).bind(tally))
    assert handle.ask.remote("triple", 4).result() == 12
    assert handle.ask.remote("twice", 4).result() == 8


def test_names_of_tasks_are_strings() -> None:
    for wrong in ("", "  ", 3):
        with pytest.raises(ValueError, match="non-empty string"):
            task_handler(name=wrong)  # type: ignore[arg-type]


class Refuses(ListAdapter):
    def __init__(self, config: TaskProcessorConfig) -> None:
        raise OSError("no broker")


class Unready(ListAdapter):
    def initialize(self, consumer_concurrency: int = 5) -> None:
        raise OSError("no broker")


@pytest.mark.parametrize(
    ("adapter", "error", "text"),
    [
        (Refuses, RuntimeError, "Failed to instantiate Refuses: no broker"),
        (Unready, RuntimeError, "Failed to initialize Unready: no broker"),
        (dict, TypeError, "must inherit from TaskProcessorAdapter"),
        ("pathlib:Nothing", ValueError, "no 'Nothing'"),
    ],
)
def test_what_is_wrong_with_an_adapter(adapter: Any, error: type, text: str) -> None:
    config = TaskProcessorConfig(queue_name="q", adapter_config={}, adapter=adapter)
    with pytest.raises(error, match=text):
        instantiate_adapter_from_config(config)


def test_what_is_no_config_or_no_class_is_named(tally: Tally) -> None:
    wrong: Any = 3
    with pytest.raises(TypeError, match=r"takes a TaskProcessorConfig.*got 3 of type int"):
        task_consumer(task_processor_config=wrong)
    with pytest.raises(TypeError, match=r"takes a TaskProcessorConfig.*got 3 of type int"):
        instantiate_adapter_from_config(wrong)
    config = TaskProcessorConfig(queue_name="q", adapter_config=tally, adapter=ListAdapter)
    deployment: Any = serve.deployment(Base)
    with pytest.raises(TypeError, match=r"below @serve\.deployment; got Deployment"):
        task_consumer(task_processor_config=config)(deployment)
