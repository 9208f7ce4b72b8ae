"""`ray._private.ray_constants`: the numbers that programs compare with."""

from __future__ import annotations

LOGGER_LEVEL = "info"
DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES = 200 * 10**9
OBJECT_STORE_MINIMUM_MEMORY_BYTES = 75 * 1024 * 1024
ID_SIZE = 28
DEFAULT_DASHBOARD_PORT = 8265
DEFAULT_DASHBOARD_IP = "127.0.0.1"
DEFAULT_MAX_CONCURRENCY_ASYNC = 1000
