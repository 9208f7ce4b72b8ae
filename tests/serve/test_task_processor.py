"""Tasks by Celery, with its broker in a folder."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from skate import serve
from skate.serve._tasks import celery_consumer
from skate.serve.task_consumer import (
    instantiate_adapter_from_config,
    task_consumer,
    task_handler,
)
from skate.serve.task_processor import (
    CeleryAdapterConfig,
    CeleryTaskProcessorAdapter,
    TaskProcessorConfig,
)
from tests.support import Tally, eventually

Run = Callable[..., Any]


def queue_in(folder: Path, **settings: Any) -> TaskProcessorConfig:
    for name in ("queue", "results", "control"):
        (folder / name).mkdir(exist_ok=True)
    queue = str(folder / "queue")
    options = {
        "data_folder_in": queue,
        "data_folder_out": queue,
        "control_folder": str(folder / "control"),
        "polling_interval": 0.05,
    }
    adapter = CeleryAdapterConfig(
        broker_url="filesystem://",
        backend_url=f"file://{folder / 'results'}",
        broker_transport_options=options,
        # Celery notes that a task will be tried again after it has sent it: with no delay that may
        # come after the note of its failure, and stay.
        task_custom_config={"retry_backoff": False, "default_retry_delay": 0.5},
    )
    return TaskProcessorConfig(queue_name="q", adapter_config=adapter, **settings)


def waiting(folder: Path, name: str) -> list[Any]:
    """The messages in a queue."""
    keys = []
    for file in (folder / "queue").iterdir():
        with suppress(FileNotFoundError, json.JSONDecodeError):  # being written, or taken
            message = json.loads(file.read_text())
            keys.append(message["properties"]["delivery_info"]["routing_key"])
    return [key for key in keys if key == name]


def consumer(config: TaskProcessorConfig) -> Any:
    @serve.deployment
    @task_consumer(task_processor_config=config)
    class Divides:
        def __init__(self, tally: Tally) -> None:
            self.tally = tally

        @task_handler(name="divide")
        def divide(self, number: int) -> float:
            self.tally.add(str(number))
            return 1 / number

    return Divides


def test_tasks_are_handled_and_tried_again(run_locally: Run, tally: Tally, tmp_path: Path) -> None:
    config = queue_in(
        tmp_path,
        max_retries=1,
        failed_task_queue_name="failed",
        unprocessable_task_queue_name="unknown",
    )
    clients = instantiate_adapter_from_config(config)
    sent = {n: clients.enqueue_task_sync("divide", args=[n]).id for n in (4, 0)}
    unknown = clients.enqueue_task_sync("multiply", args=[1]).id
    assert clients.get_task_status_sync(sent[4]).status == "PENDING"
    run_locally(consumer(config).bind(tally))
    eventually(lambda: clients.get_task_status_sync(sent[0]).status == "FAILURE")
    eventually(lambda: clients.get_task_status_sync(sent[4]).result == 0.25)
    assert isinstance(clients.get_task_status_sync(sent[0]).result, ZeroDivisionError)
    assert sorted(tally.words()) == ["0", "0", "4"]
    eventually(lambda: len(waiting(tmp_path, "failed")) == 1)
    eventually(lambda: len(waiting(tmp_path, "unknown")) == 1)
    assert clients.get_task_status_sync(unknown).status == "FAILURE"


NO_TASKS: list[dict[str, Any]] = [  # what is wrong with each message
    {"body": base64.b64encode(b"null").decode()},
    {"headers": {}},
    {"content-type": "application/x-python-serialize"},
]


def test_messages_that_are_no_tasks_do_not_end_the_consumer(
    run_locally: Run, tally: Tally, tmp_path: Path
) -> None:
    config = queue_in(tmp_path, unprocessable_task_queue_name="unknown")
    clients = instantiate_adapter_from_config(config)
    for wrong in NO_TASKS:
        before = {*(tmp_path / "queue").iterdir()}
        clients.enqueue_task_sync("divide", args=[1])
        (sent,) = {*(tmp_path / "queue").iterdir()} - before
        sent.write_text(json.dumps({**json.loads(sent.read_text()), **wrong}))
    run_locally(consumer(config).bind(tally))
    eventually(lambda: len(waiting(tmp_path, "unknown")) == len(NO_TASKS))
    after = clients.enqueue_task_sync("divide", args=[4]).id
    eventually(lambda: clients.get_task_status_sync(after).result == 0.25)
    assert tally.words() == ["4"]


def test_a_consumer_that_fails_is_followed_by_another(
    run_locally: Run, tally: Tally, tmp_path: Path
) -> None:
    config = queue_in(tmp_path)
    clients = instantiate_adapter_from_config(config)
    clients.enqueue_task_sync("divide", args=[1])
    (sent,) = (tmp_path / "queue").iterdir()
    sent.write_text("nothing of Celery")
    run_locally(consumer(config).bind(tally))
    eventually(lambda: not sent.exists())
    after = clients.enqueue_task_sync("divide", args=[4]).id
    eventually(lambda: clients.get_task_status_sync(after).result == 0.25)


def fails() -> None:
    raise ValueError("nothing comes of it")


def test_failures_stay_with_the_queue_of_their_tasks(tmp_path: Path) -> None:
    for name in ("other", "own"):
        (tmp_path / name).mkdir()
    names = {"failed_task_queue_name": "failed", "unprocessable_task_queue_name": "unknown"}
    other, own = (
        instantiate_adapter_from_config(queue_in(tmp_path / name, max_retries=0, **names))
        for name in ("other", "own")
    )
    own.register_task_handle(fails, "fails")
    own.enqueue_task_sync("fails")
    own.enqueue_task_sync("nobody's")
    own.start_consumer()
    try:
        eventually(lambda: waiting(tmp_path / "own", "failed"))
        eventually(lambda: waiting(tmp_path / "own", "unknown"))
    finally:
        own.stop_consumer()
    other.enqueue_task_sync("fails")
    assert not waiting(tmp_path / "other", "failed")
    assert not waiting(tmp_path / "other", "unknown")


def test_a_consumer_that_cannot_begin_says_so(tmp_path: Path) -> None:
    adapter = instantiate_adapter_from_config(queue_in(tmp_path))
    with pytest.raises(Exception, match="no_such_pool"):
        adapter.start_consumer(pool_cls="no_such_pool")
    adapter._check_consumer()  # none was begun


def test_a_consumer_whose_thread_has_ended_is_not_well(tmp_path: Path) -> None:
    adapter: Any = instantiate_adapter_from_config(queue_in(tmp_path))
    adapter._thread = threading.Thread(target=lambda: None)
    adapter._thread.start()
    adapter._thread.join()
    with pytest.raises(RuntimeError, match="handles no more tasks of the queue q"):
        adapter._check_consumer()


class Worker:
    """One of Celery's, as far as a consumer knows it."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.blueprint, self.error = self, error

    def start(self, worker: object) -> None:
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        if self.error is not None:
            raise self.error


