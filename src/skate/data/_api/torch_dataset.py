"""A dataset as torch's IterableDataset, in the shape of `to_torch`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import torch

from skate.data._api.epochs import StatefulEpochs
from skate.data._arrow.blocks import check_columns
from skate.data._execution.batching import tensor_of

if TYPE_CHECKING:
    from skate.data._execution.positions import State


class FeaturesAndLabels(torch.utils.data.IterableDataset[Any]):
    """Yields (features, label): features in one tensor, or a tensor per name or list of names."""

    def __init__(
        self,
        arrays: StatefulEpochs[dict[str, Any]],
        label: str | None,
        features: Any,
        label_dtype: Any,
        feature_dtypes: Any,
        unsqueeze_label: bool,
        unsqueeze_features: bool,
        repeatable: bool,
    ) -> None:
        super().__init__()
        self.arrays = arrays
        self.label = label
        self.features = features
        self.label_dtype = label_dtype
        self.feature_dtypes = feature_dtypes
        self.unsqueeze_label = unsqueeze_label
        self.unsqueeze_features = unsqueeze_features
        self.repeatable = repeatable  # each iteration gives the same batches

    def __iter__(self) -> Iterator[Any]:
        for batch in self._share():
            label = None
            self._check(list(batch))
            if self.label is not None:
                label = tensor_of(batch[self.label], self.label_dtype, self.label)
                label = label.unsqueeze(1) if self.unsqueeze_label else label
            yield self._all_features(batch), label

    def state_dict(self) -> State:
        """See `StatefulEpochs`; in a worker of a DataLoader, where this worker is."""
        return self.arrays.state_dict()

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """See `StatefulEpochs`."""
        self.arrays.load_state_dict(state_dict)

    def _share(self) -> Iterator[dict[str, Any]]:
        """Iterate over the batches; in a worker of a DataLoader, over every n-th of them: each
        worker has a copy of this and goes through all."""
        worker = torch.utils.data.get_worker_info()
        if worker is None or worker.num_workers == 1:
            return iter(self.arrays)
        if not self.repeatable:
            raise ValueError(
                f"the {worker.num_workers} workers of a DataLoader cannot share this dataset: it "
                "is a part of a split, or in the object store after materialize(), or shuffled "
                "without a seed and so in another order for each of them. Give num_workers=0 (the "
                "dataset has workers of its own), or a seed"
            )
        first = (worker.id - self.arrays.batches_before) % worker.num_workers
        return islice(self.arrays, first, None, worker.num_workers)

    def _check(self, names: Sequence[str]) -> None:
        groups = self.features or []
        for group in groups.values() if isinstance(groups, dict) else groups:
            check_columns([group] if isinstance(group, str) else group, names)
        check_columns([] if self.label is None else [self.label], names)

    def _all_features(self, batch: dict[str, Any]) -> Any:
        names = self.features or [name for name in batch if name != self.label]
        if isinstance(names, dict):
            return {
                key: self._joined(batch, group, _of(self.feature_dtypes, key))
                for key, group in names.items()
            }
        if names and isinstance(names[0], (list, tuple)):
            return [
                self._joined(batch, group, _of(self.feature_dtypes, number))
                for number, group in enumerate(names)
            ]
        return self._joined(batch, names, self.feature_dtypes)

    def _joined(self, batch: dict[str, Any], names: Any, dtypes: object) -> Any:
        tensors = []
        for number, name in enumerate(names):
            tensor = tensor_of(batch[name], _of(dtypes, number), name)
            tensors.append(tensor.unsqueeze(1) if self.unsqueeze_features else tensor)
        return tensors[0] if len(tensors) == 1 else torch.cat(tensors, dim=1)


def _of(dtypes: object, key: Any) -> Any:
    return dtypes[key] if isinstance(dtypes, (list, dict)) else dtypes
