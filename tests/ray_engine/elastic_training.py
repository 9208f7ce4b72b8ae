"""A training grows when a node comes, and goes on with fewer workers when one is lost.

Takes a minute, so it is not among what pytest finds by itself: scripts/contract-on-ray runs it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from skate.train import FailureConfig, RunConfig, ScalingConfig
from skate.train.torch import TorchTrainer
from tests.ray_engine.conftest import NODE
from tests.support import Tally, eventually

pytestmark = [
    pytest.mark.leaves("the cluster serves the whole module"),
    pytest.mark.timeout(300),
]

SEAT = {**NODE, "resources": {"seat": 1}}  # there is one worker per node that has this
PATIENCE_SECONDS = 60.0


@pytest.fixture
def seat(cluster: Any) -> Iterator[Callable[[], Any]]:
    """Add a node that has a seat."""
    added: list[Any] = []

    def add() -> Any:
        added.append(cluster.add_node(**SEAT))
        cluster.wait_for_nodes()
        return added[-1]

    yield add
    for node in added:
        if node in cluster.worker_nodes:
            cluster.remove_node(node, allow_graceful=False)


def while_nodes_come_and_go(
    cluster: Any, seat: Callable[[], Any], trainer: Any, sizes: Tally
) -> Any:
    """Return the result of a training that begins with one seat, gets a second, and loses it."""
    seat()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(trainer.fit)

        def has_been(size: int, times: int = 1) -> bool:
            return running.done() or sizes.words().count(str(size)) >= times

        eventually(lambda: has_been(1), patience=PATIENCE_SECONDS)
        second = seat()
        eventually(lambda: has_been(2), patience=PATIENCE_SECONDS)
        assert not running.done(), running.result()
        cluster.remove_node(second, allow_graceful=False)
        return running.result(timeout=PATIENCE_SECONDS)


def trainer_of(loop: Any, sizes: Tally, tmp_path: Any, failure: FailureConfig) -> TorchTrainer:
    return TorchTrainer(
        loop,
        train_loop_config={"sizes": sizes},
        scaling_config=ScalingConfig(
            num_workers=(1, 3),
            resources_per_worker={"CPU": 0.5, "seat": 1},
            elastic_resize_monitor_interval_s=0.2,
        ),
        run_config=RunConfig(
            storage_path=str(tmp_path), name="elastic", verbose=0, failure_config=failure
        ),
    )


def resilient_loop(config: dict[str, Any]) -> None:
    import os

    import torch

    from skate import train
    from skate.train.torch import ResilientState

    state = ResilientState(sizes=[], first=os.getpid())

    def steps(state: Any) -> None:
        if state.sizes[-1:] != [train.get_context().get_world_size()]:
            state.sizes.append(train.get_context().get_world_size())
        state.commit()
        if train.get_context().get_world_rank() == 0:
            config["sizes"].add(state.sizes[-1])
        last = time.monotonic() + PATIENCE_SECONDS
        while state.sizes != [1, 2, 1]:
            if time.monotonic() > last:
                raise TimeoutError(f"the sizes are still {state.sizes}")
            torch.distributed.barrier()
            state.commit()
            time.sleep(0.01)

    state.run(steps)
    train.report({"sizes": state.sizes, "is_first": state.first == os.getpid()})


def checkpointing_loop(config: dict[str, Any]) -> None:
    from skate import train

    checkpoint = train.get_checkpoint()
    done = checkpoint.to_dict()["sizes"] if checkpoint else []
    size = train.get_context().get_world_size()
    if train.get_context().get_world_rank() == 0:
        config["sizes"].add(size)
    done = [*done, size]
    last = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < last:
        saved = train.Checkpoint.from_dict({"sizes": done})
        train.report({"sizes": done}, checkpoint=saved)
        if done == [1, 2, 1]:
            return
        time.sleep(0.05)
    raise TimeoutError(f"the sizes are still {done}")


def test_workers_come_and_go_with_nodes_and_the_others_keep_what_they_have(
    cluster, seat, tmp_path
):
    sizes = Tally(tmp_path / "sizes")
    trainer = trainer_of(resilient_loop, sizes, tmp_path, FailureConfig(restart="worker"))
    result = while_nodes_come_and_go(cluster, seat, trainer, sizes)
    assert result.metrics["sizes"] == [1, 2, 1]
    assert result.metrics["is_first"]


def test_loops_begin_from_their_checkpoints_with_as_many_workers_as_nodes_have_room_for(
    cluster, seat, tmp_path
):
    sizes = Tally(tmp_path / "sizes")
    trainer = trainer_of(checkpointing_loop, sizes, tmp_path, FailureConfig(max_failures=1))
    result = while_nodes_come_and_go(cluster, seat, trainer, sizes)
    assert result.metrics["sizes"] == [1, 2, 1]