def test_a_consumer_outlives_whatever_a_worker_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(celery_consumer, "_PAUSE_S", 0.001)
    told_to_stop = threading.Event()
    ends: list[BaseException] = [ValueError("no broker"), SystemExit(), OSError("no broker")]

    def make() -> Worker:
        if not ends:
            told_to_stop.set()
            return Worker()
        if len(ends) == 1:  # it cannot even be made
            raise ends.pop()
        return Worker(ends.pop())

    celery_consumer.consume(Worker(ValueError("no broker")), make, told_to_stop)
    assert not ends


def test_what_consumers_depend_on_cannot_be_changed() -> None:
    urls: dict[str, Any] = {"broker_url": "memory://", "backend_url": "cache+memory://"}
    with pytest.raises(TypeError, match="CeleryAdapterConfig"):
        CeleryTaskProcessorAdapter(TaskProcessorConfig(queue_name="q", adapter_config=urls))
    wrong = CeleryAdapterConfig(app_custom_config={"task_acks_late": False}, **urls)
    config = TaskProcessorConfig(queue_name="q", adapter_config=wrong)
    with pytest.raises(ValueError, match=r"cannot be changed.*task_acks_late"):
        CeleryTaskProcessorAdapter(config)


def test_coroutines_cannot_handle_tasks_of_celery(tmp_path: Path) -> None:
    adapter = instantiate_adapter_from_config(queue_in(tmp_path))

    async def handle() -> None: ...

    with pytest.raises(NotImplementedError, match="Async task handlers are not supported"):
        adapter.register_task_handle(handle, "handle")
