"""How a trainer treats each of its datasets, as Ray AIR spelt it: a dict of settings by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from skate.train._data import TRAIN_DATASET_KEY, DataConfig, fit_once

OTHERS = "*"  # all datasets that are not named


@dataclass
class DatasetConfig:
    """An older form of `train.DataConfig`, for one dataset; None is as the trainer would have it.

    `split` shares it out between the workers, otherwise each gets all of it; by default "train" is
    split. `fit` fits the preprocessor to it, `transform=False` does not apply the preprocessor,
    and `per_epoch_preprocessor` is applied anew in each epoch. `global_shuffle` and
    `randomize_block_order` give the rows, or the pieces they are read in, another order in each
    epoch. A `required` dataset must be given. Datasets stream by themselves, so that
    `max_object_store_memory_fraction`, `use_stream_api` and `stream_window_size` change nothing.
    """

    fit: bool | None = None
    split: bool | None = None
    required: bool | None = None
    transform: bool | None = None
    max_object_store_memory_fraction: float | None = None
    global_shuffle: bool | None = None
    randomize_block_order: bool | None = None
    per_epoch_preprocessor: Any = None
    use_stream_api: bool | None = None
    stream_window_size: float | None = None

    def over(self, default: DatasetConfig) -> DatasetConfig:
        """Return these settings, and what is not said here as in `default`."""
        said = {f.name: getattr(self, f.name) for f in fields(self)}
        kept = {name: value for name, value in said.items() if value is not None}
        return DatasetConfig(**{**vars(default), **kept})


class DatasetConfigs(DataConfig):
    """A `DataConfig` made of settings by name."""

    def __init__(self, settings: dict[str, DatasetConfig], names: list[str]) -> None:
        self.settings = settings
        super().__init__([name for name in names if self[name].split])

    def __getitem__(self, name: str) -> DatasetConfig:
        return self.settings.get(name) or self.settings.get(OTHERS) or DatasetConfig()

    def prepared(self, datasets: dict[str, object], preprocessor: object) -> dict[str, Any]:
        """Transform and shuffle the datasets as the settings say."""
        if preprocessor is not None and datasets:
            fitting = [name for name in datasets if self[name].fit]
            fit_once(preprocessor, datasets, next(iter(fitting), TRAIN_DATASET_KEY))
        return {name: _prepared(ds, self[name], preprocessor) for name, ds in datasets.items()}


def _prepared(dataset: Any, setting: DatasetConfig, preprocessor: Any) -> Any:
    if preprocessor is not None and setting.transform is not False:
        dataset = preprocessor.transform(dataset)
    if setting.per_epoch_preprocessor is not None:
        dataset = setting.per_epoch_preprocessor.transform(dataset)
    if setting.randomize_block_order:
        dataset = dataset.randomize_block_order()
    return dataset.random_shuffle() if setting.global_shuffle else dataset


def as_data_config(given: object, datasets: object) -> DataConfig:
    """Make a DataConfig of one, or of settings by name: "train" is split, the others are not,
    unless it says otherwise, by name or for all others ("*")."""
    if given is None:
        return DataConfig()
    if isinstance(given, DataConfig):
        return given
    if not isinstance(given, Mapping):
        raise TypeError(f"dataset_config is a DataConfig; got {type(given).__name__}: {given!r}")
    names = list(datasets or ()) if isinstance(datasets, Mapping) else []
    said = {name: _setting(setting) for name, setting in given.items()}
    missing = [name for name, s in said.items() if s.required and name not in names]
    unknown = [n for n in said if n not in (*names, TRAIN_DATASET_KEY, OTHERS)]
    if missing or unknown:
        raise ValueError(
            f"dataset_config has {missing or unknown}; the datasets are {sorted(names)}"
        )
    train = said.get(TRAIN_DATASET_KEY, DatasetConfig()).over(DatasetConfig(split=True))
    return DatasetConfigs({**said, TRAIN_DATASET_KEY: train}, names)


def _setting(given: Any) -> DatasetConfig:
    if isinstance(given, DatasetConfig):
        return given
    known = list(asdict(DatasetConfig()))
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ValueError(f"the settings of a dataset have no {unknown}; they have {known}")
    return DatasetConfig(**given)
