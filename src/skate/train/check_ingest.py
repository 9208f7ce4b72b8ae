"""A trainer that does nothing but read its data."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skate._run.session import get_dataset_shard, in_session, report
from skate.train._dataset_config import as_data_config
from skate.train.data_parallel_trainer import DataParallelTrainer

if TYPE_CHECKING:
    from skate.data.preprocessor import Preprocessor
    from skate.train._data import DataConfig


class DummyTrainer(DataParallelTrainer):
    """Read datasets for some epochs, and report how fast they come.

    Args:
        num_epochs: How often to read them.
        batch_size: How many rows a batch has.
        settings: Those of a DataParallelTrainer: `datasets`, `scaling_config` and so on.
    """

    def __init__(
        self, *, num_epochs: int = 1, batch_size: int | None = 4096, **settings: Any
    ) -> None:
        super().__init__(reading(num_epochs, batch_size), **settings)


def make_local_dataset_iterator(
    dataset: object,
    preprocessor: Preprocessor | None,
    dataset_config: DataConfig | Mapping[str, object] | None,
) -> Any:
    """Return a dataset as the only worker of a training would get it, to look at it alone.

    Args:
        dataset: The dataset.
        preprocessor: What it goes through first.
        dataset_config: How a training would share it out.

    Raises:
        RuntimeError: If it is called inside of a training.
    """
    if in_session():
        raise RuntimeError(
            "make_local_dataset_iterator() is for outside of training: use get_dataset_shard()"
        )
    datasets = {"train": dataset}
    config = as_data_config({"train": dataset_config}, datasets)
    return config.prepared(datasets, preprocessor)["train"].iterator()


def reading(num_epochs: int, batch_size: int | None) -> Any:
    """Make a loop that only reads, and reports how long each epoch took."""

    def loop() -> None:
        shard = get_dataset_shard("train")
        for epoch in range(num_epochs):
            start, batches = time.perf_counter(), 0
            for _ in shard.iter_batches(batch_size=batch_size):
                batches += 1
            seconds = time.perf_counter() - start
            report(epoch=epoch, batches_read=batches, epoch_time=seconds)

    return loop
