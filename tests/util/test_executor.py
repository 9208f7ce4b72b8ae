"""`skate.util.Executor` behaves as the executors of the standard library do."""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref
from concurrent.futures.process import BrokenProcessPool

import pytest

import skate
from skate.engine import current_engine
from skate.exceptions import TaskError, WorkerCrashedError
from skate.util import Executor, state
from skate.util.executor import CallCrashedError
from tests.support import PATIENCE, Program, eventually, local_only, parallel, run_program

pytestmark = pytest.mark.usefixtures("engine")


def square(number):
    return number * number


class NothingWrongError(Exception):
    """An error that is false."""

    def __bool__(self):
        return False


class Held:
    """A result that can be watched."""


class TestSubmit:
    def test_a_result(self):
        with Executor() as executor:
            assert executor.submit(pow, 2, 8).result(PATIENCE) == 256

    def test_keywords_even_those_of_its_own(self):
        with Executor() as executor:
            future = executor.submit(lambda **given: sorted(given), fn=1, self=2)
            assert future.result(PATIENCE) == ["fn", "self"]

    def test_closures_and_callable_objects(self):
        class Adder:
            def __init__(self, number):
                self.number = number

            def __call__(self, other):
                return self.number + other

        with Executor() as executor:
            assert executor.submit(Adder(1), 2).result(PATIENCE) == 3
            assert executor.submit(Adder(5).__call__, 2).result(PATIENCE) == 7

    def test_a_reference_is_replaced_by_its_value(self):
        with Executor() as executor:
            assert executor.submit(square, skate.put(3)).result(PATIENCE) == 9

    def test_a_result_is_the_same_object_each_time(self):
        with Executor() as executor:
            future = executor.submit(list, "ab")
            assert future.result(PATIENCE) is future.result(PATIENCE)

    def test_what_is_no_function(self):
        with Executor() as executor, pytest.raises(TypeError, match="fn takes a function; got 3"):
            executor.submit(3)  # type: ignore[arg-type]

    def test_wrong_arguments_are_the_exception_of_the_future(self):
        with Executor() as executor:
            assert isinstance(executor.submit(square).exception(PATIENCE), TypeError)

    def test_what_cannot_be_sent_is_the_exception_of_the_future(self):
        with Executor() as executor:
            error = executor.submit(square, threading.Lock()).exception(PATIENCE)
            assert isinstance(error, TypeError)
            assert "lock" in str(error)

    def test_a_generator_cannot_be_a_result(self):
        def numbers():
            yield 1

        with Executor() as executor:
            assert isinstance(executor.submit(numbers).exception(PATIENCE), TypeError)


class TestErrors:
    def test_the_exception_is_that_of_the_call_with_the_remote_traceback(self):
        def fails():
            raise KeyError("missing")

        with Executor() as executor:
            error = executor.submit(fails).exception(PATIENCE)
        assert type(error) is KeyError
        assert isinstance(error.__cause__, TaskError)
        assert "in fails" in str(error.__cause__)

    def test_result_raises_it(self):
        with Executor() as executor, pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result(PATIENCE)

    @pytest.mark.parametrize("most", [None, 1])
    def test_result_raises_it_even_if_it_is_false(self, most):
        def fails():
            raise NothingWrongError

        with Executor(most) as executor, pytest.raises(NothingWrongError):
            executor.submit(fails).result(PATIENCE)

    @local_only
    def test_a_process_that_dies(self):
        with Executor(options={"max_retries": 0}) as executor:
            error = executor.submit(os._exit, 3).exception(PATIENCE)
            assert isinstance(error, CallCrashedError)
            assert isinstance(error, BrokenProcessPool)
            assert isinstance(error, WorkerCrashedError)
            assert executor.submit(square, 3).result(PATIENCE) == 9  # it goes on

    @local_only
    def test_a_call_whose_process_dies_is_repeated(self, tally):
        def dies_at_first(tally):
            if tally.add() == 1:
                os._exit(1)
            return "done"

        with Executor() as executor:
            assert executor.submit(dies_at_first, tally).result(PATIENCE) == "done"


