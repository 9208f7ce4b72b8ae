"""Data loaders, shared out between the workers."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from skate._run.session import current
from skate.train.torch._devices import get_device, moved
from skate.train.torch._models import acceleration, check_kind, preparations


def prepare_data_loader(
    data_loader: DataLoader[object],
    add_dist_sampler: bool = True,
    move_to_device: bool = True,
    auto_transfer: bool = True,
) -> DataLoader[object]:
    """Make a loader load this worker's part of the data, and bring batches to its device.

    With several workers a DistributedSampler takes the place of the sampler, shuffling if that
    did; of a sampler of another kind, each worker takes every n-th index. What does not divide
    evenly is filled up by repeating rows, or left out with `drop_last`. Each `iter()` is a new
    epoch, unless the loop calls `set_epoch` itself. An IterableDataset has no sampler, and cannot
    be split.

    Args:
        data_loader: The loader.
        add_dist_sampler: Whether the data is split between workers.
        move_to_device: Whether batches are brought to the worker's device.
        auto_transfer: Whether, on a GPU, the next batch is copied while this one is used.

    Returns:
        Another loader.

    Example:
        >>> import torch
        >>> from skate.train.torch import TorchTrainer, prepare_data_loader
        >>> def loop():
        ...     data = torch.utils.data.TensorDataset(torch.arange(8))
        ...     loader = prepare_data_loader(torch.utils.data.DataLoader(data, batch_size=4))
        ...     skate.train.report({"batches": len(list(loader))})
        >>> quiet = skate.train.RunConfig(verbose=0)
        >>> TorchTrainer(loop, run_config=quiet).fit().metrics["batches"]
        2
    """
    session = current("train.torch.prepare_data_loader()")
    check_kind("prepare_data_loader", data_loader, DataLoader)
    size, rank = session.info.world_size, session.info.world_rank
    replaces = session.replaces
    if add_dist_sampler and (size > 1 or replaces) and _can_be_split(data_loader, rank):
        data_loader = _split(data_loader, size, rank, replaces)
    device = get_device() if move_to_device else torch.device("cpu")  # where batches are made
    prepared = PreparedDataLoader(data_loader, device, auto_transfer)
    if isinstance(data_loader.sampler, RestOfOrder):
        preparations(session).loaders.append(prepared)
    return prepared


def _can_be_split(loader: DataLoader[object], rank: int) -> bool:
    if not isinstance(loader.dataset, IterableDataset):
        return not isinstance(loader.sampler, DistributedSampler)
    if rank == 0:
        warnings.warn(
            f"every worker reads all of {type(loader.dataset).__name__}, an IterableDataset, "
            "unless that takes its own part by the worker's rank; if it does, say so with "
            "prepare_data_loader(…, add_dist_sampler=False)",
            stacklevel=3,
        )
    return False


def _split(
    loader: DataLoader[object], size: int, rank: int, replaces: bool = False
) -> DataLoader[object]:
    if (
        loader.batch_size is None
        or type(loader.batch_sampler) is not torch.utils.data.BatchSampler
    ):
        raise ValueError(
            "this data loader makes its batches with a sampler of its own "
            f"({type(loader.batch_sampler).__name__}), which cannot be split between workers; "
            "give prepare_data_loader add_dist_sampler=False and split it yourself"
        )
    seed = acceleration("prepare_data_loader").seed
    share: dict[str, Any] = {
        "num_replicas": size, "rank": rank, "drop_last": loader.drop_last, "seed": seed or 0,
    }  # fmt: skip
    sampler: Any
    if _is_plain(loader):
        shuffle = not isinstance(loader.sampler, SequentialSampler)
        sampler = DistributedSampler(loader.dataset, shuffle=shuffle, **share)
    else:
        sampler = ShareOfSampler(loader.sampler, **share)
    if replaces:
        sampler = RestOfOrder(sampler)
    options: dict[str, Any] = {
        name: getattr(loader, name)
        for name in ("batch_size", "num_workers", "collate_fn", "pin_memory", "drop_last",
                     "timeout", "persistent_workers", "prefetch_factor",
                     "multiprocessing_context", "worker_init_fn", "generator")
    }  # fmt: skip
    if seed is not None:
        options["worker_init_fn"] = SeededWorker(loader.worker_init_fn)
        options["generator"] = torch.Generator().manual_seed(seed)
    return DataLoader(loader.dataset, sampler=sampler, **options)


def _is_plain(loader: DataLoader[object]) -> bool:
    """Return whether a loader takes every row once, in order or shuffled."""
    sampler = loader.sampler
    if type(sampler) is RandomSampler:
        return not sampler.replacement and sampler.num_samples == len(loader.dataset)  # type: ignore[arg-type]
    return type(sampler) is SequentialSampler


class ShareOfSampler(DistributedSampler[Any]):
    """Every n-th index of another sampler, which draws the same ones on all workers because it
    draws them with the same seed in each epoch."""

    def __init__(self, sampler: Any, **share: Any) -> None:
        if not hasattr(sampler, "__len__"):
            raise ValueError(
                f"a {type(sampler).__name__} without a length cannot be split between workers; "
                "give it a __len__, or give prepare_data_loader add_dist_sampler=False and split "
                "it yourself"
            )
        super().__init__(sampler, **share)
        self.sampler = sampler

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[object]:
        indices = _drawn(self.sampler, self.seed + self.epoch)
        if not self.drop_last:
            times = -(-self.total_size // max(len(indices), 1))
            indices = indices * times
        return iter(indices[: self.total_size][self.rank :: self.num_replicas])


class RestOfOrder(DistributedSampler[Any]):
    """This worker's share of what is left of an epoch: of the order that all workers have in
    common, from a place on that they have come to together. Where workers are replaced, or their
    number changes, that goes on from there, and no row is lost or repeated."""

    def __init__(self, share: DistributedSampler[object]) -> None:
        self.__dict__.update(share.__dict__)
        self._share = share
        self.start = 0

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        self._share.set_epoch(epoch)

    @property
    def _rows(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __len__(self) -> int:
        rest = max(self._rows - self.start, 0)
        return rest // self.num_replicas if self.drop_last else -(-rest // self.num_replicas)

    def __iter__(self) -> Iterator[object]:
        alone = copy.copy(self._share)
        alone.num_replicas, alone.rank = 1, 0
        alone.num_samples = alone.total_size = self._rows
        order = list(alone)
        rest = order[self.start :]
        count = len(self) * self.num_replicas
        while len(rest) < count:
            rest += order[: count - len(rest)]
        return iter(rest[:count][self.rank :: self.num_replicas])


def _drawn(sampler: Any, seed: int) -> list[object]:
    """Draw all indices of a sampler, by this seed; random numbers elsewhere stay what they are."""
    import numpy as np

    others = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)
            return list(sampler)
    finally:
        random.setstate(others[0])
        np.random.set_state(others[1])


class SeededWorker:
    """Seeds what a data loader's process uses besides torch."""

    def __init__(self, then: Callable[[int], None] | None) -> None:
        self._then = then

    def __call__(self, number: int) -> None:
        import numpy as np

        seed = torch.initial_seed() % 2**32
        np.random.seed(seed)
        random.seed(seed)
        if self._then is not None:
            self._then(number)


