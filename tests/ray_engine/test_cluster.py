"""What matters on several nodes, and the libraries on them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

import numpy as np
import pytest

import skate
from skate import serve
from skate._run.checkpoint import Checkpoint
from skate.dag import InputNode
from skate.exceptions import ActorDiedError, TaskCancelledError, TaskError
from skate.predict import BatchPredictor, Predictor
from skate.util.placement_group import (
    get_current_placement_group,
    placement_group,
    remove_placement_group,
)
from skate.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)
from tests.support import eventually, run_program

pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.leaves("the cluster serves the whole module"),
]


@skate.remote
def node_id() -> str:
    return skate.get_runtime_context().get_node_id()


@skate.remote
class Counter:
    def __init__(self, start: int = 0) -> None:
        self.count = start

    def add(self, amount: int = 1) -> int:
        self.count += amount
        return self.count

    def node(self) -> str:
        return skate.get_runtime_context().get_node_id()

    def count_up(self, limit: int) -> Any:
        yield from range(limit)


def test_nodes_and_resources_are_those_of_the_cluster():
    assert len([node for node in skate.nodes() if node["Alive"]]) == 3
    assert skate.cluster_resources()["CPU"] == 6
    assert skate.get_runtime_context().get_node_id() in {n["NodeID"] for n in skate.nodes()}


def test_a_task_runs_on_the_node_that_was_asked_for():
    for node in skate.nodes():
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        assert skate.get(node_id.options(scheduling_strategy=there).remote()) == node["NodeID"]


def test_a_strictly_spread_group_has_one_bundle_per_node():
    group = placement_group([{"CPU": 1}] * 3, strategy="STRICT_SPREAD")
    assert group.wait(60)

    @skate.remote
    def inside() -> tuple[str, bool]:
        current = get_current_placement_group()
        return skate.get_runtime_context().get_node_id(), current == group

    refs = [
        inside.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, index)).remote()
        for index in range(3)
    ]
    nodes, same = zip(*skate.get(refs), strict=True)
    assert len(set(nodes)) == 3
    assert all(same)
    remove_placement_group(group)


def test_references_in_any_structure_cross_nodes_and_keep_their_values_alive():
    @skate.remote(resources={"second": 0.1})
    def make() -> dict[str, Any]:
        return {"inner": [skate.put(np.arange(200_000)), node_id.remote()]}

    @skate.remote(resources={"third": 0.1})
    def total(found: dict[str, Any]) -> int:
        return int(skate.get(found["inner"][0]).sum())

    found = make.remote()
    assert skate.get(total.remote(found)) == sum(range(200_000))
    inner = skate.get(found)["inner"]
    del found
    assert skate.get(inner[0]).sum() == sum(range(200_000))
    assert isinstance(skate.get(inner[1]), str)


def test_arrays_are_views_on_shared_memory():
    ref = skate.put(np.zeros(1_000_000))
    first, second = skate.get(ref), skate.get(ref)
    assert not first.flags.writeable
    assert np.shares_memory(first, second)
    assert skate.get(ref, copy=True).flags.writeable


def test_a_handle_works_wherever_it_is_sent():
    counter = Counter.options(resources={"third": 0.1}, name="counter").remote(10)

    @skate.remote(resources={"second": 0.1})
    def use(handles: list[Any]) -> Any:
        return skate.get(handles[0].add.remote(5))

    assert skate.get(use.remote([counter])) == 15
    assert skate.get(skate.get_actor("counter").add.remote()) == 16
    assert skate.get(counter.node.remote()) != skate.get_runtime_context().get_node_id()


def test_streams_and_async():
    counter = Counter.remote()
    assert [skate.get(ref) for ref in counter.count_up.remote(4)] == [0, 1, 2, 3]

    async def read() -> list[int]:
        found = [await ref async for ref in counter.count_up.remote(3)]
        return [*found, await counter.add.remote()]

    assert asyncio.run(read()) == [0, 1, 2, 1]


def test_errors_keep_their_type_and_their_line():
    class SpecialError(KeyError):
        pass

    @skate.remote(max_retries=0)
    def fails() -> None:
        raise SpecialError("the line that is wrong")

    with pytest.raises(SpecialError, match="the line that is wrong") as caught:
        skate.get(fails.remote())
    assert isinstance(caught.value, TaskError)
    assert "test_cluster.py" in str(caught.value)


def test_a_died_actor_and_a_cancelled_task_say_so():
    counter = Counter.remote()
    assert skate.get(counter.add.remote()) == 1
    skate.kill(counter)

    def is_dead() -> bool:
        """Ray kills behind the call's back: one that follows at once may still be answered."""
        try:
            skate.get(counter.add.remote(), timeout=60)
        except ActorDiedError:
            return True
        return False

    eventually(is_dead)

    blocked = node_id.options(resources={"second": 1, "third": 1}).remote()
    skate.cancel(blocked)
    with pytest.raises(TaskCancelledError):
        skate.get(blocked, timeout=60)


