"""The pool with the interface of multiprocessing.Pool."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skate
from skate.util.multiprocessing import Pool, TimeoutError
from tests.support import PATIENCE, Flag, Tally, local_only, parallel, run_program

pytestmark = pytest.mark.usefixtures("engine")


def square(x: int) -> int:
    return x * x


def add(a: int, b: int = 0) -> int:
    return a + b


def odd_only(x: int) -> int:
    if x % 2 == 0:
        raise ValueError(f"{x} is even")
    return x


def after(flag: Flag, value: Any) -> Any:
    flag.wait()
    return value


def pid(_: object = None) -> int:
    return os.getpid()


class AwkwardError(Exception):
    """Cannot be rebuilt from its arguments."""

    def __init__(self, code: int, detail: str) -> None:
        super().__init__(f"{code}: {detail}")


def awkward(x: int) -> None:
    raise AwkwardError(x, "x")


# -- results ------------------------------------------------------------------------------------


def test_apply() -> None:
    with Pool(1) as pool:
        assert pool.apply(add, (1, 2)) == 3
        assert pool.apply(add, (1,), {"b": 5}) == 6
        assert pool.apply_async(add, [1], kwds={"b": 2}).get(PATIENCE) == 3


@pytest.mark.parametrize("chunksize", [None, 1, 3, 100])
def test_map_and_starmap_keep_the_order(chunksize: int | None) -> None:
    with Pool(2) as pool:
        assert pool.map(square, range(20), chunksize) == [i * i for i in range(20)]
        assert pool.map(square, iter(range(3)), chunksize) == [0, 1, 4]
        pairs = zip(range(20), range(20), strict=True)
        assert pool.starmap(add, pairs, chunksize) == [2 * i for i in range(20)]
        assert pool.starmap_async(add, [(1, 2)], chunksize=chunksize).get(PATIENCE) == [3]


def test_no_work_is_done_at_once() -> None:
    called: list[Any] = []
    with Pool(1) as pool:
        assert pool.map(square, []) == []
        assert pool.map_async(square, [], callback=called.append).ready()
        assert list(pool.imap(square, [])) == []
    assert called == [[]]


@pytest.mark.parametrize("chunksize", [1, 3])
def test_imap_is_in_order_and_imap_unordered_is_complete(chunksize: int) -> None:
    with Pool(2) as pool:
        assert list(pool.imap(square, range(10), chunksize)) == [i * i for i in range(10)]
        found = pool.imap_unordered(square, iter(range(10)), chunksize)
        assert sorted(found) == [i * i for i in range(10)]


def test_imap_takes_its_inputs_as_results_are_taken() -> None:
    inputs = itertools.count(1)
    with Pool(2) as pool:
        results = pool.imap(square, inputs)
        assert [next(results) for _ in range(5)] == [1, 4, 9, 16, 25]
        assert next(inputs) < 20


@parallel
def test_imap_unordered_gives_what_is_ready_first(flag: Callable[[str], Flag]) -> None:
    slow, quick = flag("slow"), flag("quick")
    quick.set()
    with Pool(2) as pool:
        results = pool.imap_unordered(lambda f: after(f, f is not None), [slow, quick])
        assert results.next(timeout=PATIENCE) is True
        with pytest.raises(TimeoutError):
            results.next(timeout=0.01)
        slow.set()
        assert results.next(timeout=PATIENCE) is True
        with pytest.raises(StopIteration):
            results.next()


# -- errors -------------------------------------------------------------------------------------


def test_an_exception_is_the_users_own_and_shows_where_it_happened() -> None:
    with Pool(2) as pool:
        with pytest.raises(ValueError, match="0 is even") as info:
            pool.map(odd_only, range(5), chunksize=2)
        assert type(info.value) is ValueError
        assert "odd_only" in str(info.value.__cause__)
        assert pool.map(odd_only, [1, 3]) == [1, 3]


@parallel
def test_all_processes_have_their_part_in_short_calls() -> None:
    with Pool(2) as pool:
        assert len({pool.apply(os.getpid) for _ in range(4)}) == 2


def test_imap_goes_on_after_an_exception() -> None:
    with Pool(2) as pool:
        results = pool.imap(odd_only, [1, 2, 3])
        assert next(results) == 1
        with pytest.raises(ValueError, match="2 is even"):
            next(results)
        assert list(results) == [3]


def test_an_exception_that_pickle_cannot_rebuild() -> None:
    with Pool(1) as pool, pytest.raises(AwkwardError, match="4: x"):
        pool.apply(awkward, (4,))


def test_what_cannot_be_sent_fails_alone() -> None:
    with Pool(1) as pool:
        with pytest.raises(TypeError, match="lock"):
            pool.apply(add, (threading.Lock(), 1))
        with pytest.raises(TypeError, match="lock"):
            pool.apply(threading.Lock)
        assert pool.apply(add, (1, 2)) == 3


@local_only
def test_a_process_that_dies_fails_its_calls_and_is_replaced() -> None:
    with Pool(2) as pool:
        result = pool.map_async(lambda x: os._exit(1) if x == 2 else x, range(6), chunksize=1)
        with pytest.raises(skate.exceptions.ActorDiedError):
            result.get(PATIENCE)
        assert pool.map(square, range(6)) == [i * i for i in range(6)]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"processes takes .* at least 1; got 0"):
        Pool(0)
    with pytest.raises(ValueError, match=r"maxtasksperchild takes .* at least 1; got -1"):
        Pool(1, maxtasksperchild=-1)
    with Pool(1) as pool:
        with pytest.raises(TypeError, match="func must be callable"):
            pool.map(3, [1])  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="callback must be callable"):
            pool.starmap_async(add, [(1, 2)], 4)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="chunksize"):
            pool.map(square, [1], chunksize=0)


def test_a_context_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="has no effect"):
        Pool(1, context=multiprocessing.get_context("spawn")).terminate()


# -- asynchronous results -----------------------------------------------------------------------


@parallel
def test_a_result_becomes_ready(flag: Callable[[str], Flag]) -> None:
    gate = flag("gate")
    with Pool(1) as pool:
        result = pool.apply_async(after, (gate, 7))
        result.wait(0.01)
        assert not result.ready()
        with pytest.raises(ValueError, match="not ready"):
            result.successful()
        with pytest.raises(multiprocessing.TimeoutError):
            result.get(timeout=0.01)
        gate.set()
        assert result.get(timeout=PATIENCE) == 7
        assert result.ready()
        assert result.successful()


def test_callbacks_get_the_result_or_the_exception() -> None:
    results: list[Any] = []
    errors: list[Any] = []
    both: dict[str, Any] = {"callback": results.append, "error_callback": errors.append}
    with Pool(2) as pool:
        good = pool.apply_async(square, (3,), **both)
        bad = pool.map_async(odd_only, [1, 2, 3], 1, **both)
        good.wait(PATIENCE)
        bad.wait(PATIENCE)
        assert not bad.successful()
    assert results == [9]
    assert [str(error) for error in errors] == ["2 is even"]


def test_a_callback_may_use_the_pool_and_skate() -> None:
    results: list[int] = []
    with Pool(1) as pool:
        done = threading.Event()

        def more(value: int) -> None:
            results.append(skate.get(skate.put(value)))
            if value < 300:  # deep enough to notice callbacks that nest
                pool.apply_async(add, (value, 1), callback=more)
            else:
                done.set()

        pool.apply_async(add, (0, 1), callback=more)
        assert done.wait(PATIENCE)
    assert results == list(range(1, 301))


def test_a_callback_that_fails_does_not_stop_the_pool(caplog: pytest.LogCaptureFixture) -> None:
    with Pool(1) as pool:
        assert pool.apply_async(square, (2,), callback=odd_only).get(PATIENCE) == 4
        assert pool.apply(square, (3,)) == 9
    assert "callback" in caplog.text


# -- processes ----------------------------------------------------------------------------------


@local_only
def test_calls_run_in_so_many_other_processes(flag: Callable[[str], Flag]) -> None:
    def meet(name: str) -> int:
        flags = {"a": flag("a"), "b": flag("b")}
        flags.pop(name).set()
        flags.popitem()[1].wait()
        return os.getpid()

    with Pool(2) as pool:
        first, second = pool.map(meet, ["a", "b"], chunksize=1)
    assert len({first, second, os.getpid()}) == 3


@local_only
def test_the_default_is_one_process_for_each_cpu() -> None:
    with Pool() as pool:
        assert pool._processes == 2


def test_the_initializer_runs_in_every_process(tally: Tally) -> None:
    with Pool(2, tally.add, ["ready"]) as pool:
        assert pool.map(square, [3]) == [9]
    assert tally.words() == ["ready", "ready"]


def test_an_initializer_that_fails_is_an_error_at_once() -> None:
    with pytest.raises(Exception, match="2 is even"):
        Pool(1, odd_only, (2,))


@local_only
def test_processes_are_replaced_after_so_many_chunks() -> None:
    with Pool(1, maxtasksperchild=2) as pool:
        pids = pool.map(pid, range(6), chunksize=1)
        assert len(set(pids)) == 3


def test_options_go_to_the_actors() -> None:
    with Pool(2, ray_remote_args={"num_cpus": 1}) as pool:
        assert pool.map(square, [1, 2]) == [1, 4]
        assert "CPU" not in skate.available_resources()


# -- the end ------------------------------------------------------------------------------------


@parallel
def test_close_lets_work_finish_and_join_waits_for_it(flag: Callable[[str], Flag]) -> None:
    gate = flag("gate")
    pool = Pool(1)
    results = [pool.apply_async(after, (gate, i)) for i in range(3)]
    lazy = pool.imap(square, range(50))
    pool.close()
    with pytest.raises(ValueError, match="Pool not running: it is closed"):
        pool.apply(square, (1,))
    gate.set()
    pool.join()
    assert all(result.ready() for result in results)
    assert [result.get() for result in results] == [0, 1, 2]
    assert list(lazy) == [i * i for i in range(50)]


def test_join_needs_a_closed_pool() -> None:
    with Pool(1) as pool, pytest.raises(ValueError, match="still running"):
        pool.join()


@parallel
def test_terminate_fails_what_is_not_done(flag: Callable[[str], Flag]) -> None:
    pool = Pool(1)
    running = pool.apply_async(after, (flag("never"), 1))
    waiting = pool.apply_async(square, (1,))
    pool.terminate()
    pool.join()
    for result in (running, waiting):
        with pytest.raises(skate.exceptions.ActorDiedError, match="terminated"):
            result.get(PATIENCE)


def test_a_closed_pool_cannot_be_entered() -> None:
    pool = Pool(1)
    pool.close()
    pool.close()
    pool.join()
    with pytest.raises(ValueError, match="closed"), pool:
        pass


def test_a_forgotten_pool_ends_by_itself() -> None:
    pool = Pool(1, ray_remote_args={"name": "worker"})
    assert pool.map(square, [2]) == [4]
    dispatcher = pool._dispatcher
    del pool
    gc.collect()
    dispatcher.join()
    assert skate.util.list_named_actors() == []


def test_a_pool_cannot_be_sent() -> None:
    with Pool(1) as pool, pytest.raises(TypeError, match="cannot be sent"):
        skate.put(pool)


@pytest.mark.engines("inline")
def test_inline_everything_happens_in_the_callers_thread() -> None:
    threads: set[int] = set()
    with Pool(2) as pool:
        seen = pool.map(lambda _: threading.get_ident(), range(5))
        pool.apply_async(square, (2,), callback=lambda _: threads.add(threading.get_ident()))
    assert {*seen, *threads} == {threading.get_ident()}


def test_a_pool_that_is_never_closed_ends_quietly_with_its_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from skate.util.multiprocessing import Pool\n"
        "pool = Pool(1)\n"
        "print(pool.map(abs, [-1, -2]))\n"
    )
    ran = run_program([sys.executable, program], check=True)
    assert (ran.stdout, ran.stderr) == ("[1, 2]\n", "")


def test_a_pool_that_outlives_the_modules_ends_quietly(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, threading\n"
        "from skate.util.multiprocessing import Pool, _dispatch\n"
        "with Pool(1) as pool:\n"
        "    threading.kept = pool  # as the traceback of an interrupt may keep it\n"
        "    sys.kept = _dispatch\n"
    )
    ran = run_program([sys.executable, program], check=True)
    assert (ran.stdout, ran.stderr) == ("", "")
