"""A node is lost in the middle of a job of each library, and the job finishes.

Takes minutes, so it is not among what pytest finds by itself: scripts/contract-on-ray runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import skate
from tests.ray_engine.conftest import NODE
from tests.support import Flag, eventually

pytestmark = [
    pytest.mark.leaves("the cluster serves the whole module"),
    pytest.mark.timeout(300),
]


@pytest.fixture
def victim(cluster: Any) -> Iterator[Any]:
    """A node that the test may kill; `doomed` is its resource."""
    before = set(cluster.worker_nodes)
    node = cluster.add_node(**NODE, resources={"doomed": 100})
    cluster.wait_for_nodes()
    yield node
    for added in set(cluster.worker_nodes) - before:  # it, or what took its place
        cluster.remove_node(added, allow_graceful=False)


def while_replacing(node: Any, cluster: Any, flag: Flag, job: Callable[[], Any]) -> Any:
    """What the job returns; the node is killed once the flag is set, and another added."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(job)
        eventually(lambda: flag.is_set() or running.done(), patience=100)
        assert flag.is_set(), running.result()
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(**NODE)
        return running.result(timeout=150)


def test_a_dataset_survives_the_loss_of_a_node(cluster, victim, flag):
    started, doomed = flag("started"), victim.node_id

    def slow(batch: dict[str, Any]) -> dict[str, Any]:
        import time

        time.sleep(0.3)
        node = skate.get_runtime_context().get_node_id()
        if node == doomed:
            started.set()
        return {"id": batch["id"] + 1}

    dataset = skate.data.range(4000, override_num_blocks=80).map_batches(
        slow, batch_size=None, scheduling_strategy="SPREAD"
    )
    shuffled = dataset.random_shuffle(seed=3)
    total = while_replacing(victim, cluster, started, lambda: shuffled.sum("id"))
    assert total == sum(range(1, 4001))


def test_an_exchange_survives_the_loss_of_a_node_that_has_pieces_of_all_parts(
    cluster, victim, flag
):
    """Rows are divided by then, and some of the parts are finished."""
    started, doomed = flag("started"), victim.node_id
    dataset = skate.data.range(4_000_000, override_num_blocks=8)
    dataset.context.partition_min_bytes = 0
    dataset.context.sort_memory_bytes = 4_000_000  # pieces of 250 KB, in the stores of the nodes

    def slow(batch: dict[str, Any]) -> dict[str, Any]:
        import time

        if skate.get_runtime_context().get_node_id() == doomed:
            started.set()
        time.sleep(1)
        return batch

    ordered = dataset.sort("id", descending=True).map_batches(slow, batch_size=None)

    def wrong_rows() -> int:
        wrong, last = 0, 4_000_000
        for batch in ordered.iter_batches(batch_size=None):
            wrong += int((batch["id"] != range(last - 1, last - 1 - len(batch["id"]), -1)).sum())
            last -= len(batch["id"])
        return wrong + last

    assert while_replacing(victim, cluster, started, wrong_rows) == 0


def training_loop(config: dict[str, Any]) -> None:
    import tempfile
    import time

    from skate import train

    checkpoint = train.get_checkpoint()
    first = 0
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = int(Path(folder, "step").read_text()) + 1
    for step in range(first, 8):
        time.sleep(0.3)
        if skate.get_runtime_context().get_node_id() == config["doomed"] and step == 3:
            config["started"].set()
            time.sleep(60)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "step").write_text(str(step))
            saved = train.Checkpoint.from_directory(folder)
            train.report({"step": step, "first": first}, checkpoint=saved)


def test_training_resumes_elsewhere_after_the_loss_of_a_node(cluster, victim, flag, tmp_path):
    from skate.train import FailureConfig, RunConfig, ScalingConfig
    from skate.train.torch import TorchTrainer

    started = flag("started")
    trainer = TorchTrainer(
        training_loop,
        train_loop_config={"started": started, "doomed": victim.node_id},
        scaling_config=ScalingConfig(num_workers=4, placement_strategy="STRICT_SPREAD"),
        run_config=RunConfig(
            storage_path=str(tmp_path), name="lossy", failure_config=FailureConfig(max_failures=2)
        ),
    )
    result = while_replacing(victim, cluster, started, trainer.fit)
    assert result.metrics["step"] == 7
    assert result.metrics["first"] == 3


def objective(config: dict[str, Any]) -> None:
    import time

    from skate import tune

    for step in range(4):
        time.sleep(0.3)
        if skate.get_runtime_context().get_node_id() == config["doomed"]:
            config["started"].set()
        tune.report({"score": config["x"] * step})


def test_trials_survive_the_loss_of_a_node(cluster, victim, flag, tmp_path):
    from skate import tune

    started = flag("started")
    tuner = tune.Tuner(
        objective,
        param_space={
            "x": tune.grid_search(list(range(12))),
            "started": started,
            "doomed": victim.node_id,
        },
        tune_config=tune.TuneConfig(metric="score", mode="max"),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path),
            name="lossy",
            failure_config=tune.FailureConfig(max_failures=2),
        ),
    )
    results = while_replacing(victim, cluster, started, tuner.fit)
    assert not results.errors
    assert len(results) == 12
    assert results.get_best_result().metrics["score"] == 33
