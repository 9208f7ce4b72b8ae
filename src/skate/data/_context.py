"""Settings of skate.data, one object per process."""

from __future__ import annotations

import copy
import os
from dataclasses import dataclass, field
from typing import Any, ClassVar

MB = 1 << 20


@dataclass
class ExecutionResources:
    """Limits of an execution; None means no limit."""

    cpu: float | None = None
    object_store_memory: float | None = None


@dataclass
class ExecutionOptions:
    """How datasets are executed. `resource_limits.cpu` bounds the tasks that run at a time and
    `resource_limits.object_store_memory` the bytes of finished blocks that wait for a consumer."""

    resource_limits: ExecutionResources = field(default_factory=ExecutionResources)


@dataclass
class DataContext:
    """Settings of this process. `DataContext.get_current()` is the one in use; change its
    attributes."""

    target_max_block_size: int = 128 * MB
    """Blocks are split above this many bytes."""
    target_min_block_size: int = 1 * MB
    """Small files are read together up to this many bytes."""
    in_driver_bytes: int = 4 * MB
    """Reads that need Python code (images, torch datasets) stay in the driver up to this size."""
    sort_memory_bytes: int = field(default_factory=lambda: _physical_memory() // 4)
    """sort, random_shuffle, groupby and join work in memory up to this size; beyond, by
    partitions that are kept in the object store, which spills to disk."""
    max_errored_blocks: int = 0
    """How many blocks may fail before an execution does; -1: any number."""
    enable_progress_bars: bool = True
    """A line of progress on a terminal; never elsewhere."""
    execution_options: ExecutionOptions = field(default_factory=ExecutionOptions)
    _config: dict[str, Any] = field(default_factory=dict)

    _current: ClassVar[DataContext | None] = None

    @classmethod
    def get_current(cls) -> DataContext:
        if DataContext._current is None:
            DataContext._current = DataContext()
        return DataContext._current

    def copy(self) -> DataContext:
        return copy.deepcopy(self)

    def get_config(self, key: str, default: Any = None) -> Any:
        """A value of your own, as `set_config` left it."""
        return self._config.get(key, default)

    def set_config(self, key: str, value: Any) -> None:
        self._config[key] = value

    def remove_config(self, key: str) -> None:
        self._config.pop(key, None)


def _physical_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def driver_threads() -> int:
    """How many threads read in this process."""
    return max(1, len(os.sched_getaffinity(0)))
