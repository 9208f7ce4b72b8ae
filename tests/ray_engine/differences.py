"""What the contract says and Ray does not do, each with the reason."""

from __future__ import annotations

import pytest

# Names of tests, with parameters if only some of them are meant.
DIFFERENCES: dict[str, str] = {
    "test_concurrency_groups_of_async_methods": (
        "Ray runs each concurrency group on an event loop of its own, and an asyncio.Event does "
        "not wake those who wait on another loop"
    ),
    "test_a_handle_got_by_name_twice_keeps_the_actor_alive": (
        "Ray ends an actor with the handles that came from its creator; a handle got by name "
        "does not count"
    ),
    "test_exit_actor_fails_the_calls_under_way": (
        "Ray leaves the other calls of an async actor that ends itself unanswered"
    ),
    "test_queued_calls_are_retried_in_their_order": (
        "Ray retries the calls of a restarted actor in any order"
    ),
    "test_a_task_whose_arguments_are_not_there_yet": (
        "Ray 2.60 can end the driver when such a task is cancelled: a check in its reference "
        "counter fails"
    ),
}


def reason(item: pytest.Item) -> str | None:
    """Why this test makes no sense on Ray, if that is so."""
    name = item.nodeid.rpartition("::")[2]
    return DIFFERENCES.get(name.partition("[")[0]) or DIFFERENCES.get(name)
