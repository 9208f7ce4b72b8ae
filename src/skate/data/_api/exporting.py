"""Dataset: its blocks and plan, for programs that work with these; Dask, random access."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import pyarrow as pa

import skate
from skate._core.optional_imports import try_import
from skate._core.plain_errors import methods_failing_plainly
from skate.data._api.consuming import Consuming
from skate.data._arrow.blocks import pandas_of
from skate.data._execution.bundles import Bundle
from skate.data._execution.stats import ExecutionStats
from skate.data._plan import nodes as plan
from skate.data._settings.context import DataContext
from skate.data.block import BlockMetadata

if TYPE_CHECKING:
    from skate.data.dataset import Dataset
    from skate.data.random_access_dataset import RandomAccessDataset

__all__ = ["Exporting", "RefBundle"]


class BlockEntry(NamedTuple):
    """A reference to a block, and what is known about it."""

    ref: skate.ObjectRef[pa.Table]
    metadata: BlockMetadata


@dataclass(frozen=True)
class RefBundle:
    """References to blocks, with what is known about each."""

    blocks: tuple[BlockEntry, ...]
    schema: pa.Schema | None = None
    owns_blocks: bool = True

    @property
    def block_refs(self) -> list[skate.ObjectRef[pa.Table]]:
        return [ref for ref, _ in self.blocks]

    @property
    def metadata(self) -> list[BlockMetadata]:
        return [known for _, known in self.blocks]

    def num_rows(self) -> int:
        return sum(known.num_rows or 0 for known in self.metadata)

    def size_bytes(self) -> int:
        return sum(known.size_bytes or 0 for known in self.metadata)


def ref_bundles(bundles: Iterator[Bundle]) -> Iterator[RefBundle]:
    """Yield references to blocks as they come."""
    for bundle in bundles:
        stored = bundle.stored()
        assert stored.ref is not None
        yield RefBundle((BlockEntry(stored.ref, BlockMetadata(stored.rows, stored.size)),))


@methods_failing_plainly
class Exporting(Consuming):
    """For programs that work with blocks, plans and other libraries."""

    def iter_internal_ref_bundles(self) -> Iterator[RefBundle]:
        """Execute, and give references to the blocks as they come."""
        return ref_bundles(self._bundles())

    def get_internal_block_refs(self) -> list[skate.ObjectRef[pa.Table]]:
        """Return references to all blocks."""
        return [ref for bundle in self.iter_internal_ref_bundles() for ref in bundle.block_refs]

    @property
    def context(self) -> DataContext:
        """The settings that executions obey, of this dataset and of those derived from it."""
        return self._context

    def get_dataset_id(self) -> str:
        """Return a name that no other dataset has."""
        if self._id is None:
            self._id = f"dataset_{uuid.uuid4().hex}"
        return self._id

    def _get_uuid(self) -> str:
        """Return the id of the dataset, under the name by which Ray's own tests ask for it."""
        return self.get_dataset_id()

    def _set_uuid(self, uuid: str) -> None:
        """Name the dataset, as Ray's own tests do before they write files."""
        self._id = uuid

    def get_stats_summary(self, detail: bool = False) -> ExecutionStats:
        """Return the numbers behind `stats()`.

        Args:
            detail: Without effect: they are given in full.
        """
        return self._stats if self._stats is not None else ExecutionStats()

    # -- lineage --------------------------------------------------------------------------------

    def has_serializable_lineage(self) -> bool:
        """Return whether the rows can be computed anew, elsewhere and later, as from files."""
        return all(isinstance(leaf, plan.Read) for leaf in _leaves(self._plan))

    def serialize_lineage(self) -> bytes:
        """Return how to compute the rows, as bytes for `deserialize_lineage`.

        Raises:
            ValueError: If the dataset is made of rows in memory.
        """
        if not self.has_serializable_lineage():
            raise ValueError(
                "the dataset is made of rows in memory, which are no part of its lineage; "
                "write them to files, and read those"
            )
        return cloudpickle.dumps((self.get_dataset_id(), self._name, self._plan))

    @staticmethod
    def deserialize_lineage(serialized_ds: bytes) -> Dataset:
        """Return the dataset whose `serialize_lineage` gave these bytes.

        Args:
            serialized_ds: The bytes; a pickle, so only from where you trust.
        """
        from skate.data.dataset import Dataset

        id_, name, node = cloudpickle.loads(serialized_ds)
        dataset = Dataset(node)
        dataset._id, dataset._name = id_, name
        return dataset

    # -- other libraries ------------------------------------------------------------------------

    def to_dask(self, meta: object = None, verify_meta: bool = True) -> Any:
        """Return a Dask DataFrame with a partition per block.

        Args:
            meta: An empty frame that describes the columns to Dask; None finds it out.
            verify_meta: Whether Dask compares it with what comes.
        """
        frames = try_import("dask.dataframe", "data")
        delayed = try_import("dask", "data").delayed
        parts = [delayed(_frame_of)(ref) for ref in self.get_internal_block_refs()]
        if meta is None:
            schema = self.schema()
            arrow = pa.schema([]) if schema is None else schema.base_schema
            meta = pandas_of(arrow.empty_table())
        return frames.from_delayed(parts, meta=meta, verify_meta=verify_meta)

    def to_random_access_dataset(
        self, key: str, num_workers: int | None = None
    ) -> RandomAccessDataset:
        """Keep the rows in actors that look them up by key.

        Args:
            key: The column of the key, which must be unique.
            num_workers: How many actors; None is 4.

        Returns:
            What looks rows up: `get_async(key)` and `multiget(keys)`.
        """
        from skate.data.random_access_dataset import RandomAccessDataset

        return RandomAccessDataset(self._with(self._plan), key, num_workers or 4)


def _frame_of(block: skate.ObjectRef[pa.Table] | pa.Table) -> object:
    """Convert a block to a frame. Dask on skate puts values in place of references before a task
    runs; Dask alone does not."""
    return pandas_of(skate.get(block) if isinstance(block, skate.ObjectRef) else block)


def _leaves(node: plan.Node) -> Iterator[plan.Node]:
    if not node.inputs:
        yield node
    for child in node.inputs:
        yield from _leaves(child)
