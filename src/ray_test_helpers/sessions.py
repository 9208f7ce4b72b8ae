"""`ray.tests.conftest`: fixtures that start and end a session, under the names they have there.

from ray.tests.conftest import *
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import shlex
import socket
import string
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import skate
from ray_test_helpers.cluster_utils import Cluster
from ray_test_helpers.subscriptions import (
    ErrorSubscription,
    LogSubscription,
    init_error_pubsub,
    init_log_pubsub,
)

_pytest: Any = import_module("pytest")  # who imports this runs under it
_Function = TypeVar("_Function")


def generate_internal_config_map(**settings: Any) -> dict[str, Any]:
    """Return arguments of init that tuned Ray's services before 1.0."""
    return {"_internal_config": json.dumps(settings)}


_DEFAULTS: dict[str, Any] = {"num_cpus": 1, "namespace": "default_test_namespace"}


def get_default_fixture_system_config() -> dict[str, Any]:
    """Return what the fixtures say to Ray's services, of which there are none."""
    return {}


get_default_fixure_system_config = get_default_fixture_system_config  # the name is Ray's


def get_default_fixture_ray_kwargs() -> dict[str, Any]:
    """Return the arguments of `init` that fixtures begin a session with."""
    return dict(_DEFAULTS)


def _fixture(**settings: Any) -> Callable[[_Function], _Function]:
    made: Callable[[_Function], _Function] = _pytest.fixture(**settings)
    return made


_held = 0  # sessions that fixtures have begun and not ended


@contextmanager
def _holding_a_session() -> Iterator[None]:
    """Let a session begin and end inside. One that a test has left which failed, or which no
    fixture knows of, is ended before: the tests that follow are not to fail with it."""
    global _held
    if not _held:
        skate.shutdown()
    _held += 1
    try:
        yield
    finally:
        _held -= 1
        skate.shutdown()


@contextmanager
def _ray_start(**arguments: Any) -> Iterator[Any]:
    with _holding_a_session():
        yield skate.init(**{**_DEFAULTS, **arguments})


def _session(scope: str = "function", **arguments: Any) -> Callable[..., Any]:
    """Make a fixture that starts a session; its parameter, if any, has more arguments of init."""

    def started(request: Any) -> Iterator[Any]:
        with _ray_start(**{**arguments, **getattr(request, "param", {})}) as context:
            yield context

    return _fixture(scope=scope)(started)


ray_start_no_cpu = _session(num_cpus=0)
ray_start_regular = _session()
ray_start_2_cpus = _session(num_cpus=2)
ray_start_4_cpus = _session(num_cpus=4)
ray_start_10_cpus = _session(num_cpus=10)
ray_start_regular_shared = _session("module")
ray_start_regular_shared_2_cpus = _session("module", num_cpus=2)
ray_start_10_cpus_shared = _session("module", num_cpus=10)
ray_start_regular_with_external_redis = _session()
ray_start_with_dashboard = _session(include_dashboard=True)
class_ray_instance = _session("class", num_cpus=None)


@_fixture(scope="module", params=[{"local_mode": True}, {"local_mode": False}])
def ray_start_shared_local_modes(request: Any) -> Iterator[Any]:
    with _ray_start(**request.param) as context:
        yield context


@_fixture()
def ray_start_object_store_memory(request: Any) -> Iterator[int]:
    with _ray_start(object_store_memory=request.param):
        yield request.param


@_fixture()
def ray_start_with_env_vars(request: Any, monkeypatch: Any) -> Iterator[Any]:
    arguments = dict(getattr(request, "param", {}))
    for name, value in arguments.pop("env_vars", {}).items():
        monkeypatch.setenv(name, value)
    with _ray_start(**arguments) as context:
        yield context


@_fixture()
def shutdown_only() -> Iterator[None]:
    with _holding_a_session():
        yield None


@_fixture()
def shutdown_only_with_initialization_check() -> Iterator[None]:
    """Check that there is no session yet, and leave none."""
    assert not skate.is_initialized()
    yield None
    skate.shutdown()


@_fixture()
def set_override_dashboard_url(monkeypatch: Any, request: Any) -> None:
    """Give the page another address, as behind a proxy."""
    url = getattr(request, "param", "https://external_dashboard_url")
    monkeypatch.setenv("RAY_OVERRIDE_DASHBOARD_URL", url)


@_fixture()
def error_pubsub() -> Iterator[ErrorSubscription]:
    """Collect errors of tasks from now on, for `get_error_message`."""
    subscription = init_error_pubsub()
    yield subscription
    subscription.close()


