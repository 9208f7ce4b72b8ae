"""Calling functions remotely: arguments, results, options, retries."""

import enum
import os
import random
import time

import numpy as np
import pytest

import skate
from tests.support import eventually, local_only, parallel

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
def echo(*args, **kwargs):
    return args, kwargs


@skate.remote
def add(a, b=10, *, c=0):
    return a + b + c


# -- arguments ------------------------------------------------------------------------------------


def test_positional_keyword_and_default_arguments():
    assert skate.get(add.remote(1)) == 11
    assert skate.get(add.remote(1, 2)) == 3
    assert skate.get(add.remote(1, c=5)) == 16
    assert skate.get(add.remote(a=1, b=2, c=3)) == 6


def test_variable_arguments_arrive_as_they_were_given():
    assert skate.get(echo.remote()) == ((), {})
    assert skate.get(echo.remote(1, [2], x={"y": 3})) == ((1, [2]), {"x": {"y": 3}})


def test_arguments_are_taken_at_the_time_of_the_call(engine, flag):
    data = [1]
    ref = echo.remote(data)
    data.append(2)
    assert skate.get(ref) == (([1],), {})


def test_the_caller_does_not_see_what_the_task_does_to_its_arguments():
    @skate.remote
    def spoil(data):
        data.append("spoiled")
        return data

    data = []
    assert skate.get(spoil.remote(data)) == ["spoiled"]
    assert data == []


def test_a_reference_as_an_argument_becomes_its_value():
    one = skate.put(1)
    assert skate.get(add.remote(one, b=skate.put(2), c=add.remote(one, one))) == 5


def test_a_reference_inside_an_argument_stays_a_reference():
    @skate.remote
    def look(boxed, named):
        return isinstance(boxed[0], skate.ObjectRef), skate.get(boxed[0]) + skate.get(named["x"])

    assert skate.get(look.remote([skate.put(1)], {"x": add.remote(1, 1)})) == (True, 3)


def test_the_same_reference_twice_in_one_call():
    ref = skate.put([1])
    assert skate.get(echo.remote(ref, ref, x=ref)) == (([1], [1]), {"x": [1]})


def test_a_chain_of_tasks():
    ref = add.remote(0, 0)
    for _ in range(20):
        ref = add.remote(ref, 1)
    assert skate.get(ref) == 20


@pytest.mark.parametrize("call", [lambda: add.remote(), lambda: add.remote(1, 2, 3)])
def test_arguments_that_do_not_fit_are_refused_at_the_call(call):
    with pytest.raises(TypeError):
        call()


def test_an_unknown_keyword_is_refused_at_the_call():
    with pytest.raises(TypeError, match="surprise"):
        add.remote(1, surprise=2)


# -- results --------------------------------------------------------------------------------------


def test_several_results():
    @skate.remote(num_returns=3)
    def three():
        return 1, "two", [3]

    refs = three.remote()
    assert isinstance(refs, list)
    assert skate.get(refs) == [1, "two", [3]]


def test_several_results_from_any_iterable():
    assert skate.get(echo.options(num_returns=2).remote(1)) == [(1,), {}]


def test_no_result():
    assert echo.options(num_returns=0).remote() is None


def test_one_result_is_a_reference_and_not_a_list():
    assert isinstance(add.remote(1), skate.ObjectRef)


@pytest.mark.parametrize("returned", [(1,), (1, 2, 3), 5])
def test_a_wrong_number_of_results_is_an_error(returned):
    @skate.remote(num_returns=2, max_retries=0)
    def wrong():
        return returned

    for ref in wrong.remote():
        with pytest.raises((ValueError, TypeError)):
            skate.get(ref)


def test_an_error_is_the_value_of_every_result():
    @skate.remote(num_returns=2)
    def fail():
        raise ValueError("both")

    for ref in fail.remote():
        with pytest.raises(ValueError, match="both"):
            skate.get(ref)


@pytest.mark.differs_from_ray("Ray dropped this spelling in 1.0")
def test_the_old_spelling_of_several_results():
    @skate.remote(num_return_vals=2)
    def two():
        return 1, 2

    assert skate.get(two.remote()) == [1, 2]
    assert skate.get(echo.options(num_return_vals=2).remote()) == [(), {}]


# -- ways to make a remote function ---------------------------------------------------------------


def test_remote_as_a_call():
    assert skate.get(skate.remote(lambda x: x * 2).remote(4)) == 8


