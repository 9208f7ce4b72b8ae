"""What exists under the name `ray` only."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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


def test_signals_and_semaphores() -> None:
    import ray
    from ray._common.test_utils import Semaphore, SignalActor, wait_for_condition

    signal = SignalActor.remote()
    waiting = signal.wait.remote()
    wait_for_condition(lambda: ray.get(signal.cur_num_waiters.remote()) == 1)
    assert ray.wait([waiting], timeout=0)[0] == []
    ray.get(signal.send.remote())
    assert ray.get(waiting, timeout=10) is None

    semaphore = Semaphore.remote(value=1)
    ray.get(semaphore.acquire.remote())
    assert ray.get(semaphore.locked.remote())
    ray.get(semaphore.release.remote())
    assert not ray.get(semaphore.locked.remote())


def test_conditions() -> None:
    from ray._private.test_utils import async_wait_for_condition, wait_for_condition

    answers = iter([False, True])
    wait_for_condition(lambda: next(answers), retry_interval_ms=1)
    with pytest.raises(RuntimeError, match="not met within"):
        wait_for_condition(lambda: False, timeout=0.01, retry_interval_ms=1)
    with pytest.raises(ZeroDivisionError):
        wait_for_condition(lambda: 1 // 0, raise_exceptions=True)

    async def later() -> bool:
        return True

    asyncio.run(async_wait_for_condition(later))


def test_drivers_of_their_own() -> None:
    from ray._private.test_utils import run_string_as_driver

    program = "import ray; ray.init(num_cpus=1); print(ray.get(ray.put(7)))"
    assert run_string_as_driver(program) == "7\n"


def test_helpers_that_look_inside_ray_fail_when_called() -> None:
    from ray._private.test_utils import get_metric_check_condition

    with pytest.raises(NotImplementedError, match="get_metric_check_condition"):
        get_metric_check_condition()


def test_the_state_of_the_machine() -> None:
    import ray
    from ray.util.state import list_actors, list_nodes

    (node,) = list_nodes()
    assert node["node_id"] == ray.get_runtime_context().get_node_id()
    assert ray._private.state.total_resources_per_node()[node["node_id"]]["CPU"] == 2
    assert ray.state.available_resources_per_node()[node["node_id"]]["CPU"] <= 2
    assert ray.services.get_node_ip_address()
    with pytest.raises(NotImplementedError, match="state service"):
        list_actors()


def test_marks_leave_what_they_mark() -> None:
    from ray.util.annotations import Deprecated, DeveloperAPI, PublicAPI

    def function() -> None: ...

    assert PublicAPI(function) is DeveloperAPI(stability="beta")(function) is function
    assert Deprecated("gone soon")(function) is function


def test_where_the_process_is() -> None:
    import ray
    from ray.worker import SCRIPT_MODE, WORKER_MODE, global_worker

    assert global_worker.connected
    assert global_worker.mode == SCRIPT_MODE

    @ray.remote
    def mode() -> Any:
        return ray.worker.global_worker.mode

    assert ray.get(mode.remote()) == WORKER_MODE


def test_the_place_to_spill_is_read_from_the_system_config(tmp_path: Path) -> None:
    import ray

    ray.shutdown()
    spilling = {"type": "filesystem", "params": {"directory_path": str(tmp_path)}}
    config = {"object_spilling_config": json.dumps(spilling)}
    ray.init(num_cpus=1, _system_config=config)
    assert [*tmp_path.iterdir()]