def test_a_plain_ray_task_finds_skate_by_itself():
    import ray

    def nested() -> tuple[str, str]:
        from skate.engine import current_engine

        here = current_engine().name
        return here, skate.get(skate.remote(lambda: current_engine().name).remote())

    assert ray.get(ray.remote(nested).remote()) == ("ray", "ray")


def test_the_runtime_context_of_an_actor_warns_of_nothing():
    @skate.remote(max_restarts=1, max_task_retries=1)
    class Careful:
        def look(self) -> tuple[bool, list[str]]:
            import warnings

            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                restarted = skate.get_runtime_context().was_current_actor_reconstructed
            return restarted, [str(warning.message) for warning in caught]

        def pid(self) -> int:
            return os.getpid()

    careful = Careful.remote()
    assert skate.get(careful.look.remote()) == (False, [])
    pid = skate.get(careful.pid.remote())
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: skate.get(careful.pid.remote()) != pid)
    assert skate.get(careful.look.remote()) == (True, [])


# -- libraries -----------------------------------------------------------------------------------


def test_a_dataset_is_mapped_and_shuffled():
    dataset = skate.data.range(1000, override_num_blocks=6)
    doubled = dataset.map_batches(lambda batch: {"id": batch["id"] * 2}).random_shuffle(seed=1)
    found = [row["id"] for row in doubled.take_all()]
    assert found != sorted(found)
    assert sorted(found) == list(range(0, 2000, 2))


def train_loop(config: dict[str, Any]) -> None:
    import torch
    import torch.distributed as dist

    from skate import train

    context = train.get_context()
    total = torch.tensor([float(context.get_world_rank() + 1)])
    dist.all_reduce(total)
    local = (context.get_local_rank(), context.get_local_world_size(), context.get_node_rank())
    train.report({"total": total.item(), "size": context.get_world_size(), "local": local})


def test_the_parts_of_an_exchange_are_finished_on_all_nodes(tally):
    """Each waits until all nodes have begun with one: they run side by side."""
    dataset = skate.data.range(400_000, override_num_blocks=6)
    dataset.context.partition_min_bytes = 0
    dataset.context.sort_memory_bytes = 1_000_000

    def noted(batch: dict[str, Any]) -> dict[str, Any]:
        import time

        tally.add(skate.get_runtime_context().get_node_id())
        for _ in range(2000):
            if len(set(tally.words())) == 3:
                break
            time.sleep(0.1)
        return batch

    ordered = dataset.sort("id", descending=True).map_batches(noted, batch_size=None)
    found = np.concatenate([batch["id"] for batch in ordered.iter_batches(batch_size=None)])
    assert (found == np.arange(400_000)[::-1]).all()
    assert set(tally.words()) == {node["NodeID"] for node in skate.nodes() if node["Alive"]}