def test_remote_with_options_as_a_call():
    assert skate.get(skate.remote(num_cpus=1, num_returns=2)(lambda: (1, 2)).remote()) == [1, 2]


def test_a_closure_takes_its_variables_along():
    offset = 5
    table = {"k": [1, 2]}

    @skate.remote
    def use(x):
        return x + offset + table["k"][1]

    assert skate.get(use.remote(1)) == 8


def test_a_reference_in_a_closure():
    ref = skate.put("kept")

    @skate.remote
    def use():
        return skate.get(ref)

    assert skate.get(use.remote()) == "kept"


def test_a_task_that_calls_itself():
    @skate.remote
    def factorial(n):
        return 1 if n == 0 else n * skate.get(factorial.remote(n - 1))

    assert skate.get(factorial.remote(6)) == 720


def test_a_task_that_calls_others():
    @skate.remote
    def spread(n):
        return skate.get([add.remote(i, i) for i in range(n)])

    assert skate.get(spread.remote(4)) == [0, 2, 4, 6]


def test_a_task_may_return_a_reference_it_made():
    @skate.remote
    def outer():
        return add.remote(1, 1)

    assert skate.get(skate.get(outer.remote())) == 2


def test_a_function_of_a_script():
    script = {"__name__": "__main__", "remote": skate.remote}
    exec(
        "HELPER = 3\ndef helper(x): return x * HELPER\n@remote\ndef f(x): return helper(x)", script
    )
    assert skate.get(script["f"].remote(2)) == 6


def test_a_function_can_be_redefined():
    def define(answer):
        @skate.remote
        def f():
            return answer

        return f

    assert skate.get(define(1).remote()) == 1
    assert skate.get(define(2).remote()) == 2


def test_a_remote_function_is_not_called_like_a_plain_one():
    with pytest.raises(TypeError, match="remote"):
        add(1, 2)


@pytest.mark.differs_from_ray("Ray keeps only the docstring")
def test_the_name_and_docstring_stay():
    @skate.remote
    def documented():
        """What it does."""

    assert documented.__name__ == "documented"
    assert documented.__doc__ == "What it does."


def test_remote_functions_are_values():
    @skate.remote
    def apply(function, x):
        return skate.get(function.remote(x))

    assert skate.get(apply.remote(add, 1)) == 11


# -- options --------------------------------------------------------------------------------------


def test_options_do_not_change_the_function():
    two = echo.options(num_returns=2)
    assert len(two.remote()) == 2
    assert isinstance(echo.remote(), skate.ObjectRef)


def test_a_task_has_a_name():
    @skate.remote
    def name():
        return skate.get_runtime_context().get_task_name()

    assert skate.get(name.options(name="by options").remote()) == "by options"
    assert "name" in skate.get(name.remote())


