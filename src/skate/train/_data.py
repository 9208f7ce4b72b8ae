"""The trainer's datasets, and each worker's part of them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

UNEVEN = ("repeat", "drop", "keep")
TRAIN_DATASET_KEY = "train"


class DataConfig:
    """Say which datasets are split between the workers; the others are given to each as a whole.

    Args:
        datasets_to_split: The names of these datasets, or "all".
        execution_options: Those of skate.data, for all datasets or by name; None is the default.
        enable_shard_locality: Whether datasets of somebody else's, with a `streaming_split`, are
            told where the workers are; those of skate.data are near everywhere.
        uneven: What happens to rows that do not divide evenly, so that the workers stay in step:
            rows are repeated ("repeat", as a DistributedSampler does) or left out ("drop"); "keep"
            lets parts differ.

    Raises:
        TypeError: If names are no strings.
        ValueError: If `uneven` is none of these.

    Example:
        >>> config = skate.train.DataConfig(datasets_to_split=["train"], uneven="drop")
    """

    def __init__(
        self,
        datasets_to_split: str | list[str] = "all",
        execution_options: object = None,
        enable_shard_locality: bool = True,
        uneven: str = "repeat",
    ) -> None:
        if not isinstance(datasets_to_split, list) and datasets_to_split != "all":
            raise TypeError(
                "`datasets_to_split` should be 'all' or a list of names; "
                f"got {datasets_to_split!r}"
            )
        if uneven not in UNEVEN:
            raise ValueError(f"uneven is one of {UNEVEN}; got {uneven!r}")
        self._datasets_to_split = datasets_to_split
        self._execution_options = execution_options
        self._enable_shard_locality = enable_shard_locality
        self._uneven = uneven

    def configure(
        self,
        datasets: dict[str, Any],
        world_size: int,
        worker_handles: list[Any] | None = None,
        worker_node_ids: list[Any] | None = None,
        **info: object,
    ) -> list[dict[str, Any]]:
        """Share out the datasets. Override it to do so differently.

        Args:
            datasets: Those of the trainer, by name.
            world_size: How many workers there are.
            worker_handles: Their actors.
            worker_node_ids: Where they run; here all of them are on one machine, and alike.
            info: What later versions may add.

        Returns:
            The datasets of each worker, by rank.
        """
        shares: list[dict[str, Any]] = [{} for _ in range(world_size)]
        hints = worker_node_ids if self._enable_shard_locality else None
        for name, dataset in datasets.items():
            for rank, part in enumerate(self._parts(name, dataset, world_size, hints)):
                shares[rank][name] = part
        return shares

    def _parts(self, name: str, dataset: Any, number: int, hints: Any) -> list[Any]:
        """Return what each worker gets of one dataset."""
        from skate.data._api.iterating import Iterating
        from skate.data.dataset_pipeline import DatasetPipeline
        from skate.data.iterator import WholeDataset, split_iterators
        from skate.train._shards import Shard, with_options

        whole = self._datasets_to_split != "all" and name not in self._datasets_to_split
        if isinstance(dataset, DatasetPipeline):  # its parts know the epochs apart
            return [dataset] * number if whole else dataset._parts(number, self._uneven)
        if not isinstance(dataset, Iterating):  # of somebody else's, who knows how
            if whole:
                return [dataset] * number
            return list(dataset.streaming_split(number, equal=True, locality_hints=hints))
        placed: Any = with_options(dataset, self._options_of(name))
        parts = (
            [WholeDataset(placed) for _ in range(number)]
            if whole
            else split_iterators(placed, number, self._uneven)
        )
        return [Shard(part, context=placed._settings()) for part in parts]

    def prepared(self, datasets: dict[str, object], preprocessor: Any) -> dict[str, Any]:
        """Return all datasets transformed by a preprocessor, which is fitted to the "train" one.

        Args:
            datasets: The datasets by name.
            preprocessor: The preprocessor; None for none.
        """
        if preprocessor is None or not datasets:
            return datasets
        fit_once(preprocessor, datasets, TRAIN_DATASET_KEY)
        return {name: preprocessor.transform(dataset) for name, dataset in datasets.items()}

    def _options_of(self, name: str) -> Any:
        """Return the options of this dataset; None where nothing was said about it."""
        if isinstance(self._execution_options, Mapping):
            return self._execution_options.get(name)
        return self._execution_options

    @staticmethod
    def default_ingest_options() -> Any:
        """Return the options that datasets have where nothing else is said: a copy of those of
        this process."""
        from skate.data import DataContext

        return copy.deepcopy(DataContext.get_current().execution_options)


def check_datasets(given: object) -> None:
    """Raise unless they are datasets, or functions that make one, by name."""
    if given is None or given == {}:
        return
    if not isinstance(given, Mapping):
        raise ValueError(f"datasets is a dict of datasets by name; got {type(given).__name__}")
    from skate.data._api.iterating import Iterating

    for name, dataset in given.items():
        if not isinstance(dataset, Iterating) and not callable(dataset):
            raise ValueError(
                f"datasets[{name!r}] is not a Dataset but a {type(dataset).__name__}; "
                "make one with skate.data.from_items, from_pandas, read_parquet, …"
            )


def checked_datasets(given: Any) -> dict[str, Any]:
    """Return datasets by name; functions that make one are called."""
    made = {name: ds() if callable(ds) else ds for name, ds in (given or {}).items()}
    check_datasets(made)
    return made


def fit_once(preprocessor: Any, datasets: dict[str, object], name: str) -> None:
    """Fit a preprocessor to the dataset of this name, unless it is fitted or needs not be."""
    status = preprocessor.fit_status()
    if status != status.NOT_FITTED:
        return
    if name not in datasets:
        raise KeyError(
            f"the preprocessor is fitted to the dataset {name!r}; there are {sorted(datasets)}"
        )
    preprocessor.fit(datasets[name])