def test_training_workers_on_two_nodes_form_a_group(tmp_path):
    from skate.train import RunConfig, ScalingConfig
    from skate.train.torch import TorchTrainer

    scaling = ScalingConfig(num_workers=2, placement_strategy="STRICT_SPREAD")
    run = RunConfig(storage_path=str(tmp_path), name="two-nodes")
    result = TorchTrainer(train_loop, scaling_config=scaling, run_config=run).fit()
    assert result.metrics["total"] == 3.0
    assert result.metrics["size"] == 2
    assert tuple(result.metrics["local"]) == (0, 1, 0)


def objective(config: dict[str, float]) -> None:
    from skate import tune

    tune.report({"loss": (config["x"] - 2) ** 2})


def test_trials_run_on_the_cluster(tmp_path):
    from skate import tune

    tuner = tune.Tuner(
        objective,
        param_space={"x": tune.grid_search([1, 2, 3])},
        run_config=tune.RunConfig(storage_path=str(tmp_path), name="grid"),
    )
    best = tuner.fit().get_best_result("loss", "min")
    assert best.config["x"] == 2


class Scaler(Predictor):
    """Multiplies by what its checkpoint says."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    @classmethod
    def from_checkpoint(cls, checkpoint: Any, **kwargs: Any) -> Scaler:
        return cls(checkpoint.to_dict()["factor"])

    def _predict_pandas(self, data: Any, **kwargs: Any) -> Any:
        return data * self.factor


def test_predictions_are_made_on_the_cluster():
    predictor = BatchPredictor.from_checkpoint(Checkpoint.from_dict({"factor": 3}), Scaler)
    dataset = skate.data.range(100, override_num_blocks=4)
    found = predictor.predict(dataset, batch_size=10, num_cpus_per_worker=1)
    assert sorted(row["id"] for row in found.take_all()) == list(range(0, 300, 3))


def test_a_graph_runs_on_the_cluster():
    counter = Counter.options(resources={"third": 0.1}).remote(10)
    with InputNode() as amount:
        graph = counter.add.bind(counter.add.bind(amount))
    assert skate.get(graph.execute(2)) == 24


def test_deployments_are_served_by_the_cluster():
    @serve.deployment
    class Adder:
        def __init__(self, amount: int) -> None:
            self.amount = amount

        def __call__(self, x: int) -> int:
            return x + self.amount

        async def count(self, limit: int) -> Any:
            for number in range(limit):
                yield number

    @serve.deployment(num_replicas=2)
    class Chain:
        def __init__(self, first: Any, second: Any) -> None:
            self.first, self.second = first, second

        async def __call__(self, x: int) -> Any:
            return await self.second.remote(self.first.remote(x))

    serve.start(proxy_location="Disabled")
    handle = serve.run(Chain.bind(Adder.bind(1), Adder.options(name="Ten").bind(10)))
    assert [handle.remote(x).result() for x in range(3)] == [11, 12, 13]
    ten = serve.get_deployment_handle("Ten", "default")
    assert list(ten.options(stream=True).count.remote(3)) == [0, 1, 2]
    with pytest.raises(TypeError):
        ten.remote("x").result()
    assert serve.status().applications["default"].status == "RUNNING"
    serve.shutdown()


def test_what_only_a_cluster_can_give_is_passed_on():
    from skate.engine.ray.options import task_options

    wanted = {"pip": ["numpy"], "env_vars": {"A": "1"}}
    options = node_id.options(runtime_env=wanted)._options
    assert task_options(options)["runtime_env"] == wanted


# -- a driver of its own -------------------------------------------------------------------------

DRIVER = """
import skate

@skate.remote
def double(x):
    return 2 * x

print(skate.get([double.remote(i) for i in range(3)]), skate.engine.current_engine().name)
"""


def test_a_separate_driver_attaches_by_the_environment(cluster):
    surroundings = {**os.environ, "SKATE_ADDRESS": cluster.address}
    command = [sys.executable, "-c", DRIVER]
    done = run_program(command, env=surroundings)
    assert done.stdout.strip() == "[0, 2, 4] ray", done.stderr
    assert done.stderr == ""