class TestFutures:
    @parallel
    def test_a_result_that_is_not_there_in_time(self, flag):
        with Executor() as executor:
            future = executor.submit(flag("go").wait)
            with pytest.raises(concurrent.futures.TimeoutError):
                future.result(timeout=0.01)
            with pytest.raises(concurrent.futures.TimeoutError):
                future.exception(timeout=0.01)
            flag("go").set()
            assert future.result(PATIENCE) is None

    @parallel
    def test_states(self, flag):
        with Executor() as executor:
            future = executor.submit(lambda: (flag("begun").set(), flag("go").wait()))
            flag("begun").wait()
            assert future.running()
            assert not future.done()
            assert not future.cancel()
            flag("go").set()
            future.result(PATIENCE)
            assert future.done()
            assert not future.running()
            assert not future.cancelled()

    @parallel
    def test_wait_and_as_completed(self, flag):
        with Executor() as executor:
            late, early = executor.submit(flag("go").wait), executor.submit(square, 2)
            done, not_done = concurrent.futures.wait(
                [late, early], PATIENCE, concurrent.futures.FIRST_COMPLETED
            )
            assert (done, not_done) == ({early}, {late})
            flag("go").set()
            ordered = [*concurrent.futures.as_completed([late, early], PATIENCE)]
            assert {*ordered} == {late, early}

    def test_callbacks_run_once_and_may_block(self):
        seen, told = [], threading.Event()

        def tell(future):
            seen.append(future.result())
            executor.submit(square, 4).result(PATIENCE)
            told.set()

        with Executor() as executor:
            executor.submit(square, 3).add_done_callback(tell)
            assert told.wait(PATIENCE)
        assert seen == [9]

    def test_a_callback_that_fails_is_logged(self, caplog):
        with Executor() as executor:
            executor.submit(square, 3).add_done_callback(lambda future: 1 / 0)
            executor.shutdown()
        eventually(lambda: "exception calling callback" in caplog.text)

    def test_asyncio(self):
        async def main():
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(executor, square, 5)

        with Executor() as executor:
            assert asyncio.run(main()) == 25

    @parallel
    @pytest.mark.init(num_cpus=1)
    def test_cancelling_what_has_not_begun(self, flag):
        with Executor() as executor:
            first = executor.submit(lambda: (flag("begun").set(), flag("go").wait()))
            flag("begun").wait()
            second = executor.submit(flag("second").set)
            assert second.cancel()
            assert second.cancelled()
            with pytest.raises(concurrent.futures.CancelledError):
                second.result(0)
            flag("go").set()
            first.result(PATIENCE)
        assert not flag("second").is_set()

    @parallel
    def test_futures_that_nobody_keeps_are_freed(self):
        with Executor() as executor:
            future = executor.submit(square, 2)
            future.result(PATIENCE)
            gone = weakref.ref(future)
            del future
            eventually(lambda: gone() is None)
            assert executor.submit(square, 3).result(PATIENCE) == 9


