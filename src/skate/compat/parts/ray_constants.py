"""`ray._private.ray_constants`: the numbers that programs compare with."""

from __future__ import annotations

ID_SIZE = 28
DEFAULT_DASHBOARD_PORT = 8265
DEFAULT_DASHBOARD_IP = "127.0.0.1"
DEFAULT_MAX_CONCURRENCY_ASYNC = 1000
