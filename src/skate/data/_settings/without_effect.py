"""Settings of Ray that programs may set and that need not do anything on one machine."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from skate.data._arrow.tensor_format import FixedShapeTensorFormat


class ShuffleStrategy(str, Enum):
    """How Ray shuffles, for `DataContext.shuffle_strategy`; here Arrow does, in its own way."""

    SORT_SHUFFLE_PULL_BASED = "sort_shuffle_pull_based"
    SORT_SHUFFLE_PUSH_BASED = "sort_shuffle_push_based"
    HASH_SHUFFLE = "hash_shuffle"
    SHUFFLE_V2 = "shuffle_v2"
    GPU_SHUFFLE = "gpu_shuffle"
    HASH_SHUFFLE_V2 = "shuffle_v2"  # noqa: PIE796 - an older name of the same

    @classmethod
    def _missing_(cls, value: object) -> ShuffleStrategy | None:
        if value != "hash_shuffle_v2":
            return None
        warnings.warn(
            "'hash_shuffle_v2' is the older name of 'shuffle_v2'", DeprecationWarning, stacklevel=4
        )
        return cls.SHUFFLE_V2


@dataclass
class HangingDetectorConfig:
    """Says when Ray warns of a task that takes much longer than others."""

    op_task_stats_min_count: int = 10
    op_task_stats_std_factor: float = 10.0
    detection_time_interval_s: float = 30.0


@dataclass
class HashShuffleDetectorConfig:
    """Says when Ray warns of actors of a shuffle that do not start."""

    detection_time_interval_s: float = 30.0
    min_wait_time_s: float = 300.0


@dataclass
class HighMemoryDetectorConfig:
    """Says when Ray warns of tasks that take more memory than they ask for."""

    detection_time_interval_s: float = 30.0


@dataclass
class IssueDetectorsConfiguration:
    """What Ray looks at by itself, and how often, while a dataset is computed."""

    hanging_detector_config: HangingDetectorConfig = field(default_factory=HangingDetectorConfig)
    hash_shuffle_detector_config: HashShuffleDetectorConfig = field(
        default_factory=HashShuffleDetectorConfig
    )
    high_memory_detector_config: HighMemoryDetectorConfig = field(
        default_factory=HighMemoryDetectorConfig
    )
    detectors: list[Any] = field(default_factory=list)


@dataclass
class RaySettings:
    """Accepted, and without effect here: they tune Ray's own shuffles, schedulers, formats,
    metrics and log files, of which there are none."""

    streaming_read_buffer_size: int = 32 << 20
    enable_pandas_block: bool = True
    actor_prefetcher_enabled: bool = False
    autoscaling_config: Any = None
    use_push_based_shuffle: bool = False
    shuffle_strategy: ShuffleStrategy | str = ShuffleStrategy.SHUFFLE_V2
    pipeline_push_based_shuffle_reduce_tasks: bool = True
    default_hash_shuffle_parallelism: int = 200
    shuffle_compression: str = "zstd"
    hash_shuffle_reduce_batch_size: int = 16
    hash_shuffle_reduce_get_timeout_s: float = 1800.0
    shuffle_input_batch_bytes: int = 1 << 30
    max_hash_shuffle_aggregators: int | None = None
    min_hash_shuffle_aggregator_wait_time_in_s: int = 300
    hash_shuffle_aggregator_health_warning_interval_s: int = 30
    max_hash_shuffle_finalization_batch_size: int | None = None
    join_operator_actor_num_cpus_override: float | None = None
    hash_shuffle_operator_actor_num_cpus_override: float | None = None
    hash_aggregate_operator_actor_num_cpus_override: float | None = None
    use_disk_based_hash_shuffle: bool = False
    gpu_shuffle_num_actors: int | None = None
    gpu_shuffle_rmm_pool_size: Any = None
    gpu_shuffle_spill_memory_limit: Any = "auto"
    gpu_shuffle_setup_timeout_s: float = 120.0
    scheduling_strategy: Any = "SPREAD"
    scheduling_strategy_large_args: Any = "DEFAULT"
    large_args_threshold: int = 50 << 20
    use_polars_sort: bool = False
    use_legacy_dataset_ids: bool = False
    decoding_size_estimation: bool = True
    use_datasource_v2: bool = True
    arrow_fixed_shape_tensor_format: Any = FixedShapeTensorFormat.ARROW_NATIVE
    use_arrow_tensor_v2: bool = True
    enable_fallback_to_arrow_object_ext_type: bool | None = None
    enable_auto_log_stats: bool = False
    verbose_stats_logs: bool = False
    accurate_map_phase_timing: bool = False
    per_stage_map_timing: bool = False
    trace_allocations: bool = False
    use_ray_tqdm: bool = True
    enable_operator_progress_bars: bool = True
    enable_progress_bar_name_truncation: bool = True
    enable_rich_progress_bars: bool = True
    enable_get_object_locations_for_metrics: bool = False
    warn_on_driver_memory_usage_bytes: int = 2 << 30
    op_resource_reservation_enabled: bool = True
    op_resource_reservation_ratio: float = 0.5
    output_backpressure_guard_release_interval_s: float | None = None
    log_internal_stack_trace: bool = False
    raise_original_map_exception: bool = True
    print_on_execution_start: bool = False
    s3_try_create_dir: bool = False
    lance_config: Any = None
    iceberg_config: Any = None
    delta_config: Any = None
    enable_per_node_metrics: bool = False
    enable_stats_summary_collection: bool = False
    override_object_store_memory_limit_fraction: float | None = None
    memory_usage_poll_interval_s: float | None = 1
    dataset_logger_id: str | None = None
    issue_detectors_config: IssueDetectorsConfiguration = field(
        default_factory=IssueDetectorsConfiguration
    )
    isolate_read_workers: bool = False
    downstream_capacity_backpressure_ratio: float = 2.0
    enable_dynamic_output_queue_size_backpressure: bool = False
    enable_lineage_reconstruction_resource_accounting: bool = True
    pandas_block_ignore_metadata: bool = False
    enable_arrow_backed_pandas_conversion: bool = True
    batch_to_block_arrow_format: bool = True
    default_map_logical_memory_enabled: bool = False
    enable_ray_data_reconstruction: bool = False
    object_store_reservation_overshoot_ratio: float | None = None
    object_store_memory_pressure_fraction: float | None = None
    max_consecutive_actor_init_deaths: int = 0


@dataclass
class UnsupportedSettings:
    """Settings that would change what a program computes or raises, and that are not supported:
    setting one to anything else is an error."""

    execution_callback_classes: list[Any] = field(default_factory=list)
    custom_execution_callback_classes: list[Any] = field(default_factory=list)
    execution_no_progress_timeout_s: Any = None
    enforce_schemas: bool = False

    def __setattr__(self, name: str, value: object) -> None:
        hint = _WAYS_OUT.get(name)
        if hint is not None and value and value != getattr(type(self), name, None):
            raise ValueError(f"DataContext.{name} = {value!r} is not supported: {hint}")
        super().__setattr__(name, value)


_WAYS_OUT = {
    "execution_callback_classes": "see Dataset.stats()",
    "custom_execution_callback_classes": "see Dataset.stats()",
    "execution_no_progress_timeout_s": "use a time-out inside your function",
    "enforce_schemas": "compare Dataset.schema() with what you expect",
}
