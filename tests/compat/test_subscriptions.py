"""What tests of Ray subscribe to: errors of tasks and the output of workers."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import skate
from skate.compat import ray as compat


@pytest.fixture(autouse=True)
def as_ray(leaves_nothing: None) -> Iterator[None]:
    compat.install()
    skate.init(num_cpus=2)
    yield
    skate.shutdown()
    compat.uninstall()


def test_errors_come_once_each_and_from_now_on() -> None:
    from ray._private.test_utils import get_error_message, init_error_pubsub

    @skate.remote
    def fail(word: str) -> None:
        raise ValueError(word)

    skate.wait([fail.remote("before")])
    errors = init_error_pubsub()
    pending = [fail.remote("one"), fail.remote("two")]
    first = get_error_message(errors, 1, "task", timeout=60)
    second = get_error_message(errors, 1, "task", timeout=60)
    assert sorted(e["error_message"][-3:] for e in first + second) == ["one", "two"]
    assert get_error_message(errors, 1, timeout=0) == []
    skate.wait(pending, num_returns=2)
    errors.close()


def test_a_process_that_dies_is_an_error_of_its_own_kind() -> None:
    from ray._private.test_utils import get_error_message, init_error_pubsub

    @skate.remote(max_retries=0)
    def die() -> None:
        os._exit(1)

    errors = init_error_pubsub()
    skate.wait([die.remote()])
    (error,) = get_error_message(errors, 1, "worker_died", timeout=60)
    assert "die" in error["error_message"]


def test_output_arrives_in_pieces_with_their_process() -> None:
    from ray._private.test_utils import (
        get_log_batch,
        get_log_message,
        get_log_sources,
        init_log_pubsub,
    )

    @skate.remote
    def say(word: str) -> int:
        print("said", word)
        return os.getpid()

    skate.get(say.remote("before"))
    logs = init_log_pubsub()
    pid = skate.get(say.remote("hello"))
    (batch,) = get_log_batch(logs, 1, timeout=60, matcher=lambda b: b["task_name"] == "say")
    assert (batch["lines"], batch["pid"], batch["is_err"]) == (["said hello"], str(pid), False)
    pid = skate.get(say.remote("again"))
    assert get_log_sources(logs, 1, timeout=60, matcher=lambda line: "again" in line) == {str(pid)}
    skate.get(say.remote("last"))
    assert get_log_message(logs, 1, timeout=60) == [["said last"]]
