"""Helpers of Ray's own tests: found where skate is installed from its repository, or a way out."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import skate
from skate.compat._table_of_tests import FOLDERS_OF_TESTS, HOMES_OF_TESTS
from tests.support import run_program

PACKAGE = Path(skate.__file__).parent
PATHS = [*FOLDERS_OF_TESTS, *HOMES_OF_TESTS]


def test_a_program_in_any_folder_finds_all_of_them(tmp_path: Path) -> None:
    imports = "\n".join(f"import {path}" for path in PATHS if "torch" not in path)
    names = (
        "from ray._private.test_utils import SignalActor, wait_for_condition\n"
        "from ray.cluster_utils import Cluster\n"
        "print(Cluster.__name__, wait_for_condition.__name__)"
    )
    (tmp_path / "program.py").write_text(f"{imports}\n{names}")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "skate", "run", "--as-ray", "program.py"]
    done = run_program(command, cwd=tmp_path, env=environment, check=True)
    assert done.stdout == "Cluster wait_for_condition\n"


@pytest.mark.parametrize("path", ["ray._private.test_utils", "ray.cluster_utils"])
def test_without_the_repository_the_error_says_what_to_do(tmp_path: Path, path: str) -> None:
    (tmp_path / "skate").symlink_to(PACKAGE)
    packages = [folder for folder in sys.path if folder.endswith("site-packages")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *packages])}
    code = f"import skate.compat.ray as c; c.install(); import {path}"
    # Without `site`, so that an editable install does not bring the folder along.
    done = run_program([sys.executable, "-S", "-c", code], cwd=tmp_path, env=environment)
    assert done.returncode == 1
    assert f"skate has no '{path}'" in done.stderr
    assert "pip install -e ." in done.stderr


def test_a_searcher_that_writes_down_what_it_is_told() -> None:
    from ray_test_helpers.tuning import _MockSearcher, _MockSuggestionAlgorithm

    searcher = _MockSearcher()
    assert searcher.suggest("a") == {"test_variable": 2}
    searcher.on_trial_result("a", {"loss": 2})
    searcher.on_trial_complete("a", {"loss": 1})
    assert searcher.counter == {"result": 1, "complete": 1}
    assert (searcher.live_trials, searcher.final_results) == ({}, [{"loss": 1}])
    searcher.stall = True
    assert searcher.suggest("b") is None
    assert _MockSuggestionAlgorithm(max_concurrent=1).live_trials == {}


FIXTURES = """
import os
import sys

import pytest
import ray
from ray._private.test_utils import (
    FakeTimer,
    SignalActor,
    _pid_alive,
    check_call_subprocess,
    format_web_url,
    wait_for_condition,
)
from ray.tests.conftest import *
from ray.tests.conftest import _ray_start


STARTED = "ray start --head --num-cpus=3 --resources='{\\"red\\": 2}' --labels 'zone=a, rack=7'"


@pytest.mark.parametrize("call_ray_start", [STARTED], indirect=True)
def test_a_cluster_of_the_command_line(call_ray_start):
    ray.init(address=call_ray_start)
    assert ray.cluster_resources()["CPU"] == 3
    assert ray.cluster_resources()["red"] == 2
    labels = ray.nodes()[0]["Labels"]
    assert (labels["zone"], labels["rack"]) == ("a", "7")


def test_it_has_one_cpu_otherwise(call_ray_start_context):
    ray.init(call_ray_start_context)
    assert ray.cluster_resources()["CPU"] == 1


def test_a_session_with_its_page(ray_start_with_dashboard):
    assert ray.get_runtime_context().get_dashboard_url()


def test_the_page_elsewhere(set_override_dashboard_url, shutdown_only_with_initialization_check):
    ray.init()
    assert ray.get_runtime_context().get_dashboard_url() == "external_dashboard_url"


def test_that_leaves_a_session():
    ray.init(num_cpus=1)


def test_that_begins_its_own(ray_start_2_cpus):
    assert ray.cluster_resources()["CPU"] == 2


def test_that_leaves_one_again():
    ray.init(num_cpus=1)


def test_that_only_ends_one(shutdown_only):
    ray.init(num_cpus=3)
    assert ray.cluster_resources()["CPU"] == 3


def test_that_has_two(ray_start_2_cpus, shutdown_only):
    assert ray.cluster_resources()["CPU"] == 2


def test_a_variable(set_runtime_env_retry_times):
    assert os.environ["RUNTIME_ENV_RETRY_TIMES"] == set_runtime_env_retry_times == "0"


