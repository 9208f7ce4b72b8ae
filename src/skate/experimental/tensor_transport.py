"""Tensors that actors return by `tensor_transport`."""

from __future__ import annotations

__all__ = ["wait_tensor_freed"]


def wait_tensor_freed(tensor: object, timeout: float | None = None) -> None:
    """Return when a tensor that was returned, or put, can be written to: at once.

    Others have copies of it, whatever its `tensor_transport` was, so that they never see what is
    written later.

    Args:
        tensor: The tensor.
        timeout: Without effect: nothing is waited for.
    """
