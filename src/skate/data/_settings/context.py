"""Settings of skate.data: one object per process, of which each dataset takes a copy."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from skate._core.machine import memory
from skate._core.optional_imports import ray_is_skate
from skate.data._execution.options import ExecutionOptions, ExecutionResources
from skate.data._settings.deprecated import RENAMED, warn_of
from skate.data._settings.without_effect import RaySettings, ShuffleStrategy, UnsupportedSettings

if TYPE_CHECKING:
    from skate.data.checkpoint import CheckpointConfig

__all__ = ["DataContext", "ExecutionOptions", "ExecutionResources", "driver_threads"]

_T = TypeVar("_T")
MB = 1 << 20
_NO_LIMIT = 1 << 60
PASSING_IO_ERRORS = (
    "AWS Error INTERNAL_FAILURE",
    "AWS Error NETWORK_CONNECTION",
    "AWS Error SLOW_DOWN",
    "AWS Error UNKNOWN (HTTP status 503)",
    "AWS Error SERVICE_UNAVAILABLE",
)
MOST_BLOCKS = 1_000_000  # of a dataset, or parts of a split: each is noted in a list
_obeyed: ContextVar[DataContext | None] = ContextVar("skate.data.context", default=None)


@dataclass
class DataContext(RaySettings, UnsupportedSettings):
    """Hold the settings of this process; `DataContext.get_current()` is the one in use.

    Change its attributes. Datasets that are read or made from then on take a copy, and what is
    derived from one obeys the same copy, its `context`: change that for one dataset alone.

    Args:
        target_max_block_size: Blocks are split above this many bytes; None: never.
        target_min_block_size: Small files are read together up to this many bytes.
        in_driver_bytes: Reads that need Python code (images, torch datasets) stay in this process
            up to this size.
        sort_memory_bytes: sort, random_shuffle, groupby and join work in memory up to this size,
            and need about three times as much; beyond, by partitions in the object store, which
            spills to disk.
        partition_min_bytes: From this size on, the same and repartition go by partitions that
            tasks divide and finish; 0: always; None: above `sort_memory_bytes`, and above 1 GB
            where there are several nodes.
        engine_min_bytes: Above so many bytes, sort, groupby and join are done by Polars, below by
            Arrow, which is there already.
        read_op_min_num_blocks: Sources are read into at least so many blocks, unless a read says
            how many; None: as their size suggests.
        max_tasks_in_flight_per_actor: Calls that wait at an actor, where its pool does not say it;
            None: 2.
        max_errored_blocks: How many blocks may fail before an execution does; -1: any number.
        actor_task_retry_on_errors: Errors after which a class is called again with the same input;
            True: all.
        actor_init_retry_on_errors: Whether a class is constructed again when its constructor
            raises.
        actor_init_max_retries: How often that is; -1: without end.
        wait_for_min_actors_s: How many seconds the least number of actors of a pool may take to
            start; -1: as long as they need, and the first begin without the others.
        retried_map_errors: Errors after which a function is called again: parts of their messages;
            True: all.
        max_map_retries: How often that is.
        retried_io_errors: Errors of stores after which reading and writing files is tried again,
            up to ten times with growing pauses: parts of their messages.
        enable_progress_bars: Whether there is a line of progress on a terminal.
        checkpoint_config: A `CheckpointConfig`, or a dictionary of its arguments: writes note the
            ids of rows, and leave out those that are noted; None does not.
        enable_tensor_extension_casting: Whether tensors in frames of pandas are arrays in cells;
            otherwise each column of them is a `TensorArray`.
        plain_rows: Whether rows that are no dictionaries come back from take and iter_rows as they
            are, and not as `{"item": value}`, and whether functions may return them; None: not in
            programs that `import ray`.
        execution_options: How datasets are executed.

    Ray's settings that would change results raise unless they have their defaults:
    `execution_callback_classes`, `custom_execution_callback_classes`,
    `execution_no_progress_timeout_s`, `enforce_schemas`. Its others tune Ray's own shuffles,
    schedulers, formats, metrics and log files, of which there are none, and have no effect:
    `streaming_read_buffer_size`, `enable_pandas_block`, `actor_prefetcher_enabled`,
    `autoscaling_config`, `use_push_based_shuffle`, `shuffle_strategy`,
    `pipeline_push_based_shuffle_reduce_tasks`, `default_hash_shuffle_parallelism`,
    `shuffle_compression`, `hash_shuffle_reduce_batch_size`,
    `hash_shuffle_reduce_get_timeout_s`, `shuffle_input_batch_bytes`,
    `max_hash_shuffle_aggregators`, `min_hash_shuffle_aggregator_wait_time_in_s`,
    `hash_shuffle_aggregator_health_warning_interval_s`,
    `max_hash_shuffle_finalization_batch_size`, `join_operator_actor_num_cpus_override`,
    `hash_shuffle_operator_actor_num_cpus_override`,
    `hash_aggregate_operator_actor_num_cpus_override`, `use_disk_based_hash_shuffle`,
    `gpu_shuffle_num_actors`, `gpu_shuffle_rmm_pool_size`,
    `gpu_shuffle_spill_memory_limit`, `gpu_shuffle_setup_timeout_s`, `scheduling_strategy`,
    `scheduling_strategy_large_args`, `large_args_threshold`, `use_polars_sort`,
    `use_legacy_dataset_ids`, `decoding_size_estimation`, `use_datasource_v2`,
    `arrow_fixed_shape_tensor_format`, `use_arrow_tensor_v2`,
    `enable_fallback_to_arrow_object_ext_type`, `enable_auto_log_stats`, `verbose_stats_logs`,
    `accurate_map_phase_timing`, `per_stage_map_timing`, `trace_allocations`, `use_ray_tqdm`,
    `enable_operator_progress_bars`, `enable_progress_bar_name_truncation`,
    `enable_rich_progress_bars`, `enable_get_object_locations_for_metrics`,
    `warn_on_driver_memory_usage_bytes`, `op_resource_reservation_enabled`,
    `op_resource_reservation_ratio`, `output_backpressure_guard_release_interval_s`,
    `log_internal_stack_trace`, `raise_original_map_exception`, `print_on_execution_start`,
    `s3_try_create_dir`, `lance_config`, `iceberg_config`, `delta_config`,
    `enable_per_node_metrics`, `enable_stats_summary_collection`,
    `override_object_store_memory_limit_fraction`, `memory_usage_poll_interval_s`,
    `dataset_logger_id`, `issue_detectors_config`, `isolate_read_workers`,
    `downstream_capacity_backpressure_ratio`, `enable_dynamic_output_queue_size_backpressure`,
    `enable_lineage_reconstruction_resource_accounting`, `pandas_block_ignore_metadata`,
    `enable_arrow_backed_pandas_conversion`, `batch_to_block_arrow_format`,
    `default_map_logical_memory_enabled`, `enable_ray_data_reconstruction`,
    `object_store_reservation_overshoot_ratio`, `object_store_memory_pressure_fraction`,
    `max_consecutive_actor_init_deaths`.

    Example:
        >>> skate.data.DataContext.get_current().max_errored_blocks
        0
    """

    target_max_block_size: int = 128 * MB
    """Blocks are split above this many bytes; None: never."""
    target_min_block_size: int = 1 * MB
    """Small files are read together up to this many bytes."""
    in_driver_bytes: int = 4 * MB
    """Reads that need Python code (images, torch datasets) stay in the driver up to this size."""
    sort_memory_bytes: int = field(default_factory=lambda: memory() // 10)
    """sort, random_shuffle, groupby and join work in memory up to this size, and need about three
    times as much; beyond, by partitions that are kept in the object store, which spills to
    disk."""
    partition_min_bytes: int | None = None
    """Above so many bytes the same and repartition go by partitions, which tasks divide and
    finish; None: above `sort_memory_bytes`, or 1 GB where there are several nodes."""
    engine_min_bytes: int = 8 * MB
    """sort, groupby and join of less than so many bytes are done by Arrow's kernels: that takes
    less time than the import of Polars, which does the others."""
    read_op_min_num_blocks: int | None = None
    """Sources are read into at least so many blocks, unless a read says how many; None: into as
    many as their size suggests. Ray's older name for it is min_parallelism."""
    max_tasks_in_flight_per_actor: int | None = None
    """Calls that wait at an actor, where its pool does not say it; None: 2."""
    max_errored_blocks: int = 0
    """How many blocks may fail before an execution does; -1: any number."""
    actor_task_retry_on_errors: bool | list[type[BaseException]] = False
    """Errors after which a class is called again with the same input; True: all."""
    actor_init_retry_on_errors: bool = False
    """Whether a class is constructed again when its constructor raises,"""
    actor_init_max_retries: int = 3
    """and how often; -1: without end."""
    wait_for_min_actors_s: float = -1
    """How long the least number of actors of a pool may take to start; -1: any time, and the first
    begin without the others."""
    retried_map_errors: bool | list[str] = False
    """Errors after which a function is called again: parts of their messages; True: all,"""
    max_map_retries: int = 0
    """and how often."""
    retried_io_errors: list[str] = field(default_factory=lambda: list(PASSING_IO_ERRORS))
    """Errors of stores after which reading and writing files is tried again, up to ten times with
    growing pauses: parts of their messages."""
    enable_progress_bars: bool = True
    """A line of progress on a terminal; never elsewhere."""
    checkpoint_config: CheckpointConfig | None = None
    """Writes note the ids of rows, and leave out those that are noted; None: they do not."""
    enable_tensor_extension_casting: bool = True
    """Whether tensors in frames of pandas are arrays in cells; otherwise each column of them is a
    `TensorArray`."""
    plain_rows: bool | None = None
    """True: rows that are no dictionaries come back from take and iter_rows as they are. False: as
    `{"item": value}`, as maps see them, and functions must return dictionaries. None: False in
    programs that `import ray`."""
    execution_options: ExecutionOptions = field(default_factory=ExecutionOptions)
    _config: dict[str, Any] = field(default_factory=dict)

    _current: ClassVar[DataContext | None] = None

    def has_plain_rows(self) -> bool:
        """Return what `plain_rows` means here and now."""
        return not ray_is_skate() if self.plain_rows is None else self.plain_rows

    if not TYPE_CHECKING:  # a checker should find misspelt settings

        def __getattr__(self, name: str) -> object:
            if name not in RENAMED:
                raise AttributeError(f"DataContext has no {name!r}")
            warn_of(name)
            return getattr(self, RENAMED[name])

    def __setattr__(self, name: str, value: object) -> None:
        if name in RENAMED or name in vars(self):  # those that are set again, not the defaults
            warn_of(name)
        name = RENAMED.get(name, name)
        if name == "target_max_block_size" and value is None:
            value = _NO_LIMIT
        if name == "shuffle_strategy":
            value = ShuffleStrategy(value)
        elif name == "use_push_based_shuffle" and value:
            super().__setattr__("shuffle_strategy", ShuffleStrategy.SORT_SHUFFLE_PUSH_BASED)
        if name == "checkpoint_config" and value is not None:
            from skate.data.checkpoint import as_checkpoint_config

            value = as_checkpoint_config(value)
        known = hasattr(self, name) or name in type(self).__dataclass_fields__
        if not known and not name.startswith("_"):
            self._unknown(name)
        super().__setattr__(name, value)

    def _unknown(self, name: str) -> None:
        """Raise for a misspelt setting; those of other versions of Ray do nothing."""
        near = get_close_matches(name, type(self).__dataclass_fields__, 1, cutoff=0.9)
        if near:
            raise AttributeError(f"DataContext has no {name!r}; did you mean {near[0]!r}?")
        warnings.warn(f"DataContext has no {name!r}: it changes nothing", stacklevel=4)

    @property
    def min_parallelism(self) -> int | None:
        return self.read_op_min_num_blocks

    @min_parallelism.setter
    def min_parallelism(self, value: int | None) -> None:
        self.read_op_min_num_blocks = value

    @classmethod
    def get_current(cls) -> DataContext:
        """Return the settings of this process; inside of an execution, those of its dataset."""
        obeyed = _obeyed.get()
        if obeyed is not None:
            return obeyed
        if DataContext._current is None:
            DataContext._current = DataContext()
        return DataContext._current

    @classmethod
    def _set_current(cls, context: DataContext | None) -> DataContext | None:
        """Put another one in use; the one that was is returned."""
        before, DataContext._current = DataContext._current, context
        return before

    @staticmethod
    @contextmanager
    def current(context: DataContext) -> Iterator[DataContext]:
        """Use other settings for a while: `with DataContext.current(changed): ...`.

        Args:
            context: The settings.
        """
        before = DataContext._set_current(context)
        try:
            yield context
        finally:
            DataContext._set_current(before)

    def during(self, items: Iterator[_T]) -> Iterator[_T]:
        """Yield items, each made while these settings are the current ones of its thread.

        Args:
            items: The items.
        """
        try:
            while True:
                token = _obeyed.set(self)
                try:
                    item = next(items)
                except StopIteration:
                    return
                finally:
                    _obeyed.reset(token)
                yield item
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()

    def set_dataset_logger_id(self, dataset_id: str) -> str | None:
        """Note an id of a logger.

        Args:
            dataset_id: The id.

        Returns:
            The id before.
        """
        before = self.dataset_logger_id
        self.dataset_logger_id: str | None = dataset_id
        return before

    def copy(self) -> DataContext:
        """Return settings of their own with the same values."""
        return copy.deepcopy(self)

    def get_config(self, key: str, default: object = None) -> object:
        """Return a value of your own, as `set_config` left it.

        Args:
            key: Its name.
            default: What is returned if there is none.
        """
        return self._config.get(key, default)

    def set_config(self, key: str, value: object) -> None:
        """Keep a value of your own with the settings.

        Args:
            key: Its name.
            value: The value.
        """
        self._config[key] = value

    def remove_config(self, key: str) -> None:
        """Forget a value of your own.

        Args:
            key: Its name.
        """
        self._config.pop(key, None)


def driver_threads() -> int:
    """Return how many threads read in this process."""
    return max(1, len(os.sched_getaffinity(0)))