@pytest.mark.parametrize("ray_start_cluster_head_with_env_vars", [
    {"env_vars": {"COLOUR": "red"}, "num_cpus": 2},
], indirect=True)
def test_a_head_with_variables(ray_start_cluster_head_with_env_vars):
    assert os.environ["COLOUR"] == "red"
    assert ray.cluster_resources()["CPU"] == 2


@pytest.mark.parametrize("event_routing_config", ["default", "aggregator"], indirect=True)
@pytest.mark.usefixtures("event_routing_config")
def test_rows_are_compared_with_processes(ray_start_2_cpus):
    from ray._private.state_api_test_utils import (
        PidActor,
        verify_failed_task,
        verify_tasks_running_or_terminated,
        wait_for_task_states,
    )

    pids = PidActor.remote()

    @ray.remote
    def spoil():
        raise KeyError("spam")

    @ray.remote
    def stay():
        ray.get(pids.report_pid.remote("guest", os.getpid()))
        ray.get(ray.get_actor("gate").wait.remote())

    gate = SignalActor.options(name="gate").remote()
    held = stay.options(name="guest").remote()
    wait_for_condition(lambda: ray.get(pids.get_pids.remote()))
    assert verify_tasks_running_or_terminated(ray.get(pids.get_pids.remote()), 1)
    with pytest.raises(KeyError):
        ray.get(spoil.options(name="bad").remote())
    assert verify_failed_task("bad", "TASK_EXECUTION_EXCEPTION", ["KeyError", "spam"])
    ray.get([gate.send.remote(), held])
    wait_for_task_states({"guest": "FINISHED", "bad": "FAILED"})


def test_what_the_fixtures_begin_with():
    with _ray_start(**get_default_fixture_ray_kwargs(), labels={"zone": "a"}):
        assert ray.cluster_resources()["CPU"] == 1


@pytest.mark.parametrize("random_ascii_file", [2], indirect=True)
def test_a_file_of_letters(random_ascii_file):
    content = random_ascii_file.read()
    assert len(content) == 2048
    assert content.isalpha()


def test_a_graph_of_the_actors_of_tests(ray_start_regular):
    from ray.dag import InputNode, MultiOutputNode
    from ray.dag.tests.experimental.actor_defs import Actor, Collector

    actor, collector = Actor.remote(1), Collector.remote()
    with InputNode() as given:
        low, high = actor.inc_and_return_two.bind(given)
        both = collector.collect_two.bind(low, high)
        last = actor.double_and_inc.bind(given)
        graph = MultiOutputNode([both, last]).experimental_compile()
    assert ray.get(graph.execute(2)) == [[3, 4], 8]
    unlucky = Actor.remote(0, fail_after=1)
    with pytest.raises(RuntimeError, match="injected fault"):
        for _ in range(200):
            ray.get(unlucky.echo.remote(1))
    graph.teardown()
    with pytest.raises(ray.exceptions.RayChannelError):
        graph.execute(2)


def test_a_client_is_the_session():
    from ray.util.client import ray as client
    from ray.util.client.ray_client_helpers import ray_start_client_server

    begin = lambda: ray.init(num_cpus=2)  # noqa: E731
    with ray_start_client_server(ray_connect_handler=begin) as connected:
        assert connected is client
        assert client.is_connected()
        assert client.get(client.remote(lambda: 3).remote()) == 3
        assert client.cluster_resources()["CPU"] == 2
    assert not client.is_connected()
    assert not ray.is_initialized()


def test_with_and_without_a_client(start_cluster, request):
    cluster, address = start_cluster
    ray.init(address)
    assert "ray_client" in request.node.name


def test_processes_and_clocks():
    assert check_call_subprocess([sys.executable, "-c", "print(3)"], True) == b"3\\n"
    assert _pid_alive(os.getpid())
    assert format_web_url("localhost:1") == "http://127.0.0.1:1"
    timer = FakeTimer(1.0)
    timer.advance(2)
    assert timer.time() == 3.0


def test_where_to_spill(object_spilling_config, request):
    said, folder = object_spilling_config
    assert str(folder) in said
    assert "object_spilling_config0" in request.node.name
"""


def test_fixtures_of_clusters_and_pages(tmp_path: Path) -> None:
    (tmp_path / "test_fixtures.py").write_text(FIXTURES)
    command = [sys.executable, "-m", "skate", "run", "--as-ray", "-m", "pytest", "-q"]
    done = run_program([*command, "-p", "no:cacheprovider", "-c", os.devnull], cwd=tmp_path)
    assert done.returncode == 0, done.stdout