@pytest.mark.parametrize(
    "options",
    [
        {"num_cpu": 1},
        {"num_cpus": -1},
        {"num_gpus": -0.5},
        {"num_returns": -1},
        {"num_returns": "sometimes"},
        {"max_retries": -2},
        {"max_calls": -1},
        {"resources": {"CPU": 1}},
        {"num_gpus": 1.5},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises((ValueError, TypeError)):
        echo.options(**options).remote()


@pytest.mark.differs_from_ray("Ray takes no NumPy numbers")
def test_options_may_be_of_subclasses_of_plain_types():
    class Name(str, enum.Enum):
        FIRST = "the first"

    @skate.remote
    def name():
        return skate.get_runtime_context().get_task_name()

    assert skate.get(name.options(name=Name.FIRST).remote(), timeout=60) == "the first"
    numbers = {"num_cpus": np.float32(0.5), "num_returns": np.int64(2), "max_retries": np.int8(1)}
    task = skate.remote(lambda: (1, 2)).options(**numbers)
    assert skate.get(task.remote(), timeout=np.float64(60)) == [1, 2]
    assert skate.get(name.remote(), timeout=60)


@skate.remote
class Dice:
    def throw(self):
        return random.random(), float(np.random.rand())


@pytest.mark.init(preload=["numpy"])
@pytest.mark.differs_from_ray("Ray has no preload")
def test_processes_draw_different_random_numbers():
    dice = [Dice.options(num_cpus=0).remote() for _ in range(4)]
    for throws in zip(*skate.get([die.throw.remote() for die in dice], timeout=60), strict=True):
        assert len(set(throws)) == 4


@pytest.mark.parametrize("thing", [5, "text", None])
def test_only_functions_and_classes_can_be_remote(thing):
    with pytest.raises((TypeError, AssertionError)):
        skate.remote(thing)


# -- retries and workers --------------------------------------------------------------------------


def test_an_error_of_the_task_is_not_retried_by_default(tally):
    @skate.remote
    def fail():
        tally.add()
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        skate.get(fail.remote())
    assert len(tally) == 1


def test_any_error_is_retried_on_request(tally):
    @skate.remote(max_retries=3, retry_exceptions=True)
    def third_time():
        if tally.add() < 3:
            raise ValueError("not yet")
        return "done"

    assert skate.get(third_time.remote()) == "done"
    assert len(tally) == 3


def test_retries_come_to_an_end(tally):
    @skate.remote(max_retries=2, retry_exceptions=True)
    def never():
        tally.add()
        raise ValueError("never")

    with pytest.raises(ValueError, match="never"):
        skate.get(never.remote())
    assert len(tally) == 3


@pytest.mark.parametrize(("error", "attempts"), [(KeyError, 2), (ValueError, 1)])
def test_only_the_listed_errors_are_retried(tally, error, attempts):
    @skate.remote(max_retries=1, retry_exceptions=[KeyError, OSError])
    def fail():
        tally.add()
        raise error("x")

    with pytest.raises(error):
        skate.get(fail.remote())
    assert len(tally) == attempts


def test_a_subclass_of_a_listed_error_is_retried(tally):
    @skate.remote(max_retries=1, retry_exceptions=[OSError])
    def fail():
        tally.add()
        raise FileNotFoundError("x")

    with pytest.raises(FileNotFoundError):
        skate.get(fail.remote())
    assert len(tally) == 2


def test_no_retries_at_all(tally):
    @skate.remote(max_retries=0, retry_exceptions=True)
    def fail():
        tally.add()
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        skate.get(fail.remote())
    assert len(tally) == 1


@parallel
def test_max_calls_gives_a_fresh_process():
    @skate.remote(max_calls=1)
    def pid():
        return os.getpid()

    assert len({skate.get(pid.remote()) for _ in range(3)}) == 3


def test_a_decorator_of_calls_sees_and_changes_them():
    def twice(invoke):
        return lambda args, kwargs: [invoke(args, kwargs), invoke((args[0] + 1,), {"by": 10})]

    def times(x, by=1):
        return x * by

    times.__ray_invocation_decorator__ = twice
    remote_times = skate.remote(times)
    assert skate.get(remote_times.remote(1, by=2)) == [2, 20]
    assert skate.get(remote_times.options(num_cpus=0).remote(1)) == [1, 20]


@parallel
def test_a_task_runs_in_another_process():
    assert skate.get(skate.remote(lambda: os.getpid()).remote()) != os.getpid()


@parallel
def test_submission_does_not_wait_for_the_task(flag):
    go = flag("go")

    @skate.remote
    def wait():
        go.wait()
        return "went"

    ref = wait.remote()
    go.set()
    assert skate.get(ref) == "went"


@parallel
def test_two_tasks_run_at_the_same_time(flag):
    here, there = flag("here"), flag("there")

    @skate.remote
    def meet(mine, other):
        mine.set()
        other.wait()
        return True

    assert skate.get([meet.remote(here, there), meet.remote(there, here)]) == [True, True]


@local_only
def test_pauses_between_retries_grow(tally):
    @skate.remote(max_retries=4, retry_exceptions=True)
    def never():
        tally.add()
        raise ValueError("never")

    began = time.monotonic()
    with pytest.raises(ValueError, match="never"):
        skate.get(never.remote(), timeout=60)
    assert time.monotonic() - began >= 0.05 + 0.1 + 0.2
    assert len(tally) == 5


def test_all_values_of_a_task_fail_when_its_last_retry_does():
    @skate.remote(num_returns=2, max_retries=1, retry_exceptions=True)
    def pair():
        raise ValueError("never")

    for ref in pair.remote():
        with pytest.raises(ValueError, match="never"):
            skate.get(ref, timeout=60)


@local_only
def test_a_task_that_pauses_before_a_retry_can_be_cancelled(tally):
    @skate.remote(max_retries=-1, retry_exceptions=True)
    def never():
        tally.add()
        raise ValueError("never")

    ref = never.remote()
    eventually(lambda: len(tally) >= 3)
    skate.cancel(ref)
    with pytest.raises(skate.exceptions.TaskCancelledError):
        skate.get(ref, timeout=60)
