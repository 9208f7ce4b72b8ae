"""Batches as tensors of torch, JAX and TensorFlow: shared by Dataset and DataIterator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, overload

from skate._core.optional_imports import try_import
from skate.data._api.epochs import Batches, DerivedEpochs, StatefulEpochs
from skate.data._api.rows_and_batches import RowsAndBatches, ahead
from skate.data._arrow.blocks import Block
from skate.data._execution.batching import (
    batches,
    check_given,
    collated,
    of_column,
    torch_batches,
    torch_device,
)
from skate.data._execution.positions import LocalShuffle
from skate.data._settings.context import DataContext
from skate.data.collate_fn import format_for

if TYPE_CHECKING:
    import torch
    from typing_extensions import Unpack

    from skate.data._api.rows_and_batches import BatchKeywords

    class TorchKeywords(BatchKeywords, total=False):
        """What batches of tensors have as well; see `iter_torch_batches`."""

        device: str | torch.device | None
        pin_memory: bool


T = TypeVar("T")


class Iterating(RowsAndBatches):
    """Rows and batches, and batches in the forms that frameworks take."""

    def _obeying(self, context: DataContext) -> Iterating:
        """Return the same rows, by other settings where it is here that they are computed."""
        return self

    @overload
    def iter_torch_batches(
        self,
        *,
        dtypes: torch.dtype | dict[str, torch.dtype] | None = ...,
        collate_fn: None = ...,
        **options: Unpack[TorchKeywords],
    ) -> StatefulEpochs[dict[str, torch.Tensor]]: ...
    @overload
    def iter_torch_batches(
        self, *, collate_fn: Callable[[Any], T], **options: Unpack[TorchKeywords]
    ) -> StatefulEpochs[T]: ...
    def iter_torch_batches(
        self,
        *,
        prefetch_batches: int = 1,
        prefetch_blocks: int = 0,
        batch_size: int | None = 256,
        dtypes: object = None,
        device: str | torch.device | None = "auto",
        collate_fn: Callable[[dict[str, Any]], Any] | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        pin_memory: bool = False,
    ) -> StatefulEpochs[Any]:
        """Iterate over batches that are dictionaries of torch tensors, one per column.

        Args:
            prefetch_batches: As in `iter_batches`.
            prefetch_blocks: As in `iter_batches`.
            batch_size: As in `iter_batches`.
            dtypes: One torch type, or one per column.
            device: Where the tensors are put; "auto" is the device of a training worker.
            collate_fn: What makes a batch of a dictionary of NumPy arrays (or of an Arrow table or
                a pandas frame, see `CollateFn`), copies that are its own; what it returns is moved
                to the device. It runs ahead in a thread.
            drop_last: As in `iter_batches`.
            local_shuffle_buffer_size: As in `iter_batches`.
            local_shuffle_seed: As in `iter_batches`.
            pin_memory: Whether the tensors are in memory that a GPU reads fast.

        Returns:
            The batches; each iteration over them runs the plan again. Their `state_dict()` says
            where the last one is, and `load_state_dict()` goes on there.

        Raises:
            ValueError: If both `dtypes` and a `collate_fn` are given.

        Example:
            >>> for batch in skate.data.range(2).iter_torch_batches(device="cpu"):
            ...     print(batch["id"])
            tensor([0, 1])
        """
        try_import("torch", "torch")
        if collate_fn is not None and dtypes is not None:
            raise ValueError(
                "give dtypes or a collate_fn, not both: the collate_fn sets the types"
            )

        def make(blocks: Iterator[Block], shuffle: LocalShuffle | None) -> Iterator[Any]:
            target = torch_device(device)
            if collate_fn is None:
                found: Iterator[Any] = torch_batches(
                    blocks, batch_size, dtypes, target, drop_last, shuffle, pin_memory
                )
            else:
                format_ = format_for(collate_fn)
                arrays = batches(blocks, batch_size, format_, drop_last, shuffle)
                found = collated(map(owned, arrays), collate_fn, target, pin_memory)
            return ahead(found, prefetch_batches, collate_fn is not None or target is not None)

        return Batches(
            self, make, batch_size, local_shuffle_buffer_size, local_shuffle_seed,
            owns=collate_fn is None,
        )  # fmt: skip

    def to_torch(
        self,
        *,
        label_column: str | None = None,
        feature_columns: object = None,
        label_column_dtype: object = None,
        feature_column_dtypes: object = None,
        batch_size: int = 1,
        prefetch_batches: int = 1,
        prefetch_blocks: int = 0,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        unsqueeze_label_tensor: bool = True,
        unsqueeze_feature_tensors: bool = True,
    ) -> Any:
        """Return a torch IterableDataset of (features, label).

        Workers of a DataLoader share it: each goes through all and gives its share of the batches.

        Args:
            label_column: The column of the labels; None for none.
            feature_columns: The columns of the features: a list gives one tensor, a list of lists
                or a dictionary of lists several; None is all but the label.
            label_column_dtype: The torch type of the labels; None keeps the column's.
            feature_column_dtypes: The torch type of the features, nested as `feature_columns` are;
                None keeps the columns'.
            batch_size: As in `iter_batches`.
            prefetch_batches: As in `iter_batches`.
            prefetch_blocks: As in `iter_batches`.
            drop_last: As in `iter_batches`.
            local_shuffle_buffer_size: As in `iter_batches`.
            local_shuffle_seed: As in `iter_batches`.
            unsqueeze_label_tensor: Whether labels are of the shape (n, 1), and not (n,).
            unsqueeze_feature_tensors: Whether each column of the features is, before they are put
                together.
        """
        from skate.data._api.torch_dataset import FeaturesAndLabels

        return FeaturesAndLabels(
            self.iter_batches(
                batch_size=batch_size,
                prefetch_batches=prefetch_batches,
                drop_last=drop_last,
                local_shuffle_buffer_size=local_shuffle_buffer_size,
                local_shuffle_seed=local_shuffle_seed,
            ),
            label_column,
            feature_columns,
            label_column_dtype,
            feature_column_dtypes,
            unsqueeze_label_tensor,
            unsqueeze_feature_tensors,
            (local_shuffle_buffer_size is None or local_shuffle_seed is not None)
            and self._repeatable(),
        )

    def iter_jax_batches(
        self,
        *,
        prefetch_batches: int = 1,
        batch_size: int | None = 256,
        dtypes: object = None,
        collate_fn: Callable[[Any], Any] | None = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        synchronize_batches: bool = False,
        paddings: object = None,
    ) -> StatefulEpochs[Any]:
        """Iterate over batches that are dictionaries of JAX arrays, one per column.

        Args:
            prefetch_batches: As in `iter_batches`.
            batch_size: As in `iter_batches`.
            dtypes: One type, or one per column.
            collate_fn: What makes a batch of a dictionary of NumPy arrays instead.
            drop_last: As in `iter_batches`.
            local_shuffle_buffer_size: As in `iter_batches`.
            local_shuffle_seed: As in `iter_batches`.
            synchronize_batches: Without effect: it is for several machines.
            paddings: One value, or one per column, that fills the last batch up to `batch_size`.

        Returns:
            The batches; each iteration over them runs the plan again. Their `state_dict()` says
            where the last one is, and `load_state_dict()` goes on there.
        """
        jax = try_import("jax.numpy", "jax")
        arrays = self.iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            batch_format=format_for(collate_fn),
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
        )

        def convert(batch: Any) -> Any:
            if collate_fn is not None:
                return collate_fn(batch)
            check_given(dtypes, list(batch))
            check_given(paddings, list(batch))
            if paddings is not None and batch_size is not None:
                batch = padded(batch, batch_size, paddings)
            return {
                name: jax.asarray(array, dtype=of_column(dtypes, name))
                for name, array in batch.items()
            }

        return DerivedEpochs(arrays, lambda: map(convert, arrays))

    def iter_tf_batches(
        self,
        *,
        prefetch_batches: int = 1,
        prefetch_blocks: int = 0,
        batch_size: int | None = 256,
        dtypes: object = None,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
    ) -> StatefulEpochs[Any]:
        """Iterate over batches that are dictionaries of TensorFlow tensors, one per column.

        Args:
            prefetch_batches: As in `iter_batches`.
            prefetch_blocks: As in `iter_batches`.
            batch_size: As in `iter_batches`.
            dtypes: One TensorFlow type, or one per column.
            drop_last: As in `iter_batches`.
            local_shuffle_buffer_size: As in `iter_batches`.
            local_shuffle_seed: As in `iter_batches`.

        Returns:
            The batches; each iteration over them runs the plan again. Their `state_dict()` says
            where the last one is, and `load_state_dict()` goes on there.
        """
        from skate.data._api.tensorflow import tensors_of

        arrays = self.iter_batches(
            prefetch_batches=prefetch_batches,
            batch_size=batch_size,
            drop_last=drop_last,
            local_shuffle_buffer_size=local_shuffle_buffer_size,
            local_shuffle_seed=local_shuffle_seed,
        )
        return DerivedEpochs(arrays, lambda: (tensors_of(batch, dtypes) for batch in arrays))

    def to_tf(
        self,
        feature_columns: object = None,
        label_columns: object = None,
        *,
        output_signature: object = None,
        label_column: str | None = None,
        additional_columns: object = None,
        prefetch_batches: int = 1,
        prefetch_blocks: int = 0,
        batch_size: int = 1,
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        feature_type_spec: object = None,
        label_type_spec: object = None,
        additional_type_spec: object = None,
    ) -> Any:
        """Return a tf.data.Dataset of (features, labels[, additional]).

        Columns that hold lists, or arrays of unequal shapes, become ragged tensors. The types are
        those of the schema, for which one row is computed if need be, or the `…_type_spec` given:
        lists of equal length become one dense tensor by a `tf.TensorSpec`.

        Args:
            feature_columns: A column for one tensor, or several for a dictionary of tensors.
            label_columns: The columns of the labels, likewise.
            output_signature: As until Ray 2.0: the features are the columns side by side in one
                tensor (in several, for a list of lists or a dict of lists; by default all columns
                but the label), alone or with those of `label_column`.
            label_column: The column of the labels, with `output_signature`.
            additional_columns: Further columns, as a third part of each element.
            prefetch_batches: As in `iter_batches`.
            prefetch_blocks: As in `iter_batches`.
            batch_size: As in `iter_batches`.
            drop_last: As in `iter_batches`.
            local_shuffle_buffer_size: As in `iter_batches`.
            local_shuffle_seed: As in `iter_batches`.
            feature_type_spec: The `tf.TypeSpec` of the features, or a dictionary of them.
            label_type_spec: That of the labels.
            additional_type_spec: That of the additional columns.
        """
        from skate.data._api.tensorflow import Groups, side_by_side

        modern: dict[str, Any] = {
            "label_columns": label_columns,
            "additional_columns": additional_columns,
            "feature_type_spec": feature_type_spec,
            "label_type_spec": label_type_spec,
            "additional_type_spec": additional_type_spec,
        }
        _check_forms(feature_columns, modern, output_signature, label_column)
        options: dict[str, Any] = {
            "prefetch_batches": prefetch_batches,
            "batch_size": batch_size,
            "drop_last": drop_last,
            "local_shuffle_buffer_size": local_shuffle_buffer_size,
            "local_shuffle_seed": local_shuffle_seed,
        }
        if output_signature is not None:
            arrays = self.iter_batches(**options)
            return side_by_side(arrays, feature_columns, label_column, output_signature)
        more = additional_columns is not None
        groups = Groups(
            [feature_columns, label_columns, *([additional_columns] if more else [])],
            [feature_type_spec, label_type_spec, *([additional_type_spec] if more else [])],
        )
        if not groups.are_described:
            groups.describe(self.schema())
        return groups.dataset(self.iter_batches(**options, _columns=groups.names))


def _check_forms(
    features: object, modern: dict[str, Any], signature: object, label: object
) -> None:
    """Raise for arguments of `to_tf` that its two forms do not share."""
    if signature is not None:
        if given := [name for name, value in modern.items() if value is not None]:
            raise TypeError(
                f"to_tf with output_signature takes feature_columns and label_column; got also "
                f"{', '.join(given)}"
            )
    elif features is None or modern["label_columns"] is None:
        raise TypeError("to_tf takes feature_columns and label_columns, or output_signature")
    elif label is not None:
        raise TypeError(
            f"label_column belongs to output_signature; without one it is label_columns. Got "
            f"{label!r}"
        )
    elif modern["additional_type_spec"] is not None and modern["additional_columns"] is None:
        raise TypeError("additional_type_spec describes additional_columns, which are missing")


def owned(batch: object) -> Any:
    """Copy arrays that have no memory of their own: torch writes into what it is given, read-only
    or not."""
    if not isinstance(batch, dict):
        return batch
    return {name: array if array.flags.owndata else array.copy() for name, array in batch.items()}


def padded(batch: dict[str, Any], rows: int, paddings: Any) -> dict[str, Any]:
    """Fill the batch up to so many rows with constant values."""
    import numpy as np

    def fill(name: str, array: Any) -> Any:
        missing = [(0, rows - len(array)), *([(0, 0)] * (array.ndim - 1))]
        return np.pad(array, missing, constant_values=of_column(paddings, name) or 0)

    return {name: fill(name, array) for name, array in batch.items()}
