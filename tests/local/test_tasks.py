"""Tasks from their submission to their answer, without processes."""

from __future__ import annotations

from typing import Any

import pytest

from skate import exceptions
from skate._core import serialization
from skate.engine.local import messages as m
from skate.engine.local.hub.memory_guard import Eviction
from skate.engine.local.hub.values import NONE
from skate.engine.local.objects import FAILED, INLINE, STORED
from tests.local.fakes import worker_of
from tests.local.hub_bench import HubBench

ERROR = serialization.dumps(KeyError("x")).packed()


def test_a_task_is_sent_and_its_answer_completes_it(hub_bench: HubBench) -> None:
    task = hub_bench.submit()
    (work,) = hub_bench.sent(worker_of(task))
    assert (work.operation, work.id, work.target) == (m.TASK, task.id, hub_bench.function.key)
    hub_bench.finish(task)
    assert hub_bench.entries[task.id].kind == INLINE
    assert hub_bench.entries[task.id].task is None
    assert [run[0] for run in hub_bench.hub.state.runs] == [task.id]


@pytest.mark.parametrize(
    ("uses", "mentions"),
    [(b"\x8c\x06pandas\x94", True), (b"pandas.core", True), (b"enable_pandas_block", False)],
)
def test_a_function_mentions_modules_by_their_whole_names(
    hub_bench: HubBench, uses: bytes, mentions: bool
) -> None:
    """Workers are forked where these are imported, which may take seconds."""
    hub_bench.function.uses = uses
    assert hub_bench.submit().uses_any(["torch", "pandas"]) is mentions


def test_a_task_waits_for_its_arguments(hub_bench: HubBench) -> None:
    there, missing = hub_bench.put(), hub_bench.put(None)
    task = hub_bench.submit(there, missing)
    assert task.worker is None
    hub_bench.hub.values.complete(missing.id, INLINE, NONE)
    (work,) = hub_bench.sent(worker_of(task))
    assert [id for _, _, _, id in work.dependencies] == [there.id, missing.id]
    assert there.count == 2
    hub_bench.finish(task)
    assert there.count == 1


def test_a_task_waits_for_the_last_of_its_arguments(hub_bench: HubBench) -> None:
    first, last = hub_bench.put(None), hub_bench.put(None)
    task = hub_bench.submit(first, last)
    hub_bench.hub.values.complete(first.id, INLINE, NONE)
    assert task.worker is None
    hub_bench.hub.values.complete(last.id, INLINE, NONE)
    assert task.worker is not None


@pytest.mark.parametrize("late", [False, True])
def test_an_argument_that_is_an_error_is_the_error_of_the_task(
    hub_bench: HubBench, late: bool
) -> None:
    argument = hub_bench.put(None if late else FAILED, ERROR)
    task = hub_bench.submit(argument)
    if late:
        hub_bench.hub.values.complete(argument.id, FAILED, ERROR)
    assert isinstance(hub_bench.error_of(task.id), exceptions.TaskError)
    assert argument.count == 1
    assert hub_bench.workers == []


def test_what_can_never_run_says_so(hub_bench: HubBench) -> None:
    task = hub_bench.submit(hub_bench.put(), num_cpus=64)
    assert isinstance(hub_bench.error_of(task.id), exceptions.TaskUnschedulableError)


def test_several_values(hub_bench: HubBench) -> None:
    task = hub_bench.submit(num_returns=2)
    values = [(INLINE, NONE, ()), (FAILED, ERROR, ())]
    hub_bench.receive(worker_of(task), m.WorkResults(task.id, values, 5))
    assert [hub_bench.entries[id].kind for id in task.return_ids] == [INLINE, FAILED]
    hub_bench.receive(hub_bench.workers[0], m.WorkResults(task.id, [(STORED, ("s0-9", 1), ())], 5))
    assert hub_bench.store.recycled == ["s0-9"]  # nobody waits for it


def test_an_exception_is_retried_as_often_as_allowed(hub_bench: HubBench) -> None:
    task = hub_bench.submit(max_retries=1, retry_exceptions=True)
    for _ in range(2):
        hub_bench.receive(worker_of(task), m.RetryWork(task.id, FAILED, ERROR, 5))
    assert isinstance(hub_bench.error_of(task.id), KeyError)
    assert task.attempt == 1


def test_what_goes_on_raising_waits_longer_each_time_before_it_is_tried_again(
    hub_bench: HubBench,
) -> None:
    task = hub_bench.submit(max_retries=-1, retry_exceptions=True)
    hub_bench.reactor.timers.clear()
    pauses = []
    for _ in range(9):
        hub_bench.receive(worker_of(task), m.RetryWork(task.id, FAILED, ERROR, 5))
        if task.worker is None:
            pauses.append(hub_bench.reactor.timers[-1][0])
            hub_bench.pass_time()
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]  # not before the first retry


