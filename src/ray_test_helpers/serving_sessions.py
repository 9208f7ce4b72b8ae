"""`ray.serve.tests.conftest`: fixtures with an instance that serves, under their names there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

import skate
from ray_test_helpers.serving import SERVE_INSTANCE_SIGNAL_ACTOR_NAME
from ray_test_helpers.serving_metrics import TEST_METRICS_EXPORT_PORT
from ray_test_helpers.sessions import pytest_runtest_makereport
from ray_test_helpers.test_utils import SignalActor
from skate import serve
from skate.cli._background import stop_instances
from skate.compat.parts.inside import Absent
from skate.compat.parts.serving.client import get_global_client

__all__ = [
    "SERVE_INSTANCE_SIGNAL_ACTOR_NAME",
    "TEST_GRPC_SERVICER_FUNCTIONS",
    "check_ray_stop",
    "metrics_start_shutdown",
    "pytest_runtest_makereport",
    "ray_instance",
    "ray_shutdown",
    "ray_start_stop",
    "serve_instance",
    "serve_instance_with_signal",
    "tmp_dir",
]

if TYPE_CHECKING:
    import pytest
else:
    pytest = import_module("pytest")  # who imports this runs under it

_SERVICES = "ray.serve.generated.serve_pb2_grpc.add_{}Servicer_to_server"

TEST_GRPC_SERVICER_FUNCTIONS = [
    _SERVICES.format(name) for name in ("UserDefinedService", "FruitService")
]


def check_ray_stop() -> bool:
    return not skate.is_initialized()


def _end() -> None:
    serve.shutdown()
    skate.shutdown()


def _start(**http_options: object) -> Any:
    serve.start(
        proxy_location="HeadOnly",
        http_options=http_options,
        grpc_options={"port": 9000, "grpc_servicer_functions": TEST_GRPC_SERVICER_FUNCTIONS},
    )
    return get_global_client()


@pytest.fixture
def ray_shutdown() -> Iterator[None]:
    _end()
    yield
    _end()


@pytest.fixture
def ray_start_stop() -> Iterator[None]:
    """Start no cluster: what `serve` starts below a test ends with it."""
    _end()
    yield
    _end()
    stop_instances()


@pytest.fixture
def ray_instance(request: Any) -> Iterator[Any]:
    """Start a session, with the environment that the parameter names."""
    before = dict(os.environ)
    os.environ.update(getattr(request, "param", {}))
    yield skate.init()
    _end()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def tmp_dir() -> Iterator[str]:
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        yield folder
        os.chdir(before)


@pytest.fixture
def serve_instance() -> Iterator[Any]:
    """Return the instance that tests share; a test ends it, or else the end of the program."""
    client = get_global_client(raise_if_no_controller_running=False)
    if client is None:
        skate.shutdown()
        skate.init(num_cpus=36, namespace="default_test_namespace")
        client = _start(host="0.0.0.0")
    yield client
    client.delete_all_apps()


@pytest.fixture
def serve_instance_with_signal(serve_instance: Any) -> Iterator[tuple[Any, Any]]:
    actor: Any = SignalActor
    signal = actor.options(name=SERVE_INSTANCE_SIGNAL_ACTOR_NAME).remote()
    yield serve_instance, signal
    skate.kill(signal)


@pytest.fixture
def metrics_start_shutdown(request: Any) -> Iterator[Any]:
    skate.init(_metrics_export_port=TEST_METRICS_EXPORT_PORT)
    yield _start(host="0.0.0.0", request_timeout_s=getattr(request, "param", None))
    _end()


def __getattr__(name: str) -> Absent:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return Absent(f"ray.serve.tests.conftest.{name}")