@_fixture()
def log_pubsub() -> Iterator[LogSubscription]:
    """Collect what workers print from now on, for `get_log_message` and its like."""
    subscription = init_log_pubsub()
    yield subscription
    subscription.close()


@_fixture()
def maybe_external_redis() -> None:
    """Start no Redis: there is none."""


maybe_setup_external_redis = maybe_external_redis


@_fixture()
def propagate_logs() -> Iterator[None]:
    """Let log records reach those who listen at the root, as pytest does."""
    loggers = [logging.getLogger(name) for name in ("skate", "skate.data")]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.propagate = True
    yield
    for logger, propagate in zip(loggers, before, strict=True):
        logger.propagate = propagate


# -- clusters -------------------------------------------------------------------------------------


@contextmanager
def _ray_start_cluster(
    num_nodes: int = 0, do_init: bool | None = None, **arguments: Any
) -> Iterator[Cluster]:
    namespace = arguments.pop("namespace", _DEFAULTS["namespace"])
    with _holding_a_session():
        cluster = Cluster()
        try:
            for _ in range(num_nodes):
                cluster.add_node(**arguments)
            if do_init or (do_init is None and num_nodes):
                cluster.connect(namespace)
            yield cluster
        finally:
            skate.shutdown()
            cluster.shutdown()


def _cluster(**arguments: Any) -> Callable[..., Any]:
    def started(request: Any) -> Iterator[Cluster]:
        with _ray_start_cluster(**{**arguments, **getattr(request, "param", {})}) as cluster:
            yield cluster

    return _fixture()(started)


ray_start_cluster = _cluster()
ray_start_cluster_enabled = _cluster()
ray_start_cluster_init = _cluster(do_init=True)
ray_start_cluster_head = _cluster(do_init=True, num_nodes=1)
ray_start_cluster_2_nodes = _cluster(do_init=True, num_nodes=2)


@_fixture()
def ray_start_cluster_head_with_env_vars(request: Any, monkeypatch: Any) -> Iterator[Cluster]:
    arguments = dict(getattr(request, "param", {}))
    for name, value in arguments.pop("env_vars", {}).items():
        monkeypatch.setenv(name, value)
    with _ray_start_cluster(do_init=True, num_nodes=1, **arguments) as cluster:
        yield cluster


def pytest_runtest_makereport() -> None:
    """Do nothing: a hook of pytest for a `conftest.py`; Ray archives its services' logs there."""


@_fixture()
def tmp_working_dir(tmp_path: Path) -> str:
    """Make a folder with a file, a module and a package."""
    (tmp_path / "hello").write_text("world")
    (tmp_path / "file_module.py").write_text("def hello():\n    return 'hello'\n")
    package = tmp_path / "test_module"
    package.mkdir()
    (package / "test.py").write_text("def one():\n    return 1\n")
    (package / "__init__.py").write_text("from test_module.test import one\n")
    return str(tmp_path)


# -- where to spill -------------------------------------------------------------------------------


def _spilling(kind: str, **params: Any) -> dict[str, Any]:
    return {"type": kind, "params": {"directory_path": "", **params}}


file_system_object_spilling_config = _spilling("filesystem")
buffer_object_spilling_config = _spilling("filesystem", buffer_size=1_000_000)
buffer_open_object_spilling_config = _spilling("smart_open", buffer_size=1000)
smart_open_object_spilling_config = _spilling("smart_open")
multi_smart_open_object_spilling_config = _spilling("smart_open")
mock_distributed_fs_object_spilling_config = _spilling("mock_distributed_fs")


unstable_object_spilling_config = _spilling("unstable_fs")
slow_object_spilling_config = _spilling("slow_fs")


def _place_to_spill(*configs: dict[str, Any]) -> Callable[..., Any]:
    """Make a fixture: what to say in `_system_config`, and the folder that it names. Whatever is
    asked for, it is this machine's disk; the ids of the tests are those that they have with
    Ray."""

    def place(tmp_path: Path) -> tuple[str, Path]:
        folder = tmp_path / "spill"
        folder.mkdir()
        return json.dumps(_spilling("filesystem", directory_path=str(folder))), folder

    return _fixture(params=configs)(place)


object_spilling_config = _place_to_spill(file_system_object_spilling_config)
fs_only_object_spilling_config = _place_to_spill(file_system_object_spilling_config)
multi_node_object_spilling_config = _place_to_spill(
    file_system_object_spilling_config, mock_distributed_fs_object_spilling_config
)
unstable_spilling_config = _place_to_spill(unstable_object_spilling_config)
slow_spilling_config = _place_to_spill(slow_object_spilling_config)


