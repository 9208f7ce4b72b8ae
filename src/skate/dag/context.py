"""Settings of Ray's compiled graphs, for programs that read and write them."""

from __future__ import annotations

from dataclasses import dataclass

_current: DAGContext | None = None


@dataclass
class DAGContext:
    """Settings of the channels on which Ray runs compiled graphs.

    Here graphs run as ordinary calls: nothing has to be waited for, or be bounded, before they do.
    So all of these are kept, and without effect.

    Args:
        submit_timeout: Without effect: `execute` does not wait.
        get_timeout: Without effect: `get` takes a `timeout`.
        teardown_timeout: Without effect: `teardown` does not wait.
        read_iteration_timeout: Without effect: there are no channels to read from; at most
            `get_timeout`.
        buffer_size_bytes: Without effect: values may have any size.
        max_inflight_executions: Without effect: there may be any number, unless
            `experimental_compile(_max_inflight_executions=)` limits it.
        max_buffered_results: Without effect: there may be any number.
        overlap_gpu_communication: Without effect: tensors travel through shared memory.

    Raises:
        ValueError: If `read_iteration_timeout` is above `get_timeout`.
    """

    submit_timeout: int = 10
    get_timeout: int = 10
    teardown_timeout: int = 30
    read_iteration_timeout: float = 0.1
    buffer_size_bytes: int = 1_000_000
    max_inflight_executions: int = 10
    max_buffered_results: int = 1000
    overlap_gpu_communication: bool = False

    def __post_init__(self) -> None:
        if self.read_iteration_timeout > self.get_timeout:
            raise ValueError(
                f"read_iteration_timeout ({self.read_iteration_timeout}) must be less than or "
                f"equal to get_timeout ({self.get_timeout})"
            )

    @staticmethod
    def get_current() -> DAGContext:
        """Return the one of this process."""
        global _current
        if _current is None:
            _current = DAGContext()
        return _current