def test_what_was_cancelled_while_it_waited_to_be_tried_again_is_not(hub_bench: HubBench) -> None:
    task = hub_bench.submit(max_retries=-1, retry_exceptions=True)
    for _ in range(2):
        hub_bench.receive(worker_of(task), m.RetryWork(task.id, FAILED, ERROR, 5))
    hub_bench.ask("cancel", task.id, False, False)
    assert isinstance(hub_bench.error_of(task.id), exceptions.TaskCancelledError)
    hub_bench.pass_time()
    assert task.worker is None


def test_an_argument_that_comes_to_a_cancelled_task_starts_nothing(hub_bench: HubBench) -> None:
    first, last = hub_bench.put(None), hub_bench.put(None)
    task = hub_bench.submit(first, last)
    hub_bench.ask("cancel", task.id, False, False)
    for entry in (first, last):
        hub_bench.hub.values.complete(entry.id, INLINE, NONE)
    assert task.worker is None
    assert isinstance(hub_bench.error_of(task.id), exceptions.TaskCancelledError)


def test_a_worker_that_dies_alone_with_a_task_costs_a_try(hub_bench: HubBench) -> None:
    task = hub_bench.submit(max_retries=1)
    hub_bench.lose(worker_of(task))
    assert task.attempt == 1
    hub_bench.lose(worker_of(task), status=9)
    error = hub_bench.error_of(task.id)
    assert isinstance(error, exceptions.WorkerCrashedError)
    assert "SIGKILL" in str(error)


@pytest.mark.parametrize(
    ("status", "said"),
    [(None, "unexpectedly"), (63, "signal 63"), (256, "code 1"), (9, "SIGKILL")],
)
def test_how_a_worker_has_ended(hub_bench: HubBench, status: int | None, said: str) -> None:
    task = hub_bench.submit(max_retries=0)
    hub_bench.lose(worker_of(task), status)
    assert said in str(hub_bench.error_of(task.id))


def test_several_with_a_dead_worker_go_alone_and_free_of_charge(one_cpu_bench: HubBench) -> None:
    bench = one_cpu_bench
    bench.function.window = 8
    tasks = [bench.submit() for _ in range(3)]
    worker = worker_of(tasks[0])
    assert len(worker.in_flight) == 3
    bench.lose(worker)
    assert [(task.solo, task.attempt) for task in tasks] == [(True, 0)] * 3
    assert [task.worker is not None for task in tasks] == [True, False, False]


@pytest.mark.parametrize("force", [False, True])
def test_a_running_task_is_cancelled(hub_bench: HubBench, force: bool) -> None:
    task = hub_bench.submit()
    worker = worker_of(task)
    hub_bench.sent(worker)
    hub_bench.ask("cancel", task.id, force, True)
    if force:
        assert worker.ending == "killed"
    else:
        assert hub_bench.sent(worker) == [m.CancelWork(task.id)]
    hub_bench.lose(worker)
    assert isinstance(hub_bench.error_of(task.id), exceptions.TaskCancelledError)


def test_a_running_task_is_told_once_that_it_is_cancelled(hub_bench: HubBench) -> None:
    task = hub_bench.submit()
    worker = worker_of(task)
    hub_bench.sent(worker)
    for _ in range(2):
        hub_bench.ask("cancel", task.id, False, True)
    assert hub_bench.sent(worker) == [m.CancelWork(task.id)]


def test_what_a_cancelled_task_has_submitted_may_be_forgotten_by_now(hub_bench: HubBench) -> None:
    task = hub_bench.submit()
    hub_bench.hub.state.children[task.id] = {hub_bench.new_id()}
    hub_bench.ask("cancel", task.id, False, True)
    assert task.cancelled


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_task_that_had_no_memory_is_tried_later_unless_it_is_cancelled(
    hub_bench: HubBench, cancelled: bool
) -> None:
    task = hub_bench.submit(max_retries=0)
    worker = worker_of(task)
    worker.evicted = Eviction(exceptions.OutOfMemoryError("too little"), repeat=True)
    hub_bench.lose(worker)
    assert task.worker is None
    if cancelled:
        hub_bench.ask("cancel", task.id, False, True)
    hub_bench.pass_time()
    assert (task.worker is None) is cancelled
    assert hub_bench.is_done(task.id) is cancelled


def test_a_worker_that_could_not_be_made_ready_says_why(hub_bench: HubBench) -> None:
    task = hub_bench.submit(max_retries=3)
    worker = worker_of(task)
    worker.failure = exceptions.RuntimeEnvSetupError("no such package")
    hub_bench.lose(worker)
    assert isinstance(hub_bench.error_of(task.id), exceptions.RuntimeEnvSetupError)
    assert task.attempt == 0


def test_cancelling_goes_down_to_what_a_task_has_submitted(hub_bench: HubBench) -> None:
    parent = hub_bench.submit()
    child = hub_bench.submit(num_cpus=2)
    child.parent = parent.id
    hub_bench.hub.state.children[parent.id] = {child.id}
    hub_bench.ask("cancel", parent.id, False, True)
    assert isinstance(hub_bench.error_of(child.id), exceptions.TaskCancelledError)
    assert hub_bench.hub.state.children == {}
    hub_bench.ask("cancel", 12345, False, True)  # unknown: nothing to do


