"""joblib's Parallel on skate."""

from __future__ import annotations

import os
import sys
from typing import Any

import joblib
import numpy as np
import pytest

import skate
from skate.util.joblib import register_ray, register_skate
from tests.support import local_only

pytestmark = pytest.mark.usefixtures("engine")

delayed = joblib.delayed


@pytest.fixture(autouse=True)
def registered() -> None:
    register_skate()
    register_ray()


def square(x: int) -> int:
    return x * x


def odd_only(x: int) -> int:
    if x % 2 == 0:
        raise ValueError(f"{x} is even")
    return x


def describe(array: Any, i: int) -> tuple[float, bool, int]:
    return float(array[i]), bool(array.flags.writeable), os.getpid()


def environment(name: str) -> str | None:
    return os.environ.get(name)


def nested(n: int) -> list[int]:
    found: list[int] = joblib.Parallel(n_jobs=2)(delayed(square)(i) for i in range(n))
    return found


@pytest.mark.parametrize("name", ["skate", "ray"])
def test_results_come_in_order(name: str) -> None:
    with joblib.parallel_config(name):
        found = joblib.Parallel(n_jobs=2)(delayed(square)(i) for i in range(300))
    assert found == [i * i for i in range(300)]


def test_the_older_spelling() -> None:
    with joblib.parallel_backend("ray", n_jobs=-1):
        assert joblib.Parallel()(delayed(square)(i) for i in range(3)) == [0, 1, 4]


def test_all_jobs_means_all_cpus_of_skate() -> None:
    with joblib.parallel_config("skate"):
        assert joblib.effective_n_jobs(-1) == 2
        assert joblib.effective_n_jobs(-2) == 1
        assert joblib.effective_n_jobs(3) == 3
        with pytest.raises(ValueError, match="n_jobs=0"):
            joblib.effective_n_jobs(0)


def test_one_parallel_object_can_be_used_again() -> None:
    with joblib.parallel_config("skate"), joblib.Parallel(n_jobs=2) as parallel:
        for _ in range(3):
            assert parallel(delayed(square)(i) for i in range(4)) == [0, 1, 4, 9]
        with pytest.raises(ValueError, match="2 is even"):
            parallel([delayed(odd_only)(2)])
        assert parallel(delayed(square)(i) for i in range(4)) == [0, 1, 4, 9]


def test_results_one_by_one() -> None:
    with joblib.parallel_config("skate"):
        ordered = joblib.Parallel(n_jobs=2, return_as="generator")
        assert list(ordered(delayed(square)(i) for i in range(5))) == [0, 1, 4, 9, 16]
        unordered = joblib.Parallel(n_jobs=2, return_as="generator_unordered")
        assert sorted(unordered(delayed(square)(i) for i in range(5))) == [0, 1, 4, 9, 16]


def test_an_exception_is_the_users_own() -> None:
    with joblib.parallel_config("skate"), pytest.raises(ValueError, match="is even"):
        joblib.Parallel(n_jobs=2)(delayed(odd_only)(i) for i in range(10))


def test_parallel_inside_parallel() -> None:
    with joblib.parallel_config("skate"):
        found = joblib.Parallel(n_jobs=2)(delayed(nested)(n) for n in range(5))
    assert found == [[i * i for i in range(n)] for n in range(5)]


def test_a_large_argument_is_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[int] = []
    put = skate.put

    def counting(value: Any) -> Any:
        stored.append(value.nbytes)
        return put(value)

    monkeypatch.setattr(skate, "put", counting)
    large, small = np.arange(100_000.0), np.arange(10.0)
    with joblib.parallel_config("skate"):
        found = joblib.Parallel(n_jobs=2)(
            delayed(describe)(array, i=i) for i in range(10) for array in (large, small)
        )
    assert [value for value, _, _ in found] == [float(i) for i in range(10) for _ in range(2)]
    assert stored == [large.nbytes]


@local_only
def test_an_argument_may_change_between_two_calls() -> None:
    array = np.zeros(100_000)
    with joblib.parallel_config("skate"), joblib.Parallel(n_jobs=2) as parallel:
        for expected in (0.0, 1.0):
            array[:] = expected
            found = parallel(delayed(describe)(array, i) for i in range(3))
            assert {value for value, _, _ in found} == {expected}
            assert os.getpid() not in {pid for _, _, pid in found}


@local_only
def test_options_and_thread_limits_reach_the_workers() -> None:
    with joblib.parallel_config("skate", inner_max_num_threads=3):
        found = joblib.Parallel(n_jobs=2)(
            delayed(environment)("OMP_NUM_THREADS") for _ in range(3)
        )
    assert found == ["3"] * 3


def test_without_joblib_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(ImportError, match=r'pip install ".*\[all\]"'):
        register_skate()
