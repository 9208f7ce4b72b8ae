"""Datasets of skate for `transformers.Trainer`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from skate.data._api.epochs import Epochs


class ShardBatches(IterableDataset[Any]):
    """What `iter_torch_batches` gives: batches already, and already this worker's part."""

    def __init__(self, epochs: Epochs[object]) -> None:
        self._epochs = epochs

    def __iter__(self) -> Iterator[object]:
        return iter(self._epochs)


def prepare_trainer(trainer: Any) -> Any:
    """Let the trainer read `train_dataset` and `eval_dataset` that are batches of a worker's shard
    (`get_dataset_shard(…).iter_torch_batches(…)`) as they are. Other datasets it reads as ever.

    Args:
        trainer: A `transformers.Trainer`.

    Returns:
        The same trainer.
    """
    original = type(trainer)

    class WithShards(original):  # type: ignore[misc, valid-type]
        def get_train_dataloader(self) -> DataLoader[object]:
            loader = _loader(self.train_dataset)
            return super().get_train_dataloader() if loader is None else loader

        def get_eval_dataloader(self, eval_dataset: object = None) -> DataLoader[object]:
            wanted = self.eval_dataset if eval_dataset is None else eval_dataset
            if isinstance(wanted, str) and isinstance(self.eval_dataset, dict):
                wanted = self.eval_dataset[wanted]
            loader = _loader(wanted)
            return super().get_eval_dataloader(eval_dataset) if loader is None else loader

    WithShards.__name__ = original.__name__
    trainer.__class__ = WithShards
    return trainer


def _loader(dataset: object) -> DataLoader[object] | None:
    if not isinstance(dataset, Epochs):
        return None
    return DataLoader(ShardBatches(dataset), batch_size=None)
