"""From blocks to the batches that a consumer sees."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from copy import copy
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from skate._core.argument_checks import wrong_type, wrong_value
from skate._core.optional_imports import try_import
from skate.data._arrow.blocks import (
    Batch,
    Block,
    check_columns,
    concat,
    detached,
    detached_arrays,
    is_own,
    numpy_of,
)
from skate.data._execution.positions import LocalShuffle
from skate.data._execution.transforms import rebatched, slices

if TYPE_CHECKING:
    import torch

    from skate._core.arrays import Array


def check_batch_size(batch_size: int | None) -> None:
    allowed = "a number of at least 1, or None"
    if batch_size is not None and not isinstance(batch_size, Real):
        raise wrong_type("batch_size", batch_size, allowed)
    if batch_size is not None and batch_size < 1:
        raise wrong_value("batch_size", batch_size, allowed)


def pieces(
    blocks: Iterator[Block],
    batch_size: int | None,
    drop_last: bool,
    shuffle: LocalShuffle | None,
) -> Iterator[Block]:
    """Yield blocks of whole batches, all but the last of all, shuffled if asked for."""
    check_batch_size(batch_size)
    if shuffle is not None:
        if batch_size is None:
            raise ValueError("local_shuffle_buffer_size needs a batch_size")
        blocks = shuffle.mixed(blocks, batch_size)
    for piece in rebatched(blocks, batch_size):
        if drop_last and batch_size is not None and piece.num_rows % batch_size:
            continue
        yield piece


def batches(
    blocks: Iterator[Block],
    batch_size: int | None,
    batch_format: str,
    drop_last: bool = False,
    shuffle: LocalShuffle | None = None,
    kept: bool = False,
) -> Iterator[Batch]:
    """Yield batches in a format; of blocks that are kept they are copies, where they could be
    written to."""
    for piece in pieces(blocks, batch_size, drop_last, shuffle):
        if not kept or batch_format == "pyarrow":
            yield from slices(piece, batch_size, batch_format)
        elif batch_format == "numpy":
            yield from map(detached_arrays, slices(piece, batch_size, batch_format))
        else:
            yield from slices(detached(piece, batch_format), batch_size, batch_format)


# -- torch --------------------------------------------------------------------------------------


def torch_batches(
    blocks: Iterator[Block],
    batch_size: int | None,
    dtypes: object,
    device: object,
    drop_last: bool,
    shuffle: LocalShuffle | None,
    pin_memory: bool,
) -> Iterator[dict[str, torch.Tensor]]:
    """Yield dictionaries of tensors. A block that is not ours alone is copied once, and its
    batches are views on the copy: what a training loop changes in place never reaches the
    dataset."""
    try_import("torch", "torch")
    for piece in pieces(blocks, batch_size, drop_last, shuffle):
        check_given(dtypes, piece.column_names)
        own = is_own(piece)
        columns = {
            name: tensor_of(array, of_column(dtypes, name), name, own)
            for name, array in numpy_of(piece, writable=own).items()
        }
        size = batch_size or piece.num_rows
        for start in range(0, piece.num_rows, size):
            batch = {name: tensor[start : start + size] for name, tensor in columns.items()}
            yield moved(batch, device, pin_memory)


def of_column(given: object, name: str) -> Any:
    """Return what was given for the column `name`, or else for all of them."""
    return given.get(name) if isinstance(given, dict) else given


def check_given(given: object, names: Sequence[str]) -> None:
    """Raise if something was given for a column that there is not."""
    if isinstance(given, dict):
        check_columns(list(given), names)


def tensor_of(array: Array, dtype: Any, name: str, own: bool = False) -> Any:
    """Make a tensor whose memory is nobody else's, as is that of an array of our `own` which can
    be written to; a list of tensors if their shapes differ."""
    import torch

    if array.dtype.kind == "O":
        return _tensors_of_objects(array, dtype, name)
    if array.dtype.kind not in "biufc":
        raise TypeError(_no_type(name, str(array.dtype)))
    if array.dtype.kind == "u" and array.dtype.itemsize > 1 and not hasattr(torch, "uint16"):
        array = array.astype(np.int64)
    target = _numpy_dtype(dtype)
    if target is not None and target != array.dtype:
        return torch.from_numpy(array.astype(target))
    alone = array.flags.writeable and (own or array.base is None)
    tensor = torch.from_numpy(array if alone else array.copy())
    return tensor if dtype is None else tensor.to(dtype)


def _numpy_dtype(dtype: object) -> Any:
    """Return NumPy's type for a torch type, which then converts and copies at once; `None` if it
    has none."""
    if dtype is None:
        return None
    text = str(dtype).removeprefix("torch.")
    return np.dtype(text) if text in _COMMON else None


_COMMON = {"float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"}


def _tensors_of_objects(array: Array, dtype: Any, name: str) -> Any:
    import torch

    tensors = list(map(torch.from_numpy, map(partial(_numbers_of, name), array)))
    if dtype is not None:
        tensors = [tensor.to(dtype) for tensor in tensors]
    same = len({tensor.shape for tensor in tensors}) == 1
    return torch.stack(tensors) if same else tensors


def _numbers_of(name: str, value: object) -> Array:
    """Return the array of one row, whose memory is nobody else's: of an array, of a complex
    number, or of a list of these, which Arrow has no type for."""
    try:
        numbers = np.array(value)
    except ValueError:  # lists of different lengths
        numbers = np.empty((), object)
    if numbers.dtype.kind not in "biufc" or isinstance(value, int):
        raise TypeError(_no_type(name, type(value).__name__))
    return numbers


def _no_type(name: str, kind: str) -> str:
    return (
        f"column {name!r} holds values of type {kind}, for which torch has no tensor; "
        "drop it with drop_columns, or give a collate_fn"
    )


def moved(batch: Any, device: Any, pin_memory: bool) -> Any:
    """Move all tensors of a batch to the device, through pinned memory if asked for."""
    import torch

    if device is None and not pin_memory:
        return batch
    if isinstance(batch, torch.Tensor):
        if pin_memory:
            batch = batch.pin_memory()
        return batch if device is None else batch.to(device, non_blocking=pin_memory)
    if isinstance(batch, MutableMapping):  # a dictionary, or what tokenizers return
        found = copy(batch)
        found.update({name: moved(batch[name], device, pin_memory) for name in batch})
        return found
    if isinstance(batch, (list, tuple)):
        values = [moved(value, device, pin_memory) for value in batch]
        return type(batch)(*values) if hasattr(batch, "_fields") else type(batch)(values)
    return batch


def torch_device(device: Any) -> torch.device | None:
    """Choose where batches go: "auto" is the first GPU that this worker was given; None means the
    CPU."""
    import torch

    import skate

    if device == "auto":
        given = skate.is_initialized() and skate.get_gpu_ids()
        return torch.device("cuda", 0) if given and torch.cuda.is_available() else None
    found = torch.device(device)
    return None if found.type == "cpu" else found


def collated(
    items: Iterable[Batch], collate_fn: Callable[[Batch], object], device: object, pin_memory: bool
) -> Iterator[Any]:
    for batch in items:
        yield moved(collate_fn(batch), device, pin_memory)


def batch_from(blocks: list[Block], batch_format: str, kept: bool) -> Batch:
    """Make one batch of all rows; see `batches`."""
    return next(batches(iter([concat(blocks)]), None, batch_format, kept=kept))
