"""Dataset: rows that are read, transformed and consumed as a stream of blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate._core.public_names import name_publicly
from skate.data._api.aggregating import Aggregating
from skate.data._api.combining import Combining
from skate.data._api.exporting import Exposing
from skate.data._api.splitting import Splitting
from skate.data._api.transforming import Transforming
from skate.data._api.writing import Writing
from skate.data._api.writing_lakes import WritingLakes
from skate.data._arrow.schema import Schema

if TYPE_CHECKING:
    from skate.data.dataset_pipeline import DatasetPipeline
    from skate.data.iterator import DataIterator


class Dataset(Transforming, Combining, Aggregating, Splitting, Writing, WritingLakes, Exposing):
    """A lazy dataset. Make one with `skate.data.read_*`, `range` or `from_*`.

    ds = skate.data.range(1000).map_batches(lambda batch: {"x": batch["id"] ** 2})
    for batch in ds.iter_torch_batches(batch_size=100):
        ...
    """

    def iterator(self) -> DataIterator:
        """The dataset as something to iterate over only, which travels to other processes."""
        from skate.data.iterator import WholeDataset

        return WholeDataset(self)

    def window(
        self, *, blocks_per_window: int | None = None, bytes_per_window: int | None = None
    ) -> DatasetPipeline:
        """The dataset a few blocks (10) at a time, as older versions of Ray have it."""
        from skate.data.dataset_pipeline import DatasetPipeline, windows_of

        return DatasetPipeline(windows_of(self, blocks_per_window, bytes_per_window))

    def repeat(self, times: int | None = None) -> DatasetPipeline:
        """The dataset epoch after epoch, as older versions of Ray have it; for ever without
        `times`. It is computed once."""
        from skate.data.dataset_pipeline import DatasetPipeline, KeptWindow

        return DatasetPipeline(KeptWindow(self), times)

    @property
    def name(self) -> str | None:
        return self._name

    def set_name(self, name: str | None) -> None:
        self._name = name

    def copy(self) -> Dataset:
        """A dataset with the same plan."""
        clone = type(self)(self._plan, self._context)
        clone._name = self._name
        return clone

    def __getattr__(self, name: str) -> Any:
        from skate._core.former_names import no_such_name

        raise AttributeError(no_such_name("data.Dataset", name, dir(type(self))))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stats": None}


class MaterializedDataset(Dataset):
    """A dataset whose rows are computed and kept."""


__all__ = ["Dataset", "MaterializedDataset", "Schema"]

name_publicly("skate.data", Schema)
