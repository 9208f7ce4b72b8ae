"""Dask's collections on skate."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import skate
from skate.util.dask import (
    ProgressBarCallback,
    RayDaskCallback,
    disable_dask_on_ray,
    enable_dask_on_ray,
    ray_dask_get,
    ray_dask_get_sync,
    ray_dask_persist,
)


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    with skate.init(num_cpus=2, resources={"pin": 1}):
        yield


pytestmark = pytest.mark.leaves("the session of the module, and Dask's own thread pool")

add = dask.delayed(operator.add)


@pytest.mark.parametrize("get", [ray_dask_get, ray_dask_get_sync])
def test_tasks_run_in_workers(get: Any) -> None:
    pids = dask.compute(*(dask.delayed(os.getpid)() for _ in range(3)), scheduler=get)
    assert os.getpid() not in pids
    assert add(add(1, 2), add(3, 4)).compute(scheduler=get) == 10


def test_arrays_are_the_same_as_with_dask_itself() -> None:
    array = da.arange(1000, chunks=100).reshape(10, 100)
    work = (array + array.T.sum()).mean(axis=0)[::7]
    np.testing.assert_array_equal(
        work.compute(scheduler=ray_dask_get), work.compute(scheduler="sync")
    )


def test_frames_are_the_same_as_with_dask_itself() -> None:
    frame = dd.from_pandas(pd.DataFrame({"k": np.arange(90) % 7, "v": np.arange(90.0)}), 5)
    work = (frame.groupby("k").v.agg(["mean", "max"]), frame.set_index("k").loc[3:4].v.sum())
    with enable_dask_on_ray():
        means, total = dask.compute(*work)
    expected_means, expected_total = dask.compute(*work, scheduler="sync")
    pd.testing.assert_frame_equal(means.sort_index(), expected_means.sort_index())
    assert total == expected_total


@pytest.mark.parametrize("optimize_graph", [True, False])
def test_frames_of_datasets(optimize_graph: bool) -> None:
    frame = skate.data.range(10, override_num_blocks=3).map(lambda row: row).to_dask()
    total = frame["id"].sum()
    assert int(total.compute(scheduler=ray_dask_get, optimize_graph=optimize_graph)) == 45
    with enable_dask_on_ray():
        assert frame.compute()["id"].tolist() == list(range(10))
        assert int(frame.persist()["id"].max().compute()) == 9


def test_graphs_of_plain_tuples() -> None:
    graph = {"a": 1, "b": (operator.add, "a", 10), "c": (sum, ["a", "b", "b"]), "d": "c"}
    assert ray_dask_get(graph, ["c", ["b", "d"]]) == (23, (11, 23))
    assert ray_dask_get(graph, "b") == 11


def test_enabled_and_disabled() -> None:
    pid = dask.delayed(os.getpid)
    enable_dask_on_ray()
    try:
        assert dask.config.get("dataframe.shuffle.method") == "tasks"
        assert pid().compute() != os.getpid()
    finally:
        disable_dask_on_ray()
    assert pid().compute() == os.getpid()


def test_errors_are_the_users_own() -> None:
    with pytest.raises(ZeroDivisionError):
        dask.delayed(operator.truediv)(1, add(1, -1)).compute(scheduler=ray_dask_get)


def test_tasks_may_use_skate() -> None:
    one = skate.put(1)
    ask = dask.delayed(lambda: skate.get(skate.remote(operator.add).remote(one, 1)))
    assert ask().compute(scheduler=ray_dask_get) == 2


# -- persisted -----------------------------------------------------------------------------------


def test_persisted_parts_stay_in_the_store() -> None:
    array = (da.ones(40, chunks=10) + 1).persist(scheduler=ray_dask_get)
    parts = list(array.dask.values())
    assert len(parts) == 4
    assert all(isinstance(part, skate.ObjectRef) for part in parts)
    with enable_dask_on_ray():
        assert float((array * 2).sum().compute()) == 160
        assert float(array.sum().compute(optimize_graph=False)) == 80
        both = dask.persist(array + 1, array + 2)
        assert [float(each.sum().compute()) for each in both] == [120, 160]
        (same,) = ray_dask_persist(array)
        assert float(same.sum().compute()) == 80


def test_persisted_frames() -> None:
    with enable_dask_on_ray():
        frame = dd.from_pandas(pd.DataFrame({"v": range(10)}), 3).persist()
        assert int(frame.v.sum().compute()) == 45


def test_other_schedulers_persist_values() -> None:
    array = da.ones(4, chunks=2).persist(scheduler="threads")
    assert all(isinstance(part, np.ndarray) for part in array.dask.values())


# -- options -------------------------------------------------------------------------------------


def assigned() -> dict[str, float]:
    return skate.get_runtime_context().get_assigned_resources()


def test_options_of_a_call_and_of_parts_of_a_graph() -> None:
    ask = dask.delayed(assigned, pure=False)
    common = {"resources": {"pin": 0.5}}
    assert ask().compute(scheduler=ray_dask_get, ray_remote_args=common)["pin"] == 0.5
    with dask.annotate(ray_remote_args={"num_cpus": 2}):
        part = ask()
    got = part.compute(scheduler=ray_dask_get, ray_remote_args=common, optimize_graph=False)
    assert (got["CPU"], got["pin"]) == (2, 0.5)
    with dask.annotate(ray_remote_args={"resources": {"pin": 0.25}}):
        assert ask().compute(scheduler=ray_dask_get)["pin"] == 0.25


def test_resources_have_their_place() -> None:
    with pytest.raises(ValueError, match="ray_remote_args"):
        add(1, 2).compute(scheduler=ray_dask_get, resources={"pin": 1})
    with dask.annotate(resources={"pin": 1}), pytest.raises(ValueError, match="'pin': 1"):
        add(1, 2).compute(scheduler=ray_dask_get)


# -- callbacks -----------------------------------------------------------------------------------


class Recorder(RayDaskCallback):
    def __init__(self) -> None:
        self.seen: list[Any] = []

    def _ray_presubmit(self, task: Any, key: Any, deps: Any) -> Any:
        return 100 if deps == {} and "known" in str(key) else None

    def _ray_postsubmit(self, task: Any, key: Any, deps: Any, object_ref: Any) -> None:
        self.seen.append((key, skate.get(object_ref)))

    def _ray_postsubmit_all(self, object_refs: Any, dsk: Any) -> None:
        self.seen.append(len(object_refs))

    def _ray_finish(self, result: Any) -> None:
        self.seen.append(result)


def test_hooks_in_the_driver() -> None:
    known = dask.delayed(operator.add)(1, 1, dask_key_name="known")
    total = dask.delayed(operator.add)(known, 1, dask_key_name="total")
    assert not RayDaskCallback.ray_active
    with Recorder() as recorder:
        assert RayDaskCallback.ray_active
        assert total.compute(scheduler=ray_dask_get, optimize_graph=False) == 101
    assert not RayDaskCallback.ray_active
    assert recorder.seen == [("total", 101), 1, (101,)]


class Doubles(RayDaskCallback):
    """In the worker: what `_ray_pretask` returns comes back in `_ray_posttask`."""

    def __init__(self, suffix: str) -> None:
        self.suffix = suffix

    def _ray_pretask(self, key: Any, object_refs: Any) -> str:
        return f"{key}{self.suffix}"

    def _ray_posttask(self, key: Any, result: Any, pre_state: Any) -> None:
        if pre_state != f"{key}{self.suffix}":
            raise AssertionError(pre_state)


def test_hooks_in_the_worker_come_in_pairs() -> None:
    after_only = RayDaskCallback(
        ray_posttask=lambda key, result, state: operator.index(state or 0)
    )
    with Doubles("a"), after_only, Doubles("b"):
        assert add(1, 2).compute(scheduler=ray_dask_get) == 3
    refuses = RayDaskCallback(ray_pretask=lambda key, refs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        add(1, 2).compute(scheduler=ray_dask_get, ray_callbacks=[refuses])


def test_dasks_own_hooks_see_each_task() -> None:
    keys: list[Any] = []
    with dask.callbacks.Callback(pretask=lambda key, dsk, state: keys.append(key)):
        add(add(1, 2), 3).compute(scheduler=ray_dask_get, optimize_graph=False)
    assert len(keys) == 2


class Terminal:
    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None: ...


def test_a_bar_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    work = add(add(1, 2), 3)
    with ProgressBarCallback():
        assert work.compute(scheduler=ray_dask_get, _ray_enable_progress_bar=True) == 6
    assert capsys.readouterr() == ("", "")
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with ProgressBarCallback():
        assert work.compute(scheduler=ray_dask_get) == 6
    assert "dask" in terminal.text