class TestMap:
    @local_only
    @pytest.mark.parametrize("named", [square, functools.partial(square)])
    def test_its_tasks_have_the_name_of_the_function(self, named):
        with Executor() as executor:
            assert list(executor.map(named, range(4), chunksize=2)) == [0, 1, 4, 9]
            assert {row.name for row in state.list_tasks()} == {"square"}

    def test_results_in_order(self):
        with Executor() as executor:
            assert [*executor.map(pow, range(5), range(5, 10))] == [0, 1, 128, 6561, 262144]

    @pytest.mark.parametrize("chunksize", [1, 2, 3, 100])
    def test_chunks(self, chunksize):
        with Executor() as executor:
            assert [*executor.map(square, range(7), chunksize=chunksize)] == [
                0, 1, 4, 9, 16, 25, 36
            ]  # fmt: skip

    def test_without_items(self):
        with Executor() as executor:
            assert [*executor.map(square, [])] == []
            assert [*executor.map(square, [], buffersize=2)] == []

    def test_an_exception_in_its_turn(self):
        with Executor() as executor:
            results = executor.map(divmod, [1, 1, 1], [2, 0, 2])
            assert next(results) == (0, 1)
            with pytest.raises(ZeroDivisionError):
                next(results)

    @pytest.mark.parametrize("chunksize", [1, 3])
    def test_a_result_that_was_taken_is_not_kept(self, chunksize):
        with Executor() as executor:
            for result in executor.map(lambda _: Held(), range(6), chunksize=chunksize):
                gone = weakref.ref(result)
                del result
                gc.collect()
                assert gone() is None

    @parallel
    def test_a_time_limit(self, flag):
        with Executor() as executor:
            results = executor.map(lambda flag: flag.wait(), [flag("go")], timeout=0.01)
            with pytest.raises(concurrent.futures.TimeoutError):
                next(results)
            flag("go").set()

    def test_a_buffer_bounds_what_is_read_ahead(self):
        read = []

        def numbers():
            for number in range(100):
                read.append(number)
                yield number

        with Executor() as executor:
            results = executor.map(square, numbers(), chunksize=2, buffersize=3)
            assert len(read) == 6
            assert next(results) == 0
            assert len(read) == 8
            assert sum(results) == sum(map(square, range(1, 100)))

    @pytest.mark.parametrize(
        ("given", "error"), [({"chunksize": 0}, ValueError), ({"chunksize": 1.5}, TypeError),
                             ({"buffersize": 0}, ValueError), ({"buffersize": "1"}, TypeError)],
    )  # fmt: skip
    def test_wrong_sizes(self, given, error):
        with Executor() as executor, pytest.raises(error, match=next(iter(given))):
            executor.map(square, [1], **given)


class TestWorkers:
    @local_only
    @pytest.mark.init(num_cpus=3)
    @pytest.mark.parametrize("most", [1, 2, 3, 5])
    def test_how_many_calls_run_at_a_time(self, most, tally, flag):
        def enter(tally, go):
            tally.add()
            go.wait()

        with Executor(most) as executor:
            calls = [executor.submit(enter, tally, flag("go")) for _ in range(8)]
            eventually(lambda: len(tally.words()) >= most)
            assert len(tally.words()) == most
            flag("go").set()
            concurrent.futures.wait(calls, PATIENCE)
        assert len(tally.words()) == 8

    @local_only
    @pytest.mark.init(num_cpus=2)
    def test_cancelling_what_waits_for_a_worker(self, flag):
        with Executor(1) as executor:
            first = executor.submit(flag("go").wait)
            second = executor.submit(square, 1)
            assert second.cancel()
            flag("go").set()
            first.result(PATIENCE)
            assert executor.submit(square, 3).result(PATIENCE) == 9

    def test_an_initializer_runs_once_in_each_process(self, tally):
        def number_of_process(_):
            return os.getpid()

        with Executor(initializer=tally.add, initargs=("ready",)) as executor:
            processes = {*executor.map(number_of_process, range(20))}
        assert 1 <= len(tally.words()) <= max(2, len(processes))

    def test_an_initializer_that_fails(self):
        with Executor(initializer=divmod, initargs=(1, 0)) as executor:
            error = executor.submit(square, 1).exception(PATIENCE)
        assert isinstance(error, BrokenProcessPool)
        assert "ZeroDivisionError" in str(error)

    @local_only
    def test_processes_that_are_replaced(self):
        with Executor(max_tasks_per_child=1, options={"num_cpus": 2}) as executor:
            assert len({executor.submit(os.getpid).result(PATIENCE) for _ in range(3)}) == 3

    @pytest.mark.parametrize(
        ("given", "error"), [({"max_workers": 0}, ValueError), ({"max_workers": "2"}, TypeError),
                             ({"initializer": 3}, TypeError),
                             ({"options": {"cpus": 1}}, ValueError),
                             ({"max_tasks_per_child": 0}, ValueError)],
    )  # fmt: skip
    def test_wrong_arguments(self, given, error):
        with pytest.raises(error, match="cpus" if "options" in given else next(iter(given))):
            Executor(**given)


