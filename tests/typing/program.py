"""A program as users write it: both checkers find nothing in it, at their strictest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import skate
from skate import train, tune
from skate.train import RunConfig, ScalingConfig
from skate.train.torch import TorchTrainer


@skate.remote(num_cpus=1)
def square(x: int) -> int:
    return x * x


@skate.remote
def squares(n: int, start: int = 0) -> Iterator[int]:
    yield from (x * x for x in range(start, n))


@skate.remote
class Counter(skate.Actor):
    def __init__(self, start: int = 0) -> None:
        self.value = start

    @skate.method
    def add(self, n: int = 1) -> int:
        self.value += n
        return self.value


@skate.remote(max_concurrency=4)
class Feed(skate.Actor):
    @skate.method
    async def latest(self) -> str:
        return "news"

    @skate.method
    async def items(self, n: int) -> AsyncIterator[str]:
        for i in range(n):
            yield str(i)


async def listen(feed: Feed) -> list[str]:
    return [await item async for item in feed.items.remote(3)] + [await feed.latest.remote()]


def train_loop(config: dict[str, Any]) -> None:
    shard = train.get_dataset_shard("train")
    for batch in shard.iter_torch_batches(batch_size=32):
        train.report({"loss": float(batch["x"].mean()) * config["rate"]})


def main() -> None:
    skate.init()
    ref = square.remote(3)
    total = skate.get(square.remote(ref)) + sum(skate.get([square.remote(i) for i in range(4)]))
    counter = Counter.remote(start=square.remote(2).future().result())
    print(total, skate.get(counter.add.remote(ref)))
    for item in squares.remote(4, start=1):
        print(skate.get(item) + 1)
    numbers = skate.data.range(100).map(lambda row: {"x": float(row["id"])})
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={"rate": 0.1},
        datasets={"train": numbers},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="fit"),
    )
    print(trainer.fit().metrics)
    best = tune.Tuner(train_loop, param_space={"rate": tune.uniform(0, 1)}).fit().get_best_result()
    print(best.metrics)