# -- files and settings ---------------------------------------------------------------------------


@_fixture(params=[1, 4])
def random_ascii_file(tmp_path: Path, request: Any) -> Iterator[Any]:
    """Open a file of so many kilobytes of letters, to be read from its beginning."""
    path = tmp_path / "letters"
    path.write_text("".join(random.choices(string.ascii_letters, k=request.param << 10)))
    with path.open("r+b") as file:
        yield file


@_fixture()
def temp_dir(tmp_path: Path) -> str:
    return str(tmp_path)


@_fixture()
def temp_file(tmp_path: Path) -> Iterator[Any]:
    with (tmp_path / "file").open("w+b") as file:
        yield file


def _variables(value: str, *names: str) -> Callable[..., Any]:
    """Make a fixture that sets environment variables; its parameter, if any, is another value."""

    def setting(request: Any, monkeypatch: Any) -> str:
        given: str = getattr(request, "param", value)
        for name in names:
            monkeypatch.setenv(name, given)
        return given

    return _fixture()(setting)


enable_pickle_debug = _variables("1", "RAY_PICKLE_VERBOSE_DEBUG")
set_enable_auto_connect = _variables("0", "RAY_ENABLE_AUTO_CONNECT")
enable_mac_large_object_store = _variables("1", "RAY_ENABLE_MAC_LARGE_OBJECT_STORE")
set_runtime_env_retry_times = _variables("0", "RUNTIME_ENV_RETRY_TIMES")
set_runtime_env_plugins = _variables("0", "RAY_RUNTIME_ENV_PLUGINS")
set_bad_runtime_env_cache_ttl_seconds = _variables("0", "BAD_RUNTIME_ENV_CACHE_TTL_SECONDS")
runtime_env_disable_URI_cache = _variables(  # noqa: N816 - the name is Ray's
    "0", *(f"RAY_RUNTIME_ENV_{kind}_CACHE_SIZE_GB" for kind in ("CONDA", "PIP", "WORKING_DIR"))
)


@_fixture()
def event_routing_config(request: Any) -> str:
    """Say by which way Ray learns of tasks: here there is one, and the tests are run for each."""
    way: str = getattr(request, "param", "default")
    return way


@_fixture()
def listen_port(request: Any) -> Iterator[int]:
    """Return a port that is taken, by its number."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", getattr(request, "param", 0)))
        yield taken.getsockname()[1]


@_fixture()
def make_sure_dashboard_http_port_unused() -> None:
    """Check nothing: nobody listens there, as there is no agent."""


# -- clusters of the command line -----------------------------------------------------------------


def _labels(text: str) -> dict[str, str]:
    """Write labels as `ray start` takes them: `name=value,name=value`."""
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name.strip(): value.strip() for name, _, value in pairs}


@contextmanager
def _started_by(command: str) -> Iterator[str]:
    """Give the machine what `ray start` is told; yields the address for `init`."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--num-cpus", type=float)
    parser.add_argument("--num-gpus", type=float, default=0)
    parser.add_argument("--resources", type=json.loads, default={})
    parser.add_argument("--labels", type=_labels, default=None)
    told = parser.parse_known_args(shlex.split(command))[0]
    cluster = Cluster()
    cpus = told.num_cpus if told.num_cpus is not None else os.cpu_count() or 1
    cluster.add_node(
        num_cpus=cpus, num_gpus=told.num_gpus, resources=told.resources, labels=told.labels
    )
    try:
        yield cluster.address
    finally:
        skate.shutdown()
        cluster.shutdown()


def _by_command(scope: str) -> Callable[..., Any]:
    def started(request: Any) -> Iterator[str]:
        given = getattr(request, "param", "ray start --head --num-cpus=1")
        with _started_by(given["cmd"] if isinstance(given, dict) else given) as address:
            yield address

    return _fixture(scope=scope)(started)


call_ray_start = call_ray_start_context = _by_command("function")
call_ray_start_shared = _by_command("module")
call_ray_stop_only = shutdown_only


@_fixture()
def two_node_cluster() -> Iterator[tuple[Cluster, Any]]:
    cluster = Cluster()
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    with _ray_start(address=cluster.address, num_cpus=None):
        yield cluster, nodes[-1]
    cluster.shutdown()


@_fixture(params=["ray_client", "no_ray_client"])
def start_cluster(ray_start_cluster_enabled: Cluster) -> tuple[Cluster, str]:
    """Return the cluster, and the address for `init`: the same with and without a client."""
    ray_start_cluster_enabled.add_node(num_cpus=4)
    return ray_start_cluster_enabled, ray_start_cluster_enabled.address
