"""`import ray` means skate: names, identity, workers, child processes, refusals, and back."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import cloudpickle
import pytest

import skate
from skate._core import notices
from skate.compat import ray as compat
from tests.support import run_program

MODULE = """
import ray
from ray.util.placement_group import placement_group

@ray.remote
def version():
    return ray.__version__

def plain():
    return ray.__name__, ray.get is __import__("skate").get
"""


@pytest.fixture
def as_ray() -> Iterator[None]:
    compat.install()
    yield
    skate.shutdown()
    compat.uninstall()


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_program([sys.executable, "-c", code], env={**os.environ, **variables})


class TestNames:
    def test_names_are_the_same_objects(self, as_ray: None) -> None:
        import ray
        import ray.exceptions
        from ray.actor import ActorHandle
        from ray.util import ActorPool
        from ray.util.queue import Queue

        assert ray.get is skate.get
        assert ray.remote is skate.remote
        assert ray.ObjectRef is skate.ObjectRef
        assert ray.exceptions.RayError is skate.exceptions.SkateError
        assert ActorHandle is skate.ActorHandle
        assert ActorPool is skate.util.ActorPool
        assert Queue is skate.util.queue.Queue

    def test_the_version_is_that_of_the_api(self, as_ray: None) -> None:
        import ray

        assert ray.__version__ == compat.RAY_VERSION == importlib.metadata.version("ray")
        assert importlib.metadata.version("cloudpickle") == cloudpickle.__version__

    def test_a_function_stays_a_function_beside_its_module(self, as_ray: None) -> None:
        import ray
        import ray.util.placement_group

        assert ray.util.placement_group is skate.util.placement_group
        assert callable(ray.util.placement_group)

    def test_everything_of_a_module(self, as_ray: None) -> None:
        names: dict[str, object] = {}
        exec("from ray.util import *", names)
        assert names["ActorPool"] is skate.util.ActorPool

    def test_old_paths_lead_to_their_homes(self, as_ray: None) -> None:
        import ray
        from ray._raylet import ObjectRef
        from ray.worker import global_worker

        found: Any = ObjectRef
        assert found is skate.ObjectRef
        assert ray.worker.get is skate.get
        assert not global_worker.connected
        ray.init(num_cpus=1, local_mode=True)
        assert global_worker.mode == ray.LOCAL_MODE

    def test_what_is_replaced_is_replaced_in_skate(self, as_ray: None) -> None:
        import ray

        original = skate.nodes
        with mock.patch("ray.nodes", return_value="replaced"):
            found: list[Any] = [ray.nodes(), skate.nodes()]
            assert found == ["replaced", "replaced"]
        assert ray.nodes is skate.nodes is original

    def test_what_is_set_covers_what_was_there_until_it_is_deleted(self, as_ray: None) -> None:
        import ray

        original: Any = skate.nodes
        for replacement in ("first", "second"):
            ray.nodes = replacement
        replaced: Any = skate.nodes
        assert replaced == "second"
        del ray.nodes
        assert ray.nodes is skate.nodes is original
        ray.of_our_own = 1
        del ray.of_our_own
        assert not hasattr(ray, "of_our_own")

    def test_monkeypatch_leaves_everything_as_it_was(self, as_ray: None) -> None:
        import ray

        original = skate.nodes
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ray, "nodes", "replaced")
            patch.setattr("ray.data.range", "replaced")
            found: list[Any] = [ray.nodes, skate.nodes, skate.data.range]
            assert found == ["replaced"] * 3
        assert ray.nodes is skate.nodes is original
        assert callable(ray.data.range)

    def test_it_can_be_looked_for(self, as_ray: None) -> None:
        assert importlib.util.find_spec("ray") is not None
        assert importlib.util.find_spec("ray.data") is not None


class TestMissing:
    @pytest.mark.parametrize(
        ("statement", "words"),
        [
            ("import ray.rllib.algorithms", "reinforcement learning"),
            ("from ray.rllib import SampleBatch", "reinforcement learning"),
            ("from ray.rllib.algorithms import ppo", "reinforcement learning"),
            ("from ray.util.sgd import TorchTrainer", "train.torch.TorchTrainer"),
            ("from ray import nothing_like_it", "ray.nothing_like_it.*ray engine"),
            ("from ray.util import nothing_like_it", "ray.util.nothing_like_it.*ray engine"),
            ("import ray.util.spark", "Ray's cluster"),
        ],
    )
    def test_an_import_says_what_to_do(self, as_ray: None, statement: str, words: str) -> None:
        with pytest.raises(ImportError, match=words):
            exec(statement, {})

    def test_an_attribute_says_what_to_do(self, as_ray: None) -> None:
        import ray

        with pytest.raises(AttributeError, match=r"ray\.nothing_like_it.*ray engine"):
            _ = ray.nothing_like_it
        assert not hasattr(ray.util, "nothing_like_it")

    def test_a_cluster_that_grows_is_refused_when_it_is_made(self, as_ray: None) -> None:
        from ray.cluster_utils import AutoscalingCluster

        with pytest.raises(NotImplementedError, match="one machine"):
            AutoscalingCluster()


class TestProcesses:
    def test_workers_and_their_children(self, as_ray: None, tmp_path: Path) -> None:
        (tmp_path / "skate_uses_ray.py").write_text(MODULE)
        sys.path.insert(0, str(tmp_path))
        try:
            skate.init(num_cpus=2)
            program = importlib.import_module("skate_uses_ray")
            assert skate.get(program.version.remote()) == compat.RAY_VERSION
            assert skate.get(skate.remote(program.plain).remote()) == ("ray", True)

            @skate.remote
            def by_value() -> tuple[object, ...]:
                import ray as inner

                child = run("import ray.util.queue; print(ray.__version__)")
                return inner.get(inner.put(1)), inner.__version__, child.stdout.strip()

            assert skate.get(by_value.remote()) == (1, compat.RAY_VERSION, compat.RAY_VERSION)
        finally:
            sys.path.remove(str(tmp_path))
            sys.modules.pop("skate_uses_ray", None)

    def test_modules_travel_in_closures(self, as_ray: None) -> None:
        import ray
        import ray.util.queue

        skate.init(num_cpus=1)
        queue = ray.util.queue
        assert skate.get(skate.remote(lambda: (ray.__name__, queue.__name__)).remote()) == (
            "ray",
            "ray.util.queue",
        )
        assert pickle.loads(cloudpickle.dumps(ray)) is ray

    def test_a_worker_that_was_there_before(self) -> None:
        skate.init(num_cpus=1)
        assert skate.get(skate.remote(lambda: 1).remote()) == 1
        compat.install()
        try:
            actor = skate.remote(type("A", (), {"v": lambda self: __import__("ray").__version__}))  # type: ignore[var-annotated]
            assert skate.get(actor.remote().v.remote()) == compat.RAY_VERSION
        finally:
            skate.shutdown()
            compat.uninstall()


class TestOnAndOff:
    def test_off_leaves_nothing(self) -> None:
        before = [*sys.path], os.environ.get("PYTHONPATH"), [*sys.meta_path]
        compat.install()
        compat.install()
        import ray
        import ray.util.queue  # noqa: F401

        assert compat.is_installed()
        compat.uninstall()
        assert not compat.is_installed()
        assert ([*sys.path], os.environ.get("PYTHONPATH"), [*sys.meta_path]) == before
        assert not [name for name in sys.modules if name.partition(".")[0] == "ray"]

    def test_it_is_off_unless_asked_for(self) -> None:
        where = (
            "; import importlib.util as u; print(u.find_spec('ray').origin, 'ray' in sys.modules)"
        )
        assert run(f"import skate, sys{where}").stdout == run(f"import sys{where}").stdout

    def test_refused_when_ray_itself_is_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "ray", os)
        with pytest.raises(RuntimeError, match="imported already"):
            compat.install()
        assert not compat.is_installed()

    @pytest.mark.parametrize(
        ("variable", "value"), [("SKATE_ENGINE", "ray"), ("SKATE_ADDRESS", "auto")]
    )
    def test_refused_with_the_ray_engine(
        self, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
    ) -> None:
        monkeypatch.setenv(variable, value)
        with pytest.raises(RuntimeError, match=f"{variable}={value}.*ray engine"):
            compat.install()

    def test_a_cluster_is_not_joined_under_the_name_of_skate(self, as_ray: None) -> None:
        import ray

        with pytest.raises(ConnectionError, match="means skate"):
            ray.init(address="ray://host:10001")
        assert not ray.is_initialized()

    def test_the_cluster_that_is_found_by_itself_is_this_machine(self, as_ray: None) -> None:
        import ray

        with ray.init(address="auto", include_dashboard=True, log_to_driver=False):
            assert ray.get(ray.remote(lambda: 1).remote()) == 1


class TestShapes:
    """Programs use `ray` in more ways than by `import ray`."""

    def test_it_can_be_loaded_lazily(self, as_ray: None) -> None:
        spec = importlib.util.find_spec("ray")
        assert spec is not None
        assert spec.loader is not None
        loader = importlib.util.LazyLoader(spec.loader)
        spec.loader = loader
        module = importlib.util.module_from_spec(spec)
        sys.modules["ray"] = module
        loader.exec_module(module)
        assert module.get is skate.get
        assert sys.modules["ray"] is module
        import ray.util.queue

        assert module.util.queue is ray.util.queue

    def test_a_class_that_is_not_there_can_be_derived_from(self, as_ray: None) -> None:
        from ray.data.datasource import NoSuchThing, no_such_function

        class Mine(NoSuchThing):  # type: ignore[misc]
            pass

        with pytest.raises(NotImplementedError, match="NoSuchThing"):
            Mine()
        with pytest.raises(NotImplementedError, match="no_such_function"):
            no_such_function(1)

    def test_tracebacks_name_tasks_as_ray_does(self, as_ray: None) -> None:
        import ray

        ray.init(num_cpus=1)

        @ray.remote
        def fail() -> None:
            raise ValueError("no")

        @ray.remote
        def use(value: object) -> object:
            return value

        with pytest.raises(ValueError, match=r"ray::fail\(\)"):
            ray.get(fail.remote())
        with pytest.raises(ValueError, match=r"ray::use\(\).*\n.*ray::fail\(\)"):
            ray.get(use.remote(fail.remote()))

    def test_the_older_way_to_connect(self, as_ray: None) -> None:
        import ray

        with ray.client().namespace("mine").env({"env_vars": {"A": "1"}}).connect() as context:
            assert context.ray_version == ray.__version__
            assert ray.get_runtime_context().namespace == "mine"
        assert not ray.is_initialized()

    def test_addresses_that_programs_read(self, as_ray: None) -> None:
        import ray

        info = ray.init(num_cpus=1).address_info
        assert ray.get_runtime_context().gcs_address == info["gcs_address"] == info["address"]
        assert {"redis_address", "node_ip_address", "object_store_address"} <= set(info)
        assert {"raylet_socket_name", "webui_url", "session_dir", "node_id"} <= set(info)
        ray.shutdown()
        assert ray.init(address=info["address"])["address"] == info["address"]

    def test_the_backend_of_joblib(self, as_ray: None) -> None:
        from ray.util.joblib.ray_backend import RayBackend

        from skate.util.joblib._backend import SkateBackend

        assert RayBackend is SkateBackend


def test_what_is_listed_is_what_programs_may_use(as_ray: None) -> None:
    import inspect

    import ray
    import ray.util

    functions = {name for name, _ in inspect.getmembers(ray, inspect.isfunction)}
    assert functions >= {"get", "remote", "client", "java_function", "__getattr__"}
    assert not functions & {"lazy_names", "name_publicly", "profile", "register_class"}
    modules = inspect.getmembers(ray, inspect.ismodule)
    assert {module.__name__ for _, module in modules} >= {"ray.util"}
    assert all(module.__name__.startswith("ray.") for _, module in modules)
    strings = inspect.getmembers(ray, lambda value: isinstance(value, str))
    assert all(name.startswith("__") for name, _ in strings)


def test_what_is_of_java_says_so(as_ray: None) -> None:
    import ray

    with pytest.raises(NotImplementedError, match=r"Math\.add is of Java.*on Ray itself"):
        ray.java_function("Math", "add")
    with pytest.raises(NotImplementedError, match="the class Counter is of Java"):
        ray.java_actor_class("Counter")


def test_a_module_may_be_called_annotations(as_ray: None) -> None:
    import ray.util
    import ray.util.annotations

    assert ray.util.annotations.PublicAPI(print) is print


def test_memory_in_use_is_less_than_there_is(as_ray: None) -> None:
    from ray._private.utils import estimate_available_memory, get_system_memory, get_used_memory

    assert 0 < get_used_memory() < get_system_memory()
    assert 0 < estimate_available_memory() < get_system_memory()


def test_loggers_of_ray_count_for_those_of_skate(as_ray: None) -> None:
    import logging

    ray, tune = logging.getLogger("ray"), logging.getLogger("ray.tune")
    seen: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = seen.append  # type: ignore[method-assign]
    ray.addHandler(handler)
    try:
        ray.setLevel("ERROR")
        assert not notices.enabled(logging.WARNING)
        logging.getLogger("skate.util").warning("not seen")
        tune.setLevel("INFO")
        logging.getLogger("skate.tune.tuner").info("seen")
        skate.init(num_cpus=1, logging_level="CRITICAL")
        assert ray.level == logging.CRITICAL
    finally:
        ray.removeHandler(handler)
        ray.setLevel(logging.NOTSET)
        tune.setLevel(logging.NOTSET)
    assert [record.msg for record in seen] == ["seen"]


def test_levels_that_a_logger_has_inherited_are_forgotten() -> None:
    import logging

    own, ray = logging.getLogger("skate.data.some_module"), logging.getLogger("ray")
    ray.setLevel("ERROR")
    try:
        assert own.isEnabledFor(logging.WARNING)
        compat.install()
        assert not own.isEnabledFor(logging.WARNING)
        compat.uninstall()
        assert own.isEnabledFor(logging.WARNING)
    finally:
        ray.setLevel(logging.NOTSET)
        compat.uninstall()


def test_loggers_are_their_own_again() -> None:
    import logging

    compat.install()
    compat.uninstall()
    assert logging.getLogger("skate").parent is logging.root
    assert logging.getLogger("skate.tune").parent is logging.getLogger("skate")
