"""`ray._private.ray_constants`: the numbers that programs compare with."""

from __future__ import annotations

from skate._core.options import RESERVED

LOGGER_LEVEL = "info"
DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES = 200 * 10**9
OBJECT_STORE_MINIMUM_MEMORY_BYTES = 75 * 1024 * 1024
ID_SIZE = 28
DEFAULT_DASHBOARD_PORT = 8265
RAY_OVERRIDE_DASHBOARD_URL = "RAY_OVERRIDE_DASHBOARD_URL"
DEFAULT_DASHBOARD_IP = "127.0.0.1"
DEFAULT_MAX_CONCURRENCY_ASYNC = 1000
DEFAULT_RESOURCES = set(RESERVED)

# What is published when something fails.
TASK_PUSH_ERROR = "task"
WORKER_DIED_PUSH_ERROR = "worker_died"
WORKER_CRASH_PUSH_ERROR = "worker_crash"
PICKLING_LARGE_OBJECT_PUSH_ERROR = "pickling_large_object"
RESOURCE_DEADLOCK_ERROR = "resource_deadlock"
VERSION_MISMATCH_PUSH_ERROR = "version_mismatch"
WORKER_POOL_LARGE_ERROR = "worker_pool_large"
