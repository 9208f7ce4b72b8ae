"""What the contract says and Ray does not do, each with the reason."""

from __future__ import annotations

import pytest

_WAITS = "Ray waits for what is not there: an autoscaler may bring it"
_KEEPS = "Ray keeps a group for as long as its driver lives, whatever becomes of its actor"
_PRINTS = (
    "Ray forwards what workers print by way of its log files, later and in colour: test_output.py"
)

_EXITS = "Ray never answers an async method that ends its actor by sys.exit"
_UNALIGNED = "Ray aligns what is in its shared memory, and not the values inside of messages"
_CYCLES = "Ray keeps actors that hold each other's handles"
_DRIVER_ENDS = "Ray 2.60 can end the driver when many such tasks are cancelled: a check fails"
_SHUTDOWN_ENDS = "Ray 2.60 can end the driver where its node is gone before the news of the tasks"

# Names of tests, with parameters if only some of them are meant.
DIFFERENCES: dict[str, str] = {
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
    "test_a_task_whose_arguments_are_not_there_yet": _DRIVER_ENDS,
    "test_cancelling_what_is_on_its_way_between_workers": _DRIVER_ENDS,
    "test_shutdown_with_work_under_way": _SHUTDOWN_ENDS,
    "test_a_generator_is_retried_after_an_error[ray-2]": (
        "Ray keeps the values before an error, and the error, of a fixed number of results"
    ),
    "test_a_stream_ends_with_its_actor": (
        "Ray raises ActorUnavailableError where the connection breaks before the news that the "
        "actor has ended is there"
    ),
    "test_a_queued_call_of_an_actor_is_cancelled": (
        "Ray lets the next call wait 30 s for the turn of the cancelled one, and fails it then"
    ),
    "test_a_removed_group_takes_nothing_more": _WAITS,
    "test_a_group_ends_with_the_killed_actor_that_made_it": _KEEPS,
    "test_a_detached_group_outlives_the_killed_actor_that_made_it": _KEEPS,
    "test_a_task_whose_group_was_removed_is_not_tried_again": _WAITS,
    "test_an_impossible_group_says_so": _WAITS,
    "test_waiting_for_an_impossible_group_returns_false": _WAITS,
    "test_an_impossible_request_says_so_at_once": _WAITS,
    "test_an_impossible_actor_says_so_at_once": _WAITS,
    "test_an_impossible_request_names_the_way_out": _WAITS,
    "test_without_a_gpu_none_is_visible": ("Ray hides no GPU from those who asked for none"),
    "test_a_callback_of_a_future_may_wait_for_a_task": (
        "Ray runs callbacks on the thread that brings the answers"
    ),
    "test_prints_come_to_the_driver_with_name_and_pid": _PRINTS,
    "test_prints_of_an_actor_name_its_class": _PRINTS,
    "test_every_line_has_its_prefix": _PRINTS,
    "test_standard_error_is_forwarded": _PRINTS,
    "test_output_below_python_is_forwarded": _PRINTS,
    "test_what_is_printed_before_a_crash_is_not_lost": _PRINTS,
    "test_a_destructor_that_prints_while_something_else_is_printed": _PRINTS,
    "test_functions_of_all_kinds_of_actors_are_named_with_their_module": (
        "the tasks that skate makes there are named by module, class and method"
    ),
    "test_force_after_a_polite_attempt": (
        "Ray takes a second cancellation for the first one again"
    ),
    "test_resources_that_no_machine_has": _WAITS,
    "test_calls_at_a_time_without_bounds": "Ray starts all threads of an actor at once",
    "test_the_call_fails_and_so_do_later_ones[ray-async]": _EXITS,
    "test_the_call_fails_and_so_do_later_ones[ray-async groups]": _EXITS,
    "test_the_process_ends_in_order[ray-async]": _EXITS,
    "test_the_process_ends_in_order[ray-async groups]": _EXITS,
    "test_a_coroutine_of_the_users_own_exits": _EXITS,
    "test_actors_that_know_each_other_end": _CYCLES,
    "test_actors_that_know_each_other_live_while_one_can_be_reached": _CYCLES,
    "test_arrays_begin_where_vector_instructions_want_them[ray-1-False-u1]": _UNALIGNED,
    "test_arrays_begin_where_vector_instructions_want_them[ray-1-False-f4]": _UNALIGNED,
    "test_arrays_begin_where_vector_instructions_want_them[ray-1-False-f8]": _UNALIGNED,
    "test_arrays_begin_where_vector_instructions_want_them[ray-1000-False-u1]": _UNALIGNED,
    "test_a_cancelled_method_waits_no_longer[ray-async]": (
        "Ray does not interrupt a method of an async actor that waits in a blocking get"
    ),
    "test_prints_of_an_actor_have_its_own_repr": _PRINTS,
    "test_a_repr_that_fails_or_has_lines_is_no_prefix": _PRINTS,
    "test_a_refused_task_inside_a_task_fails_with_every_result": (
        "Ray refuses a task that fits into no bundle when it is submitted"
    ),
}


def reason(item: pytest.Item) -> str | None:
    """Why this test makes no sense on Ray, if that is so."""
    name = item.nodeid.rpartition("::")[2]
    return DIFFERENCES.get(name.partition("[")[0]) or DIFFERENCES.get(name)
