"""Settings that Ray has given other names, or will take away: who uses one is told."""

from __future__ import annotations

import warnings

from skate._core.deprecations import RayDeprecationWarning

RENAMED = {
    "hash_shuffle_compression": "shuffle_compression",
    "log_internal_stack_trace_to_stdout": "log_internal_stack_trace",
    "target_shuffle_max_block_size": "target_max_block_size",
    "use_external_hash_shuffle": "use_disk_based_hash_shuffle",
    "use_polars": "use_polars_sort",
    "write_file_retry_on_errors": "retried_io_errors",
}
_GOING: dict[str, type[DeprecationWarning]] = {
    "join_operator_actor_num_cpus_override": DeprecationWarning,
    "large_args_threshold": RayDeprecationWarning,
    "scheduling_strategy": RayDeprecationWarning,
    "scheduling_strategy_large_args": RayDeprecationWarning,
    "use_arrow_tensor_v2": DeprecationWarning,
    "use_push_based_shuffle": DeprecationWarning,
}


def warn_of(name: str) -> None:
    """Warn whoever reads or sets the setting, if it is deprecated."""
    if name in RENAMED:
        text = f"DataContext.{name} is deprecated: it is called {RENAMED[name]!r}"
        warnings.warn(text, DeprecationWarning, stacklevel=3)
    elif name in _GOING:
        text = f"DataContext.{name} is deprecated, and changes nothing: leave it out"
        warnings.warn(text, _GOING[name], stacklevel=3)