class LoaderProgress(NamedTuple):
    """How far all workers together have come with a loader."""

    epoch: int
    rows: int


class PreparedDataLoader(DataLoader[Any]):
    """The loader it was made from, whose batches arrive on a device."""

    def __init__(self, loader: DataLoader[object], device: torch.device, ahead: bool) -> None:
        self.__dict__.update(loader.__dict__)
        self._loader = loader
        self.device = device
        self._stream: Any = None
        if ahead and device.type == "cuda":
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._epochs = 0
        self._begun: LoaderProgress | None = None  # where the next iteration goes on
        self.progress: LoaderProgress | None = None  # rows of all workers in this epoch

    def __len__(self) -> int:
        return len(self._loader)

    def __iter__(self) -> Any:
        self._begin_epoch()
        batches = iter(self._loader) if self.device.type == "cpu" else self._moved()
        sampler = self._loader.sampler
        return self._counted(batches, sampler) if isinstance(sampler, RestOfOrder) else batches

    def _counted(self, batches: Iterator[object], sampler: RestOfOrder) -> Iterator[object]:
        each = (self._loader.batch_size or 1) * sampler.num_replicas
        rows = sampler.start
        for batch in batches:
            rows += each
            self.progress = LoaderProgress(sampler.epoch, rows)
            yield batch
        self.progress = LoaderProgress(sampler.epoch + 1, 0)

    def go_on_from(self, progress: LoaderProgress | None, size: int, rank: int) -> None:
        """Begin the next iteration where all workers have come to, as one of so many."""
        sampler: Any = self._loader.sampler
        sampler.num_replicas, sampler.rank = size, rank
        self._begun = self.progress = progress

    def _begin_epoch(self) -> None:
        """Choose another order in each epoch, as a loader that shuffles has it; a loop that counts
        by itself is left alone."""
        sampler = self._loader.sampler
        begun, self._begun = self._begun, None
        if isinstance(sampler, RestOfOrder):
            sampler.start = 0 if begun is None else begun.rows
            if begun is not None:
                sampler.set_epoch(begun.epoch)
                self._epochs = begun.epoch + 1
                return
        if isinstance(sampler, DistributedSampler):
            if sampler.epoch == self._epochs - 1:
                sampler.set_epoch(self._epochs)
            self._epochs = sampler.epoch + 1

    def _moved(self) -> Iterator[object]:
        waiting: list[Any] = []
        for batch in self._loader:
            with torch.cuda.stream(self._stream):
                waiting.append(moved(batch, self.device, non_blocking=self._stream is not None))
            if len(waiting) > 1:
                yield self._arrived(waiting.pop(0))
        yield from map(self._arrived, waiting)

    def _arrived(self, batch: object) -> object:
        if self._stream is not None:
            current_stream = torch.cuda.current_stream(self.device)
            current_stream.wait_stream(self._stream)
            _record(batch, current_stream)
        return batch


def _record(value: Any, stream: Any) -> None:
    """Keep memory that another stream has filled from being reused before this one has read it."""
    if isinstance(value, torch.Tensor):
        if value.is_cuda:
            value.record_stream(stream)
    elif isinstance(value, dict):
        for inner in value.values():
            _record(inner, stream)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _record(inner, stream)
