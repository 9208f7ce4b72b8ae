"""What exists under the name `ray` only."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate.compat import ray as compat
from tests.support import run_program


@pytest.fixture(autouse=True)
def as_ray(leaves_nothing: None) -> Iterator[None]:
    compat.install()
    skate.init(num_cpus=2)
    yield
    skate.shutdown()
    compat.uninstall()


def test_signals_and_semaphores() -> None:
    import ray
    from ray._common.test_utils import Semaphore, SignalActor, wait_for_condition

    signal = SignalActor.remote()
    waiting = signal.wait.remote()
    wait_for_condition(lambda: ray.get(signal.cur_num_waiters.remote()) == 1, timeout=60)
    assert ray.wait([waiting], timeout=0)[0] == []
    ray.get(signal.send.remote())
    assert ray.get(waiting, timeout=60) is None

    semaphore = Semaphore.remote(value=1)
    ray.get(semaphore.acquire.remote())
    assert ray.get(semaphore.locked.remote())
    ray.get(semaphore.release.remote())
    assert not ray.get(semaphore.locked.remote())


def test_conditions() -> None:
    from ray._private.test_utils import async_wait_for_condition, wait_for_condition

    answers = iter([False, True])
    wait_for_condition(lambda: next(answers), timeout=60, retry_interval_ms=1)
    with pytest.raises(RuntimeError, match="not met within"):
        wait_for_condition(lambda: False, timeout=0.01, retry_interval_ms=1)
    with pytest.raises(ZeroDivisionError):
        wait_for_condition(lambda: 1 // 0, raise_exceptions=True)

    async def later() -> bool:
        return True

    asyncio.run(async_wait_for_condition(later))


def test_drivers_of_their_own() -> None:
    from ray._private.test_utils import run_string_as_driver

    program = "import ray; ray.init(num_cpus=1); print(ray.get(ray.put(7)))"
    assert run_string_as_driver(program) == "7\n"


def test_helpers_that_look_inside_ray_fail_when_called() -> None:
    from ray._private.test_utils import get_metric_check_condition

    with pytest.raises(NotImplementedError, match="get_metric_check_condition"):
        get_metric_check_condition()


def test_the_state_of_the_machine() -> None:
    import ray
    from ray.util.state import list_logs, list_nodes

    (node,) = list_nodes()
    assert node["node_id"] == ray.get_runtime_context().get_node_id()
    assert ray._private.state.total_resources_per_node()[node["node_id"]]["CPU"] == 2
    assert ray.state.available_resources_per_node()[node["node_id"]]["CPU"] <= 2
    assert ray.services.get_node_ip_address()
    assert ray._private.state.current_node_id() in ray._private.state.node_ids()
    assert list_logs(node_id=node["node_id"]) == {}


def test_actors_in_the_words_of_tables() -> None:
    import ray
    from ray._private.test_utils import kill_actor_and_wait_for_failure, wait_for_num_actors

    actor = ray.remote(Keeper).options(name="keeper").remote()
    wait_for_num_actors(1, "ALIVE", timeout=60)
    row = ray._private.state.actors(actor._actor_id.hex())
    assert (row["State"], row["Name"], row["NumRestarts"]) == ("ALIVE", "keeper", 0)
    kill_actor_and_wait_for_failure(actor)
    assert [row["State"] for row in ray._private.state.actors().values()] == ["DEAD"]


class Keeper:
    """An actor of no consequence."""


def test_groups_that_leave_nothing() -> None:
    import ray
    from ray._private.test_utils import placement_group_assert_no_leak
    from ray.util import placement_group

    group = placement_group([{"CPU": 1}])
    ray.get(group.ready())
    placement_group_assert_no_leak([group])


def test_keys_and_values() -> None:
    import ray
    from ray.experimental import internal_kv as kv

    assert kv._internal_kv_put("key", "value") is False
    assert kv._internal_kv_put(b"key", b"other", overwrite=False) is True
    assert kv._internal_kv_get("key") == b"value"
    assert kv._internal_kv_get("key", namespace="elsewhere") is None

    @ray.remote
    def in_a_task() -> Any:
        from ray.experimental.internal_kv import _internal_kv_list, _internal_kv_put

        _internal_kv_put("key2", "value2")
        return sorted(_internal_kv_list("key"))

    assert ray.get(in_a_task.remote()) == [b"key", b"key2"]
    assert kv._internal_kv_exists("key2")
    assert kv._internal_kv_del("key", del_by_prefix=True) == 2
    with pytest.raises(RuntimeError, match="@namespace_"):
        kv._internal_kv_get("@namespace_x")


def test_the_inside_of_ray_can_be_imported_and_not_used() -> None:
    import ray
    from ray._common.network_utils import node_ip_address_from_perspective
    from ray._private.ray_constants import ID_SIZE, NO_SUCH_NUMBER
    from ray._raylet import GcsClient
    from ray.core.generated import gcs_pb2

    assert ID_SIZE == 28
    for absent in (
        node_ip_address_from_perspective,
        NO_SUCH_NUMBER.of_any,
        GcsClient,
        gcs_pb2.ActorTableData,
    ):
        with pytest.raises(NotImplementedError, match="inside of Ray"):
            absent()

    class Own(GcsClient): ...  # type: ignore[misc]

    with pytest.raises(NotImplementedError, match="GcsClient"):
        Own()

    assert ray._private.worker.global_worker.node.unique_id == ray.nodes()[0]["NodeID"]


def test_helpers_that_wait_for_processes_and_assertions() -> None:
    from ray._private import test_utils

    out, err = test_utils.run_string_as_driver_stdout_stderr(
        "import sys; print('out'); print('err', file=sys.stderr)"
    )
    assert (out, err) == ("out\n", "err\n")
    sleeper = test_utils.run_string_as_driver_nonblocking("import time; time.sleep(60)")
    test_utils.wait_for_children_of_pid(os.getpid(), 1)
    with pytest.raises(TimeoutError, match=str(sleeper.pid)):
        test_utils.wait_for_pid_to_exit(sleeper.pid, timeout=0)
    sleeper.kill()
    sleeper.communicate()
    test_utils.wait_for_pid_to_exit(sleeper.pid)

    tries: list[int] = []

    def third_time() -> None:
        tries.append(1)
        assert len(tries) >= 3

    test_utils.wait_for_assertion(third_time, retry_interval_ms=1)
    assert test_utils.wait_until_succeeded_without_exception(third_time, (AssertionError,))

    def never() -> None:
        assert not tries

    with pytest.raises(AssertionError):
        test_utils.wait_for_assertion(never, timeout=0)


def test_a_reference_from_here_or_from_a_task() -> None:
    import ray
    from ray._private.test_utils import get_actor_node_id, put_object

    assert ray.get([put_object(3, True), put_object(4, False)]) == [3, 4]

    @ray.remote
    class Actor: ...

    assert get_actor_node_id(Actor.remote()) == ray.nodes()[0]["NodeID"]


def test_a_cluster_adds_up() -> None:
    import ray
    from ray.cluster_utils import Cluster

    ray.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=3, resources={"special": 2}, object_store_memory=10**8)
    ray.init(address=cluster.address)
    assert (ray.cluster_resources()["CPU"], ray.cluster_resources()["special"]) == (4, 2)
    here = ray.nodes()[0]["NodeID"]
    assert [(node.node_id, node.head) for node in cluster.list_all_nodes()] == [
        (here, True),
        (here, False),
    ]
    with pytest.raises(NotImplementedError, match="one machine"):
        cluster.remove_node(cluster.list_all_nodes()[1])
    ray.shutdown()
    cluster.shutdown()
    ray.init(num_cpus=1)
    assert ray.cluster_resources()["CPU"] == 1


def test_what_waits_for_a_node_runs_when_it_joins() -> None:
    import ray
    from ray.cluster_utils import Cluster

    ray.shutdown()
    cluster = Cluster(initialize_head=True, connect=True, head_node_args={"num_cpus": 0})

    @ray.remote(num_gpus=1)
    def gpu() -> list[int]:
        return list(ray.get_gpu_ids())

    early = gpu.remote()
    group = ray.util.placement_group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_SPREAD")
    assert ray.wait([early, group.ready()], timeout=0.01)[0] == []
    cluster.add_node(num_cpus=1, num_gpus=1)
    assert ray.get(early, timeout=60) == [0]
    cluster.add_node(num_cpus=2)
    assert group.wait(60)
    assert ray.cluster_resources()["CPU"] == 3
    ray.shutdown()
    cluster.shutdown()


FIXTURES = """
from ray.tests.conftest import *
import pytest
import ray

