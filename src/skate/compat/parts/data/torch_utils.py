"""`ray.data.util.torch_utils`: arrays as tensors of torch, in functions that programs take from
there and from where it was before, `ray.air._internal.torch_utils`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skate.data._arrow.blocks import numpy_of
from skate.data._execution.batching import moved, of_column, tensor_of

__all__ = [
    "arrow_batch_to_tensors",
    "convert_ndarray_batch_to_torch_tensor_batch",
    "convert_ndarray_list_to_torch_tensor_list",
    "convert_ndarray_to_torch_tensor",
    "move_tensors_to_device",
]


def convert_ndarray_to_torch_tensor(
    ndarray: Any, dtype: Any = None, device: Any = None, pin_memory: bool = False
) -> Any:
    """Return a tensor of an array."""
    tensor = tensor_of(ndarray, dtype, "the array")
    if isinstance(tensor, list):
        raise RuntimeError(
            "the arrays in it have different shapes, so that there is no one tensor of them: "
            "convert each, or give iter_torch_batches a collate_fn"
        )
    return moved(tensor, device, pin_memory)


def convert_ndarray_batch_to_torch_tensor_batch(
    ndarrays: Any, dtypes: Any = None, device: Any = None, pin_memory: bool = False
) -> Any:
    """Return a tensor of an array, or one for each array by its name."""
    if isinstance(ndarrays, Mapping):
        return {
            name: convert_ndarray_to_torch_tensor(
                array, of_column(dtypes, name), device, pin_memory
            )
            for name, array in ndarrays.items()
        }
    if isinstance(dtypes, Mapping):
        if len(dtypes) != 1:
            raise ValueError(f"a single array has a single dtype; got {dtypes}")
        (dtypes,) = dtypes.values()
    return convert_ndarray_to_torch_tensor(ndarrays, dtypes, device, pin_memory)


def convert_ndarray_list_to_torch_tensor_list(
    ndarrays: Mapping[str, Sequence[Any]],
    dtypes: Any = None,
    device: Any = None,
    pin_memory: bool = False,
) -> dict[str, list[Any]]:
    """Return a list of tensors for each list of arrays."""
    return {
        name: [
            convert_ndarray_to_torch_tensor(array, of_column(dtypes, name), device, pin_memory)
            for array in arrays
        ]
        for name, arrays in ndarrays.items()
    }


def arrow_batch_to_tensors(
    batch: Any, dtypes: Any = None, combine_chunks: bool = False, pin_memory: bool = False
) -> dict[str, Any]:
    """Return a tensor for each column of a table, or one for each of its chunks."""
    if combine_chunks:
        arrays = numpy_of(batch)
        return dict(convert_ndarray_batch_to_torch_tensor_batch(arrays, dtypes, None, pin_memory))
    chunks = [numpy_of(type(batch).from_batches([each])) for each in batch.to_batches()]
    lists = {name: [chunk[name] for chunk in chunks] for name in batch.column_names}
    return convert_ndarray_list_to_torch_tensor_list(lists, dtypes, None, pin_memory)


def move_tensors_to_device(batch: Any, device: Any = None, non_blocking: bool = False) -> Any:
    """Move tensors to a device, in whatever they are; those of a list in a dictionary, or in
    another list, are joined to one."""
    import torch

    if device is None:
        return batch
    if isinstance(batch, torch.Tensor):
        return batch.to(device, non_blocking=non_blocking)
    if isinstance(batch, Mapping):
        return {name: _joined(value, device, non_blocking) for name, value in batch.items()}
    if isinstance(batch, (list, tuple)):
        return type(batch)([_joined(value, device, non_blocking) for value in batch])
    raise ValueError(
        "a batch is a torch.Tensor, or a list, tuple or dictionary of such or of lists of such; "
        f"got {type(batch).__name__}"
    )


def _joined(value: Any, device: Any, non_blocking: bool) -> Any:
    import torch

    if isinstance(value, (list, tuple)):
        value = torch.cat(list(value))
    return move_tensors_to_device(value, device, non_blocking)