class TestTheEnd:
    def test_no_calls_after_shutdown(self):
        executor = Executor()
        executor.shutdown()
        executor.shutdown()
        with pytest.raises(RuntimeError, match="after shutdown"):
            executor.submit(square, 1)

    @parallel
    def test_shutdown_waits(self, flag):
        with Executor() as executor:
            executor.submit(lambda: (flag("go").wait(), flag("done").set()))
            flag("go").set()
        assert flag("done").is_set()

    @parallel
    def test_shutdown_without_waiting(self, flag):
        executor = Executor()
        future = executor.submit(flag("go").wait)
        executor.shutdown(wait=False)
        flag("go").set()
        assert future.result(PATIENCE) is None

    @parallel
    @pytest.mark.init(num_cpus=1)
    @pytest.mark.parametrize("most", [None, 1])
    def test_cancelling_what_has_not_begun(self, most, flag):
        executor = Executor(most)
        first = executor.submit(lambda: (flag("begun").set(), flag("go").wait()))
        flag("begun").wait()
        others = [executor.submit(square, number) for number in range(20)]
        executor.shutdown(wait=False, cancel_futures=True)
        flag("go").set()
        executor.shutdown()
        assert first.result(PATIENCE) == (None, None)
        assert all(future.cancelled() for future in others)

    @local_only
    def test_the_end_of_the_session(self, flag):
        executor = Executor()
        future = executor.submit(flag("never").wait)
        skate.shutdown()
        assert isinstance(future.exception(PATIENCE), Exception)
        executor.shutdown()


PROGRAM = """
import time
from skate.util import Executor, state

def late(word):
    time.sleep(0.2)
    print(word, flush=True)

Executor().submit(late, "by CPUs")
Executor(1).submit(late, "by a limit")
"""


@local_only
def test_the_end_of_the_program_waits_for_calls(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    done = run_program([sys.executable, tmp_path / "program.py"], cwd=tmp_path, check=True)
    assert "by CPUs" in done.stdout
    assert "by a limit" in done.stdout


WITH_EXECUTOR = """
    with Executor({most}) as executor:
        futures = [executor.submit(endless) for _ in range(4)]
        futures[0].result()
"""
WITHOUT_WITH = """
    executor = Executor({most})
    executor.submit(endless).result()
"""
INTERRUPTED = """
import threading
from skate.util import Executor, state

def endless():
    print("begun", flush=True)
    threading.Event().wait()

if __name__ == "__main__":
    import skate
    skate.init(num_cpus=2)
"""


@local_only
@pytest.mark.parametrize("most", [None, 1])
@pytest.mark.parametrize("body", [WITH_EXECUTOR, WITHOUT_WITH], ids=["with", "without"])
def test_one_interrupt_ends_the_program(tmp_path, body, most):
    (tmp_path / "program.py").write_text(INTERRUPTED + body.format(most=most))
    command = [sys.executable, tmp_path / "program.py"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Program(command, cwd=tmp_path, **pipes) as program:
        assert "begun" in program.stdout.readline()
        os.killpg(program.pid, signal.SIGINT)
        _, errors = program.communicate(timeout=PATIENCE)
    assert program.returncode == -signal.SIGINT
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert "Exception ignored" not in errors


@local_only
def test_an_interrupt_inside_with_ends_the_calls(flag):
    executor = Executor(1)
    future = executor.submit(flag("never").wait)
    with pytest.raises(KeyboardInterrupt), executor:
        raise KeyboardInterrupt
    assert isinstance(future.exception(PATIENCE), skate.exceptions.TaskCancelledError)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(square, 1)


@local_only
def test_cancelling_one_call_lists_no_others(flag, monkeypatch):
    """Thousands of calls may wait, and each may be cancelled."""
    gate = flag("gate")
    with Executor() as executor:
        for _ in range(int(skate.cluster_resources()["CPU"])):
            executor.submit(gate.wait)
        last = executor.submit(square, 1)
        with monkeypatch.context() as patched:
            patched.setattr(type(current_engine()), "state", None)
            cancelled = last.cancel()
        gate.set()
    assert cancelled
