"""A trainer that does nothing but read its data."""

from __future__ import annotations

import time
from typing import Any

from skate._run.session import get_dataset_shard, report
from skate.train.data_parallel_trainer import DataParallelTrainer


class DummyTrainer(DataParallelTrainer):
    """Reads its datasets for some epochs and reports how fast they come."""

    def __init__(
        self, *, num_epochs: int = 1, batch_size: int | None = 4096, **settings: Any
    ) -> None:
        super().__init__(reading(num_epochs, batch_size), **settings)


def reading(num_epochs: int, batch_size: int | None) -> Any:
    """A loop that reads."""

    def loop() -> None:
        shard = get_dataset_shard("train")
        for epoch in range(num_epochs):
            start, batches = time.perf_counter(), 0
            for _ in shard.iter_batches(batch_size=batch_size):
                batches += 1
            seconds = time.perf_counter() - start
            report(epoch=epoch, batches_read=batches, epoch_time=seconds)

    return loop
