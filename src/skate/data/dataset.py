"""Dataset: rows that are read, transformed and consumed as a stream of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate._core.public_names import name_publicly
from skate.data._api.aggregating import Aggregating
from skate.data._api.combining import Combining
from skate.data._api.exporting import Exporting
from skate.data._api.splitting import Splitting
from skate.data._api.transforming import Transforming
from skate.data._api.writing import Writing
from skate.data._api.writing_lakes import WritingLakes
from skate.data._arrow.schema import Schema

if TYPE_CHECKING:
    from skate.data.dataset_pipeline import DatasetPipeline
    from skate.data.iterator import DataIterator


# What methods were called until Ray 2.8; datasets are lazy by themselves.
_RENAMED = {"fully_executed": "materialize", "lazy": "copy", "experimental_lazy": "copy"}

# What those look for who know frames of pandas.
_HERE = {
    "agg": "aggregate(), groupby(column).aggregate()",
    "apply": "map(), map_batches()",
    "assign": "with_column()",
    "describe": "summary()",
    "drop": "drop_columns()",
    "drop_duplicates": "unique() for a column",
    "dropna": 'map_batches(..., batch_format="pandas")',
    "fillna": 'map_batches(..., batch_format="pandas")',
    "head": "take(n), show(n)",
    "iloc": "take(n)",
    "loc": "filter()",
    "merge": "join()",
    "query": "filter(expr=...)",
    "rename": "rename_columns()",
    "sample": "random_sample(fraction)",
    "shape": "count(), columns()",
    "sort_values": "sort()",
    "to_dict": "take_all()",
}


class Dataset(Transforming, Combining, Aggregating, Splitting, Writing, WritingLakes, Exporting):
    """Read, transform and consume rows; nothing is computed before it is needed.

    Make one with `skate.data.read_*`, `range` or `from_*`.

    Args:
        node: The plan; made by these functions, and by the methods of other datasets.
        context: The settings that it obeys; None takes a copy of the current ones.

    Example:
        >>> ds = skate.data.range(4).map_batches(lambda batch: {"x": batch["id"] ** 2})
        >>> ds.take_all()
        [{'x': 0}, {'x': 1}, {'x': 4}, {'x': 9}]
    """

    def iterator(self) -> DataIterator:
        """Return an iterator over the rows, which can be sent to other processes."""
        from skate.data.iterator import WholeDataset

        return WholeDataset(self)

    def window(
        self, *, blocks_per_window: int | None = None, bytes_per_window: int | None = None
    ) -> DatasetPipeline:
        """Take the dataset a few blocks at a time, as older versions of Ray have it.

        Args:
            blocks_per_window: How many blocks; 10 if neither is given.
            bytes_per_window: How many bytes of blocks instead.

        Returns:
            A pipeline of the windows.
        """
        from skate.data.dataset_pipeline import DatasetPipeline, windows_of

        return DatasetPipeline(windows_of(self, blocks_per_window, bytes_per_window))

    def repeat(self, times: int | None = None) -> DatasetPipeline:
        """Compute the dataset once, and take it epoch after epoch, as in older versions of Ray.

        Args:
            times: How often; None is for ever.

        Returns:
            A pipeline of the epochs.
        """
        from skate.data.dataset_pipeline import DatasetPipeline, KeptWindow

        return DatasetPipeline(KeptWindow(self), times)

    @property
    def name(self) -> str | None:
        return self._name

    def set_name(self, name: str | None) -> None:
        """Give the dataset a name, for its statistics and progress.

        Args:
            name: The name; None for none.
        """
        self._name = name

    def copy(self) -> Dataset:
        """Return a dataset with the same plan."""
        clone = type(self)(self._plan, self._context)
        clone._name = self._name
        return clone

    def __getattr__(self, name: str) -> Any:
        from skate._core.former_names import no_such_name

        if name in _RENAMED:
            return getattr(self, _RENAMED[name])
        if name in _HERE:
            raise AttributeError(f"a dataset has no {name!r} as frames have: use {_HERE[name]}")
        text = no_such_name("data.Dataset", name, dir(type(self)))
        raise AttributeError(text, name=name, obj=None)  # so that Python adds none of its own

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_stats": None}


class MaterializedDataset(Dataset):
    """Hold a dataset whose rows are computed and kept.

    Args:
        node: The plan; made by `Dataset.materialize` and the `from_*` functions.
        context: The settings that it obeys; None takes a copy of the current ones.
    """


__all__ = ["Dataset", "MaterializedDataset", "Schema"]

name_publicly("skate.data", Schema)
