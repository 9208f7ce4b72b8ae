"""Tracebacks in the driver: the user's lines, and one of skate's."""

from __future__ import annotations

import asyncio
import os
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import skate
import skate.data
from skate import tune
from skate.exceptions import GetTimeoutError
from skate.util import Executor

PACKAGE = os.path.dirname(os.path.abspath(skate.__file__))


@skate.remote(max_retries=0)
def fails() -> None:
    raise ValueError("odd")


@skate.remote
class Slow:
    async def never(self) -> None:
        await asyncio.Event().wait()


def by_get() -> Any:
    return skate.get(fails.remote())


def by_get_of_a_list() -> Any:
    return skate.get([fails.remote(), skate.put(1)])


def by_await() -> Any:
    async def main() -> Any:
        return await fails.remote()

    return asyncio.run(main())


def too_late() -> Any:
    slow = Slow.remote()
    return skate.get(slow.never.remote(), timeout=0)


def own_frames(error: BaseException) -> list[str]:
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    return [file for file in files if file.startswith(PACKAGE)]


def files_of(call: Callable[[], Any]) -> list[str]:
    with pytest.raises((ValueError, GetTimeoutError)) as caught:
        call()
    return [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]


def by_fit() -> Any:
    from skate.train import RunConfig, ScalingConfig
    from skate.train.data_parallel_trainer import DataParallelTrainer

    def loop() -> None:
        raise ValueError("odd")

    scaling, run = ScalingConfig(num_workers=1), RunConfig(verbose=0)
    return DataParallelTrainer(loop, scaling_config=scaling, run_config=run).fit()


def odd(value: Any) -> Any:
    raise ValueError("odd")


def by_take() -> Any:
    return skate.data.range(3).map_batches(odd).take_all()


def by_write() -> Any:
    return skate.data.range(3).map_batches(odd).write_parquet("folder")


def by_search() -> Any:
    def objective(config: dict[str, Any]) -> dict[str, Any]:
        return {"loss": 1}

    return tune.run(objective, metric="accuracy", mode="max", verbose=0)


def by_read() -> Any:
    return skate.data.read_parquet("nothing/*.parquet")


def by_executor() -> Any:
    with Executor(max_workers=1) as executor:
        return executor.submit(odd, 1).result()


def by_name() -> Any:
    return skate.get_actor("nobody")


def by_a_function_that_cannot_be_sent() -> Any:
    lock = threading.Lock()
    return skate.remote(lambda: lock).remote()


local = pytest.mark.engines("local")


@local
@pytest.mark.parametrize("call", [by_get, by_get_of_a_list, by_await, too_late])
def test_own_frames_are_left_out(call: Callable[[], Any], start: Any) -> None:
    start(num_cpus=1)
    files = files_of(call)
    own = [file for file in files if file.startswith(PACKAGE)]
    assert files[:2] == [__file__, __file__]
    assert len(own) == (0 if call is by_await else 1)


@local
@pytest.mark.parametrize("call", [by_take, by_write, by_read, by_search, by_executor, by_name])
def test_the_libraries_leave_them_out_as_well(
    call: Callable[[], Any], start: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SKATE_STORAGE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    start(num_cpus=2)
    with pytest.raises((OSError, ValueError), match=r"odd|nothing|accuracy|nobody") as caught:
        call()
    assert len(own_frames(caught.value)) == 1
    cause = caught.value.__cause__
    assert cause is None or own_frames(cause) == []
    shown_with_it = None if caught.value.__suppress_context__ else caught.value.__context__
    assert shown_with_it in (None, cause)  # nothing of skate's own was on the way


@local
def test_what_cannot_be_sent(start: Any) -> None:
    start(num_cpus=1)
    with pytest.raises(TypeError, match="because of lock") as caught:
        by_a_function_that_cannot_be_sent()
    assert len(own_frames(caught.value)) == 1
    assert caught.value.__cause__ is not None
    assert own_frames(caught.value.__cause__) == []


@local
def test_fit_shows_the_loop_and_not_the_way_to_it(
    start: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SKATE_STORAGE", str(tmp_path))
    start(num_cpus=2)
    files = files_of(by_fit)
    assert files[:2] == [__file__, __file__]
    assert len([file for file in files if file.startswith(PACKAGE)]) <= 1


@local
def test_all_frames_if_asked_for(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKATE_TRACEBACK", "full")
    start(num_cpus=1)
    assert len([file for file in files_of(by_get) if file.startswith(PACKAGE)]) > 1


def test_frames_of_others_stay() -> None:
    from skate._core.errors import without_own_frames

    try:
        raise GetTimeoutError("here")
    except GetTimeoutError as error:
        found = without_own_frames(error)
    assert found.__traceback__ is not None  # this very function is on the way


@pytest.mark.engines("inline")
def test_inline_keeps_the_way_into_the_task(start: Any) -> None:
    start(num_cpus=1)
    with pytest.raises(ValueError, match="odd") as caught:
        by_get()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-1] == "fails"  # for debuggers