def test_what_a_worker_gives_back_is_for_others_unless_it_was_cancelled(
    one_cpu_bench: HubBench,
) -> None:
    bench = one_cpu_bench
    bench.function.window = 8
    first, second, third = (bench.submit() for _ in range(3))
    worker = worker_of(first)
    bench.ask("cancel", second.id, False, False)
    bench.receive(worker, m.GaveBack([second.id, third.id]))
    assert isinstance(bench.error_of(second.id), exceptions.TaskCancelledError)
    assert not bench.is_done(third.id)
    bench.finish(first)
    bench.finish(third)


def test_a_process_that_has_run_often_enough_is_replaced(hub_bench: HubBench) -> None:
    task = hub_bench.submit(max_calls=1)
    worker = worker_of(task)
    hub_bench.finish(task)
    assert worker.ending == "max_calls"
    assert m.ExitWorker() in hub_bench.sent(worker)
    assert worker_of(hub_bench.submit(max_calls=1)) is not worker


def test_no_worker_can_be_had(hub_bench: HubBench, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_sockets(*args: Any) -> None:
        raise OSError(24, "")

    monkeypatch.setattr("socket.socketpair", no_sockets)
    error = hub_bench.error_of(hub_bench.submit().id)
    assert isinstance(error, exceptions.WorkerCrashedError)
    assert "ulimit -n" in str(error)
    actor = hub_bench.create_actor()
    died = hub_bench.error_of(hub_bench.call(actor).id)
    assert isinstance(died, exceptions.ActorDiedError)
    assert "ulimit -n" in str(died)


def test_a_method_that_is_retried_is_sent_to_its_actor_again(hub_bench: HubBench) -> None:
    actor = hub_bench.create_actor()
    hub_bench.finish(actor.creation)
    call = hub_bench.call(actor, max_task_retries=1, retry_exceptions=True)
    worker = worker_of(call)
    hub_bench.sent(worker)
    hub_bench.receive(worker, m.RetryWork(call.id, FAILED, ERROR, 5))
    (again,) = hub_bench.sent(worker)
    assert (again.operation, again.id) == (m.CALL, call.id)
    hub_bench.receive(worker, m.RetryWork(call.id, FAILED, ERROR, 5))  # once was allowed
    assert isinstance(hub_bench.error_of(call.id), KeyError)


def test_a_call_is_sent_once_its_argument_is_there(hub_bench: HubBench) -> None:
    actor, missing = hub_bench.create_actor(), hub_bench.put(None)
    hub_bench.finish(actor.creation)
    call = hub_bench.call(actor, missing)
    assert call.worker is None
    hub_bench.hub.values.complete(missing.id, INLINE, NONE)
    (sent,) = [one for one in hub_bench.sent(worker_of(call)) if one.operation == m.CALL]
    assert [id for _, _, _, id in sent.dependencies] == [missing.id]


def test_what_comes_of_work_that_nobody_waits_for_any_more_is_given_back(
    hub_bench: HubBench,
) -> None:
    task = hub_bench.submit()
    worker = worker_of(task)
    hub_bench.finish(task)
    hub_bench.receive(worker, m.WorkResult(task.id, STORED, ("s0-9", 100), (), 5))
    assert hub_bench.store.recycled == ["s0-9"]
    assert hub_bench.entries[task.id].kind == INLINE


def test_the_error_of_a_retry_that_was_cancelled_says_so(hub_bench: HubBench) -> None:
    task = hub_bench.submit(max_retries=1)
    hub_bench.hub.tasks.cancel(hub_bench.entries[task.id], force=False, recursive=False)
    hub_bench.receive(worker_of(task), m.RetryWork(task.id, FAILED, ERROR, 5))
    assert isinstance(hub_bench.error_of(task.id), exceptions.TaskCancelledError)


def test_an_error_that_was_told_already_is_not_shown_as_unread(hub_bench: HubBench) -> None:
    told, untold = hub_bench.submit(), hub_bench.submit()
    hub_bench.entries[told.id].read = True  # by a wait that has failed in its place
    hub_bench.drop(told.id, untold.id)
    for task in (told, untold):
        hub_bench.finish(task, FAILED, ERROR)
    assert not hub_bench.hub.unread.told
    assert [*hub_bench.hub.unread._packed] == [ERROR]


def test_an_event_that_nobody_refers_to_cannot_fail(hub_bench: HubBench) -> None:
    hub_bench.hub.values.fail_from_now_on(12345, ERROR)
    event = hub_bench.put(None)
    hub_bench.hub.values.fail_from_now_on(event.id, ERROR)
    assert isinstance(hub_bench.error_of(event.id), KeyError)
