"""`ray.serve._private.constants`: the names that tests of applications use."""

from __future__ import annotations

from skate.compat.parts.inside import Absent
from skate.serve._identity import CONTROLLER, DEFAULT_APP, NAMESPACE

SERVE_DEFAULT_APP_NAME = DEFAULT_APP
SERVE_NAMESPACE = NAMESPACE
SERVE_CONTROLLER_NAME = CONTROLLER
SERVE_PROXY_NAME = "SERVE_PROXY_ACTOR"
SERVE_LOGGER_NAME = "skate.serve"
SERVE_DEPLOYMENT_ACTOR_PREFIX = "SERVE_DEPLOYMENT_ACTOR::"

SERVE_MULTIPLEXED_MODEL_ID = "serve_multiplexed_model_id"
SERVE_SESSION_ID = "x-session-id"
SERVE_HTTP_REQUEST_ID_HEADER = "x-request-id"
SERVE_HTTP_REQUEST_TIMEOUT_S_HEADER = "x-request-timeout-seconds"
SERVE_HTTP_REQUEST_DISCONNECT_DISABLED_HEADER = "x-request-disconnect-disabled"

DEFAULT_HTTP_HOST = "127.0.0.1"
DEFAULT_HTTP_ADDRESS = "http://127.0.0.1:8000"
DEFAULT_HTTP_PORT = 8000
DEFAULT_GRPC_PORT = 9000
DEFAULT_UVICORN_KEEP_ALIVE_TIMEOUT_S = 90
DEFAULT_GRACEFUL_SHUTDOWN_TIMEOUT_S = 20
DEFAULT_GRACEFUL_SHUTDOWN_WAIT_LOOP_S = 2
DEFAULT_HEALTH_CHECK_PERIOD_S = 10
DEFAULT_HEALTH_CHECK_TIMEOUT_S = 30
DEFAULT_MAX_ONGOING_REQUESTS = 5
DEFAULT_TARGET_ONGOING_REQUESTS = 2
DEFAULT_CONSTRUCTOR_RETRY_COUNT = 20
REPLICA_HEALTH_CHECK_UNHEALTHY_THRESHOLD = 3

DEFAULT_LATENCY_BUCKET_MS = [
    1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 500, 1000, 2000, 5000, 10_000, 60_000, 120_000,
    300_000, 600_000,
]  # fmt: skip

HEALTHY_MESSAGE = "success"
HEALTH_CHECK_METHOD = "check_health"
RECONFIGURE_METHOD = "reconfigure"


def __getattr__(name: str) -> Absent:
    """Return what stands for a switch of Ray's own machinery: off."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return Absent(f"ray.serve._private.constants.{name}")