def test_regular(ray_start_regular):
    assert ray.cluster_resources()["CPU"] == 1

@pytest.mark.parametrize("ray_start_regular", [{"num_cpus": 3}], indirect=True)
def test_parameters(ray_start_regular):
    assert ray.cluster_resources()["CPU"] == 3

@pytest.mark.parametrize(
    "ray_start_cluster", [{"num_nodes": 2, "num_cpus": 2}], indirect=True)
def test_cluster(ray_start_cluster):
    assert ray.cluster_resources()["CPU"] == 4

def test_shutdown(shutdown_only):
    ray.init(num_cpus=2)
"""


def test_fixtures(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FIXTURES)
    command = [sys.executable, "-m", "skate", "run", "--as-ray", "-m", "pytest", "-q"]
    done = run_program([*command, "-p", "no:cacheprovider", "test_it.py"], cwd=tmp_path)
    assert "4 passed" in done.stdout, done.stdout


def test_marks_leave_what_they_mark() -> None:
    from ray.util.annotations import Deprecated, DeveloperAPI, PublicAPI

    def function() -> None: ...

    assert PublicAPI(function) is DeveloperAPI(stability="beta")(function) is function
    assert Deprecated(function) is function


@pytest.mark.parametrize("loud", [True, False])
def test_what_is_deprecated_says_so(loud: bool) -> None:
    from ray.util.annotations import Deprecated, RayDeprecationWarning

    @Deprecated(message="use spoons", warning=loud)
    class Fork:
        def __init__(self, size: int) -> None:
            self.size = size

        @Deprecated(message="use spoons", warning=loud)
        def eat(self) -> int:
            """Take a bite."""
            return self.size

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert Fork(3).eat() == 3
    assert [warning.category for warning in caught] == [RayDeprecationWarning] * 2 * loud
    assert all("use spoons" in str(warning.message) for warning in caught)
    assert "use spoons" in (Fork.__doc__ or "")
    assert (Fork.eat.__doc__ or "").startswith("Take a bite.")
    assert "use spoons" in (Fork.eat.__doc__ or "")


def test_what_is_not_there_has_no_items() -> None:
    from ray._private.ray_constants import NO_SUCH_NUMBERS

    with pytest.raises(NotImplementedError, match="NO_SUCH_NUMBERS"):
        list(NO_SUCH_NUMBERS)


def test_actors_of_a_job_and_in_a_state() -> None:
    import ray

    @ray.remote(num_cpus=0)
    class Guest:
        def ping(self) -> None: ...

    guest = Guest.remote()
    ray.get(guest.ping.remote())
    here, other = ray.get_runtime_context().get()["job_id"], ray.JobID.from_int(100)
    assert set(ray.state.actors(job_id=here, actor_state_name="ALIVE")) == {guest._actor_id.hex()}
    assert ray.state.actors(job_id=other) == ray.state.actors(actor_state_name="RESTARTING") == {}
    with pytest.raises(ValueError, match="not a valid actor state name"):
        ray.state.actors(actor_state_name="ASLEEP")


@pytest.mark.parametrize("said", ["https://far.example/page?tab=1", "far.example:99"])
def test_the_page_is_elsewhere(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    import ray

    monkeypatch.setenv("RAY_OVERRIDE_DASHBOARD_URL", said)
    shown = said.removeprefix("https://")
    with ray.init(ignore_reinit_error=True) as context:
        assert context.dashboard_url == context.address_info["webui_url"] == shown
        assert ray.get_runtime_context().get_dashboard_url() == shown


def test_a_resource_that_is_no_custom_one() -> None:
    import ray
    from ray._private.ray_constants import DEFAULT_RESOURCES

    assert {"CPU", "GPU", "memory", "object_store_memory"} == DEFAULT_RESOURCES
    ray.shutdown()
    for name in DEFAULT_RESOURCES:
        words = f"`{name}` cannot be a custom resource because it is one of the default"
        with pytest.raises(AssertionError, match=words):
            ray.init(resources={name: 1})
        with pytest.raises(ValueError, match=words):
            ray.remote(resources={name: 1})(len)


def test_where_the_process_is() -> None:
    import ray
    from ray.worker import SCRIPT_MODE, WORKER_MODE, global_worker

    assert global_worker.connected
    assert global_worker.mode == SCRIPT_MODE

    @ray.remote
    def mode() -> Any:
        return ray.worker.global_worker.mode

    assert ray.get(mode.remote()) == WORKER_MODE


def test_the_place_to_spill_is_read_from_the_system_config(tmp_path: Path) -> None:
    import ray

    ray.shutdown()
    spilling = {"type": "filesystem", "params": {"directory_path": str(tmp_path)}}
    config = {"object_spilling_config": json.dumps(spilling)}
    ray.init(num_cpus=1, _system_config=config)
    assert [*tmp_path.iterdir()]


def test_bars_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    from ray.experimental import tqdm_ray

    assert list(tqdm_ray.tqdm(range(3), desc="steps", flush_interval_s=0)) == [0, 1, 2]
    bar = tqdm_ray.tqdm(desc="by hand", total=2, unit="row")
    bar.update(2)
    tqdm_ray.safe_print("a word")
    bar.close()
    bar.close()
    shown = capsys.readouterr()
    assert "steps: 100%" in shown.err
    assert "by hand: 100%" in shown.err
    assert shown.out == "a word\n"


def test_paths_of_the_second_train() -> None:
    from ray.train._checkpoint import Checkpoint
    from ray.train.v2.api.config import RunConfig, ScalingConfig
    from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
    from ray.train.v2.api.train_fn_utils import report

    from skate import train

    assert (RunConfig, ScalingConfig) == (train.RunConfig, train.ScalingConfig)
    assert (Checkpoint, report) == (train.Checkpoint, train.report)
    assert DataParallelTrainer is train.data_parallel_trainer.DataParallelTrainer


def test_names_that_tests_of_training_import(tmp_path: Path) -> None:
    from importlib import reload

    import ray.train
    from ray.train.constants import TRAIN_ENABLE_WORKER_SPREAD_ENV
    from ray.train.tests.util import mock_storage_context
    from ray.train.v2._internal.callbacks.datasets import DatasetsCallback
    from ray.train.v2._internal.constants import HEALTH_CHECK_INTERVAL_S_ENV_VAR
    from ray.tune.progress_reporter import CLIReporter, _fair_filter_trials

    assert reload(reload(ray.train)) is ray.train
    assert HEALTH_CHECK_INTERVAL_S_ENV_VAR == "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"
    assert TRAIN_ENABLE_WORKER_SPREAD_ENV == "TRAIN_ENABLE_WORKER_SPREAD"
    assert CLIReporter.__name__ == "CLIReporter"
    for inside in (DatasetsCallback, _fair_filter_trials):
        with pytest.raises(NotImplementedError, match="inside of Ray"):
            inside()
    storage = mock_storage_context(storage_path=tmp_path)
    assert storage.trial_fs_path == str(tmp_path / "exp_name" / "trial_name")


def test_files_of_a_run_by_their_place(tmp_path: Path) -> None:
    from ray.train._internal.storage import (
        _delete_fs_path,
        _download_from_fs_path,
        _list_at_fs_path,
        _upload_to_fs_path,
        get_fs_and_path,
    )

    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "file").write_text("content")
    filesystem, there = get_fs_and_path(str(tmp_path / "there" / "run"))
    _upload_to_fs_path(str(tmp_path / "here"), filesystem, there)
    assert _list_at_fs_path(filesystem, there) == ["file"]
    _download_from_fs_path(filesystem, there, str(tmp_path / "back"))
    _download_from_fs_path(filesystem, f"{there}/file", str(tmp_path / "one" / "file"))
    assert (tmp_path / "back" / "file").read_text() == "content"
    assert (tmp_path / "one" / "file").read_text() == "content"
    _upload_to_fs_path(str(tmp_path / "here" / "file"), filesystem, f"{there}/new/name")
    assert Path(there, "new", "name").read_text() == "content"
    _delete_fs_path(filesystem, there)
    assert _list_at_fs_path(filesystem, there) == []


def test_addresses() -> None:
    from ray.air._internal.uri_utils import URI, is_uri

    address = URI("s3://bucket/runs/one?region=west")
    assert (address.scheme, address.name, address.path) == ("s3", "one", "bucket/runs/one")
    assert str(address / "a") == "s3://bucket/runs/one/a?region=west"
    assert str(address.parent.parent) == "s3://bucket?region=west"
    assert str(address.rstrip_subpath(Path("runs/one"))) == "s3://bucket?region=west"
    assert str(URI("/runs/one").parent / "two") == "/runs/two"
    assert [is_uri("s3://bucket"), is_uri("/runs")] == [True, False]


def test_the_stand_in_of_rllib(tmp_path: Path) -> None:
    from ray import tune
    from ray.rllib import _register_all

    _register_all()
    stop = {"training_iteration": 3}
    (trial,) = tune.run("__fake", stop=stop, verbose=0, local_dir=str(tmp_path)).trials
    assert trial.last_result["episode_reward_mean"] == 10
    failing = {"mock_error": True}
    (trial,) = tune.run(
        "__fake", stop=stop, config=failing, max_failures=1, checkpoint_freq=1, verbose=0,
        local_dir=str(tmp_path),
    ).trials  # fmt: skip
    assert (trial.status, trial.num_failures) == ("TERMINATED", 1)
    with pytest.raises(ImportError, match="reinforcement learning"):
        import ray.rllib.algorithms.ppo  # noqa: F401


def test_resources_by_device_and_group() -> None:
    import ray

    ray.shutdown()
    ray.init(num_cpus=2, num_gpus=2)

    @ray.remote(num_gpus=1)
    def ids() -> Any:
        return ray._private.worker.get_resource_ids()

    found = ray.get(ids.remote())
    assert found == {"CPU": [(0, 1.0)], "GPU": [(found["GPU"][0][0], 1.0)]}
    group = ray.util.placement_group([{"CPU": 1, "GPU": 1}])
    found = ray.get(ids.options(placement_group=group).remote())
    name = group.id.hex()
    assert {f"CPU_group_{name}", f"CPU_group_0_{name}", f"GPU_group_{name}"} < found.keys()


def test_settings_of_a_session_are_not_for_one_that_runs() -> None:
    import ray
    from ray.cluster_utils import Cluster

    ray.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    with pytest.raises(ValueError, match=r"_system_config .* address='auto'"):
        ray.init(address=cluster.address, _system_config={"object_timeout_milliseconds": 200})
    ray.init(address=cluster.address)
    assert ray.cluster_resources()["CPU"] == 2
    ray.shutdown()
    cluster.shutdown()
    ray.init("local", _system_config={"object_timeout_milliseconds": 200})


def test_there_is_no_client_and_nothing_of_it() -> None:
    import ray
    from ray.util.client.common import ClientObjectRef

    assert not isinstance(ray.put(1), ClientObjectRef)


def test_how_text_is_split_and_hashed() -> None:
    from ray.data.preprocessors.utils import simple_hash, simple_split_tokenizer

    assert simple_split_tokenizer("one two") == ["one", "two"]
    assert simple_hash("one", 100) == simple_hash("one", 100) < 100


def test_folders_elsewhere(tmp_path: Path) -> None:
    from ray.air._internal import remote_storage as storage

    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "kept.txt").write_text("kept")
    (tmp_path / "in" / "deep" / "left.txt").write_text("left")
    place = "memory:///test_folders_elsewhere/one"
    storage.upload_to_uri(str(tmp_path / "in"), place, exclude=["deep/*"])
    assert storage.list_at_uri(place) == ["kept.txt"]
    assert storage.read_file_from_uri(f"{place}/kept.txt") == b"kept"
    storage.download_from_uri(place, str(tmp_path / "out" / "new"))
    assert [path.name for path in (tmp_path / "out" / "new").iterdir()] == ["kept.txt"]
    storage.delete_at_uri(place)
    assert storage.list_at_uri(place) == []
    assert storage.is_non_local_path_uri(place)
    assert not storage.is_non_local_path_uri(str(tmp_path))


def test_what_tests_of_tuning_ask() -> None:
    from ray.tune.experimental.output import BLACKLISTED_KEYS
    from ray.tune.utils.util import is_nan, is_nan_or_inf

    assert {"config", "pid", "training_iteration"} <= set(BLACKLISTED_KEYS)
    assert [is_nan(float("nan")), is_nan(1.0), is_nan("a")] == [True, False, False]
    assert [is_nan_or_inf(float("inf")), is_nan_or_inf(2)] == [True, False]


def test_names_that_programs_import_at_their_top() -> None:
    import ray
    from ray._private.worker import RayContext
    from ray.runtime_env.runtime_env import RuntimeEnv
    from ray.util.accelerators import AWS_NEURON_CORE, NVIDIA_TESLA_V100
    from ray.util.actor_group import ActorGroup
    from ray.util.debug import enable_periodic_logging
    from ray.util.helpers import as_completed
    from ray.util.state.common import ActorState, StateResource
    from ray.util.state.exception import RayStateApiException, ServerUnavailable

    assert (RuntimeEnv, RayContext) == (ray.runtime_env.RuntimeEnv, type(ray.init()))
    assert ray._private.worker.get is ray.get
    assert ray._private.worker.get_gpu_ids() == []
    assert ray._private.worker.get_dashboard_url() is None
    assert (NVIDIA_TESLA_V100, AWS_NEURON_CORE) == ("V100", "aws-neuron-core")
    assert as_completed is ray.util.as_completed
    assert enable_periodic_logging is ray.util.enable_periodic_logging
    assert issubclass(ServerUnavailable, RayStateApiException)
    for question in ({"limit": 10_001}, {"filters": [("spam", "=", 1)]}):
        with pytest.raises(RayStateApiException):
            ray.util.state.list_tasks(**question)
    assert ray.Language.PYTHON.name == "PYTHON"
    assert isinstance(ray.client(), ray.ClientBuilder)
    assert ActorGroup.__name__ == "ActorGroup"
    assert StateResource("actors") is StateResource.ACTORS
    assert ray._private.profiling.profile is skate.util.profile
    assert all(isinstance(row, ActorState) for row in ray.util.state.list_actors())


def test_names_that_are_gone_say_what_to_write() -> None:
    from ray.data.datasource import FileExtensionFilter

    class OnlyText(FileExtensionFilter):  # type: ignore[misc]
        pass

    with pytest.raises(NotImplementedError, match="file_extensions"):
        OnlyText("txt")


def test_the_table_of_placement_groups_by_id() -> None:
    import ray

    group = ray.util.placement_group([{"CPU": 1}])
    ray.get(group.ready())
    table = ray._private.state.state.placement_group_table(group.id)
    assert table == ray.util.placement_group_table(group)
    assert table["bundles_to_node_id"][0] == ray.nodes()[0]["NodeID"]
    assert list(ray.state.placement_group_table()) == [group.id.hex()]


def test_callbacks_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.train import UserCallback
    from ray.train.v2._internal.callbacks.env_callback import _initialize_env_callbacks
    from ray.train.v2._internal.constants import RAY_TRAIN_CALLBACKS_ENV_VAR
    from ray.train.v2._internal.execution.callback import RayTrainCallback

    assert issubclass(UserCallback, RayTrainCallback)
    monkeypatch.setenv(RAY_TRAIN_CALLBACKS_ENV_VAR, "ray.train.UserCallback")
    assert [type(callback) for callback in _initialize_env_callbacks()] == [UserCallback]


def test_temporary_folders_of_checkpoints(tmp_path: Path) -> None:
    from ray.train._checkpoint import _CHECKPOINT_TEMP_DIR_PREFIX, Checkpoint

    place = Path(Checkpoint.from_directory(tmp_path).to_directory())
    assert place.name.startswith(_CHECKPOINT_TEMP_DIR_PREFIX)
    place.rmdir()


def test_whether_there_is_a_session(tmp_path: Path) -> None:
    import ray
    from ray import tune
    from ray.train._internal.session import get_session

    assert get_session() is None
    assert ray.train._internal.session.get_session is get_session
    run = tune.RunConfig(storage_path=str(tmp_path), name="run")
    tuner = tune.Tuner(lambda config: {"path": get_session().storage.path}, run_config=run)
    (result,) = tuner.fit()
    assert result.metrics["path"] == result.path


def test_a_table_of_the_objects() -> None:
    import ray
    from ray._private.internal_api import memory_summary

    large, small = ray.put(bytes(2_000_000)), ray.put(1)
    text = memory_summary(units="MB")
    first, _, row, *_ = text.splitlines()
    assert first.startswith("2 objects, 2.0")
    assert row.startswith(large.hex())
    assert "2.000 MB" in row
    assert small.hex() not in memory_summary(num_entries=1)
    assert memory_summary(stats_only=True).count("\n") == 1
    with pytest.raises(ValueError, match="sort_by takes one of OBJECT_SIZE"):
        memory_summary(sort_by="colour")


def test_the_scanner_of_graphs() -> None:
    from ray.dag.py_obj_scanner import _instances, _PyObjScanner

    before = len(_instances)
    scanner = _PyObjScanner(source_type=Keeper)
    first, second = Keeper(), Keeper()
    assert scanner.find_nodes([first, {"inside": (second, first)}]) == [first, second, first]
    assert scanner.replace_nodes({first: 1, second: 2}) == [1, {"inside": (2, 1)}]
    scanner.clear()
    assert len(_instances) == before


def test_errors_have_the_names_that_the_program_knows() -> None:
    import ray

    @ray.remote
    def inner() -> float:
        return 1 / 0

    @ray.remote
    def outer() -> Any:
        return ray.get(inner.remote())

    with pytest.raises(ray.exceptions.RayTaskError) as caught:
        ray.get(outer.remote())
    assert repr(caught.value).startswith("RayTaskError(ZeroDivisionError)(")
    assert "\nray.exceptions.RayTaskError(ZeroDivisionError): ray::inner()" in str(caught.value)


def test_the_commands_have_the_paths_of_ray() -> None:
    from ray.scripts.scripts import cli
    from ray.util.state.state_cli import ray_get, ray_list, summary_state_cli_group

    commands: Any = cli.commands
    assert commands["list"] is ray_list
    assert commands["get"] is ray_get
    assert commands["summary"] is summary_state_cli_group


@pytest.mark.parametrize("text", ["key", "key=", "=value", "!=value", "key>value", "!=key!=value"])
def test_filters_of_the_commands_that_are_none(text: str) -> None:
    from ray.util.state.state_cli import _parse_filter

    assert _parse_filter("key!=value=1") == ("key", "!=", "value=1")
    with pytest.raises(ValueError, match="KEY=VALUE"):
        _parse_filter(text)


def test_rows_as_the_commands_show_them() -> None:
    from ray.util.state.common import ActorState
    from ray.util.state.state_cli import AvailableFormat, format_list_api_output

    rows = [ActorState(dict.fromkeys(ActorState.list_columns(), 1))]
    (row,) = json.loads(
        format_list_api_output(rows, schema=ActorState, format=AvailableFormat.JSON)
    )
    assert row.keys() == ActorState.base_columns()
    assert "NUM_RESTARTS" in format_list_api_output(rows, schema=ActorState, detail=True)
    with pytest.raises(ValueError, match="json"):
        format_list_api_output(rows, schema=ActorState, format="xml")


def test_columns_of_rows_of_ones_own() -> None:
    from ray.util.state.common import StateSchema, state_column

    @dataclasses.dataclass
    class Pet(StateSchema):
        name: str = state_column(filterable=True)
        weight: int = state_column(filterable=False, detail=True)

    assert (Pet.columns(), Pet.base_columns()) == ({"name", "weight"}, {"name"})
    assert Pet.filterable_columns() == {"name"}
    assert Pet("Tom")["weight"] is None


def test_the_client_of_the_state() -> None:
    import ray
    from ray.util.state import StateApiClient
    from ray.util.state.common import GetApiOptions, ListApiOptions, StateResource, SummaryResource

    actor = ray.remote(Keeper).remote()
    ray.get(actor.__ray_ready__.remote())
    client = StateApiClient()
    (row,) = client.list(StateResource.ACTORS, ListApiOptions(limit=5), True)
    assert client.get(StateResource.ACTORS, row["actor_id"], GetApiOptions()) == row
    assert client.summary(SummaryResource.ACTORS)["cluster"]["total_actors"] == 1
    with_driver = client.list(StateResource.TASKS, ListApiOptions(exclude_driver=False), True)
    without = client.list(StateResource.TASKS, ListApiOptions(), True)
    assert [row["type"] for row in with_driver] == ["DRIVER_TASK", *(row.type for row in without)]
    assert with_driver[1:] == without
    few = client.list(StateResource.TASKS, ListApiOptions(exclude_driver=False, limit=1), True)
    assert few == with_driver[:1]


def test_the_client_sums_up_what_meets_filters() -> None:
    import ray
    from ray.util.state import StateApiClient
    from ray.util.state.common import SummaryApiOptions, SummaryResource

    keepers = [ray.remote(Keeper).options(name=name).remote() for name in ("a", "b")]
    ray.get([keeper.__ray_ready__.remote() for keeper in keepers])
    client = StateApiClient()

    def total(**options: Any) -> int:
        found = client.summary(SummaryResource.ACTORS, options=SummaryApiOptions(**options))
        return int(found["cluster"]["total_actors"])

    assert (total(), total(filters=[("name", "=", "a")], summary_by="class")) == (2, 1)
    assert total(filters=[("name", "!=", "a"), ("name", "!=", "b")]) == 0
    with pytest.raises(ValueError, match="summed up by 'class'"):
        total(summary_by="lineage")
    with pytest.raises(ValueError, match="a filter takes one of"):
        total(filters=[("spam", "=", "1")])


def test_configurations_of_which_some_fields_stay() -> None:
    from ray.air._internal.config import ensure_only_allowed_dataclass_keys_updated as check
    from ray.train import ScalingConfig

    check(ScalingConfig(num_workers=2), ["num_workers"])
    with pytest.raises(ValueError, match=r"num_workers.*to be updated"):
        check(ScalingConfig(num_workers=2), ["use_gpu"])
    with pytest.raises(ValueError, match=r"nobody.*are not present in"):
        check(ScalingConfig(), ["nobody"])


def test_the_loop_of_a_training_knows_that_it_is_one(tmp_path: Path) -> None:
    from ray.train import DataParallelTrainer, RunConfig, ScalingConfig, report
    from ray.train.utils import _in_ray_train_worker

    def loop() -> None:
        report({"inside": _in_ray_train_worker()})

    for workers in (0, 1):
        result = DataParallelTrainer(
            loop,
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=RunConfig(storage_path=str(tmp_path)),
        ).fit()
        assert result.metrics["inside"]
    assert not _in_ray_train_worker()


def test_a_preprocessor_that_changes_nothing() -> None:
    from ray.train.tests.dummy_preprocessor import DummyPreprocessor

    same, other = DummyPreprocessor(), DummyPreprocessor(lambda batch: batch + 1)
    assert (same.transform_batch(1), other.transform_batch(1)) == (1, 2)
    assert same.has_preprocessed
    assert same != other


def test_labels_of_machines_by_their_names() -> None:
    import ray
    from ray._raylet import RAY_NODE_ID_KEY, RAY_NODE_ZONE_KEY

    own = ray.get_runtime_context().get_node_id()
    assert ray.nodes()[0]["Labels"][RAY_NODE_ID_KEY] == own

    @ray.remote(label_selector={RAY_NODE_ID_KEY: own, RAY_NODE_ZONE_KEY: "!north"})
    def node() -> Any:
        return ray.get_runtime_context().get_node_id()

    assert ray.get(node.remote()) == own


def test_what_is_taken_from_the_inside_for_torch() -> None:
    import torch
    from ray.air._internal.torch_utils import contains_tensor, get_devices, load_torch_model

    assert get_devices() == [torch.device("cpu")]  # where nothing is trained

    model, other = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    assert load_torch_model(model) is model
    loaded = load_torch_model(model.state_dict(), other)
    assert loaded is other
    assert torch.equal(loaded.weight, model.weight)
    with pytest.raises(ValueError, match="model_definition"):
        load_torch_model(model.state_dict())
    assert contains_tensor({"a": [1, (torch.ones(1),)]})
    assert not contains_tensor({"a": [1, ("x",)]})


def test_errors_without_the_frames_of_a_library() -> None:
    from ray.air._internal.util import StartTraceback, find_free_port, skip_exceptions

    def library(depth: int) -> None:
        if depth:
            library(depth - 1)
        try:
            raise ValueError("of the user")
        except ValueError as error:
            raise StartTraceback from error

    with pytest.raises(StartTraceback) as caught:
        library(3)
    shown = skip_exceptions(caught.value)
    assert isinstance(shown, ValueError)
    assert shown is not caught.value.__cause__
    assert shown.__traceback__ is not None
    assert shown.__traceback__.tb_next is None
    assert 0 < find_free_port() < 65536


def test_a_pool_takes_one_value_for_a_list_of_one() -> None:
    from ray.util.multiprocessing import Pool

    with Pool(1) as pool, pytest.warns(UserWarning, match="Passing a non-iterable argument"):
        assert list(pool.imap(abs, -3)) == [3]


def test_a_pool_has_a_cpu_per_process() -> None:
    import ray
    from ray.util.multiprocessing import Pool

    with pytest.raises(ValueError, match=r"CPUs, 2; got 3: begin with ray\.init\(num_cpus=3\)"):
        Pool(3)
    ray.shutdown()
    with Pool(3) as pool:
        assert ray.cluster_resources()["CPU"] == 3
        assert pool.map(abs, [-1]) == [1]


def test_objects_are_counted_for_those_who_look_for_leaks() -> None:
    import ray

    core = ray._private.worker.global_worker.core_worker
    assert (core.get_all_reference_counts(), core.get_memory_store_size()) == ({}, 0)
    ref = ray.put(1)
    counts = core.get_all_reference_counts()
    assert list(counts) == [ref.hex().encode()]
    assert counts == {ref.hex().encode(): {"local": 1, "submitted": 0}}
    assert core.object_exists(ref)
    assert core.get_memory_store_size() == 1
    id = ref.binary()
    del ref
    assert core.get_memory_store_size() == 0
    assert not core.object_exists(ray.ObjectRef(id))
    keeper = ray.remote(num_cpus=0)(dict).remote()
    ray.get(keeper.__ray_ready__.remote())
    assert core.get_all_reference_counts() == {}


def test_references_of_an_earlier_session_are_refused_in_words_of_ray() -> None:
    import ray

    old = ray.put(1)
    ray.shutdown()
    ray.init(num_cpus=1)
    with pytest.raises(ValueError, match="Ray objects whose owner is unknown"):
        ray.get(old)
    with pytest.raises(ValueError, match="Ray object whose owner is unknown"):
        ray.remote(len).remote([old])


def test_what_cannot_be_pickled_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    import threading

    from ray.cloudpickle import dumps_debug, loads

    assert loads(dumps_debug([1, 2])) == [1, 2]
    lock = threading.Lock()
    with pytest.raises(TypeError, match="cannot be pickled"):
        dumps_debug(lambda: lock.acquire())
    assert "lock" in capsys.readouterr().out


def odd_only(number: int) -> int:
    if number % 2 == 0:
        raise ValueError("even")
    return number


def test_what_a_call_raises_is_a_result_of_a_pool() -> None:
    from ray.util.multiprocessing.pool import Pool

    import skate.util.multiprocessing

    with Pool(2) as pool:
        assert isinstance(pool, skate.util.multiprocessing.Pool)
        for results in (pool.imap(odd_only, [1, 2]), pool.imap_unordered(odd_only, [1, 2])):
            assert {type(result) for result in results} == {int, ValueError}


def test_requests_for_nodes_are_checked_and_change_nothing() -> None:
    from ray.autoscaler.sdk import request_resources

    before = skate.cluster_resources()
    request_resources(num_cpus=100)
    request_resources(bundles=[{"CPU": 1}, {"GPU": 0.5}], bundle_label_selectors=[{}, {"a": "b"}])
    assert skate.cluster_resources() == before
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"num_cpus": "all"}, TypeError, "num_cpus.*'all'"),
        ({"bundles": {"CPU": 1}}, TypeError, "bundles.*a list of dictionaries"),
        ({"bundles": [{"CPU": True}]}, TypeError, "'CPU' in bundles.*True"),
        ({"bundles": [{"CPU": -1}]}, ValueError, "'CPU' in bundles.*-1"),
        ({"bundles": [{}], "bundle_label_selectors": []}, ValueError, "one per bundle"),
        ({"bundles": [{}], "bundle_label_selectors": [{"a": 1}]}, TypeError, "value of 'a'"),
    ]
    for arguments, error, words in wrong:
        with pytest.raises(error, match=words):
            request_resources(**arguments)


def test_other_functions_of_the_autoscaler_are_refused() -> None:
    from ray.autoscaler import sdk

    with pytest.raises(NotImplementedError, match="Ray's cluster"):
        sdk.teardown_cluster("cluster.yaml")


def test_formatters_and_the_filter_of_logging() -> None:
    import ray
    from ray._common.filters import CoreContextFilter
    from ray._common.formatters import JSONFormatter, TextFormatter

    record = logging.makeLogRecord({"msg": "la", "voice": "alto"})
    assert CoreContextFilter().filter(record)
    here = ray.get_runtime_context()
    as_json, as_text = JSONFormatter(), TextFormatter()
    line = json.loads(as_json.format(record))
    assert (line["message"], line["voice"], line["job_id"]) == ("la", "alto", here.get_job_id())
    assert "task_id" not in line
    assert "voice=alto" in as_text.format(record)
    as_json.set_additional_log_standard_attrs(["name"])
    assert json.loads(as_json.format(record))["name"] == record.name
    wrong = logging.makeLogRecord({"ray_serve_extra_fields": "alto"})
    with pytest.raises(ValueError, match="takes a dictionary of fields; got 'alto'"):
        as_json.format(wrong)


def test_a_client_disconnects_and_connects() -> None:
    import ray
    from ray.util.client.ray_client_helpers import ray_start_client_server

    ray.shutdown()
    with ray_start_client_server() as client:
        assert client.is_connected()
        client.disconnect()
        assert not client.is_connected()
        assert not ray.is_initialized()
        client.connect("local", namespace="elsewhere")
        assert ray.get_runtime_context().namespace == "elsewhere"
