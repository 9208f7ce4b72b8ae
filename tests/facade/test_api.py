"""The functions of the façade: what they check before the engine is asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

import skate
from tests.support import local_only

inline = pytest.mark.engines("inline")


@skate.remote
def identity(x: Any) -> Any:
    return x


@inline
class TestInit:
    def test_the_context(self, start: Any) -> None:
        context = start(num_cpus=2)
        assert context["address"] == "inline"
        assert dict(context) == context.address_info
        assert context.dashboard_url == ""
        assert context.python_version == ".".join(map(str, sys.version_info[:3]))

    def test_it_can_be_a_context_manager(self, start: Any) -> None:
        with start():
            assert skate.is_initialized()
        assert not skate.is_initialized()

    def test_a_second_call_with_nothing_new(self, start: Any) -> None:
        first = start(num_cpus=2)
        assert dict(skate.init()) == dict(first)
        assert dict(skate.init(num_cpus=2)) == dict(first)

    def test_a_second_call_with_something_else(self, start: Any) -> None:
        start(num_cpus=2)
        with pytest.raises(RuntimeError, match=r"num_cpus=3.*ignore_reinit_error"):
            skate.init(num_cpus=3)
        skate.init(num_cpus=3, ignore_reinit_error=True)
        assert skate.cluster_resources()["CPU"] == 2

    def test_a_second_call_shows_no_values_of_environment_variables(self, start: Any) -> None:
        start(num_cpus=2)
        wanted = {
            "env_vars": {"TOKEN": "secret", "MODE": "fast"},
            "config": {"eager_install": True},
        }
        with pytest.raises(RuntimeError, match=r"TOKEN.*MODE.*eager_install") as caught:
            skate.init(runtime_env=wanted)
        assert "secret" not in str(caught.value)
        assert "fast" not in str(caught.value)

    @pytest.mark.parametrize("wrong", ["secret", {"TOKEN": b"secret"}])
    def test_wrong_environment_variables_are_not_shown(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match=r"env_vars.*(str|bytes)") as caught:
            skate.init(runtime_env={"env_vars": wrong})
        assert "secret" not in str(caught.value)

    def test_after_shutdown_everything_is_new(self, start: Any) -> None:
        start(num_cpus=2)
        skate.shutdown()
        skate.shutdown()
        start(num_cpus=3)
        assert skate.cluster_resources()["CPU"] == 3

    def test_local_mode_is_inline(self, start: Any) -> None:
        assert skate.init(local_mode=True)["address"] == "inline"
        skate.shutdown()
        with pytest.raises(ValueError, match="local_mode"):
            skate.init(local_mode=True, engine="local")

    def test_the_engine_by_environment(self, start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SKATE_ENGINE", "inline")
        assert skate.get(identity.remote(1)) == 1
        assert skate.init()["address"] == "inline"
        skate.shutdown()

    @pytest.mark.parametrize("address", ["auto", "ray://host:10001", "10.0.0.1:6379"])
    def test_a_cluster_says_itself_what_it_has(self, address: str) -> None:
        with pytest.raises(ValueError, match=r"num_cpus=2\.0.*cluster"):
            skate.init(address, num_cpus=2)

    def test_the_address_by_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SKATE_ADDRESS", "host:6379")
        with pytest.raises(ValueError, match=r"num_gpus=1\.0.*cluster"):
            skate.init(num_gpus=1)

    @pytest.mark.parametrize(
        ("given", "error", "words"),
        [
            ({"engine": "lokal"}, ValueError, "'local'"),
            ({"num_cpus": -1}, ValueError, "num_cpus"),
            ({"num_cpu": 1}, TypeError, "num_cpus"),
            ({"resources": {"CPU": 1}}, ValueError, "num_cpus"),
            ({"runtime_env": {"image_uri": "x"}}, ValueError, "image_uri"),
            ({"job_config": object()}, TypeError, "job_config"),
            ({"object_store_memory": 0}, ValueError, "object_store_memory takes at least 1,048,"),
            ({"object_store_memory": 1}, ValueError, "object_store_memory takes at least 1,048,"),
        ],
    )
    def test_what_is_refused(self, given: dict[str, Any], error: type, words: str) -> None:
        with pytest.raises(error, match=words):
            skate.init(**given)
        assert not skate.is_initialized()

    @local_only
    @pytest.mark.parametrize("given", ["0", "1", "false", "True", None])
    def test_output_of_workers_by_the_environment(
        self, start: Any, given: str | None, monkeypatch: Any, capfd: Any
    ) -> None:
        if given is not None:
            monkeypatch.setenv("RAY_LOG_TO_DRIVER", given)
        start(num_cpus=1)
        skate.get(skate.remote(print).remote("heard"))
        skate.shutdown()
        assert ("heard" in capfd.readouterr().out) is (given not in ("0", "false"))

    def test_harmless_parameters_of_ray(self, start: Any) -> None:
        start(
            include_dashboard=False,
            dashboard_port=8265,
            configure_logging=False,
            log_to_driver=False,
            _redis_password="x",
            _system_config={"max_direct_call_object_size": 100},
            _memory=10**9,
            object_store_memory=10**8,
        )
        resources = skate.cluster_resources()
        assert (resources["memory"], resources["object_store_memory"]) == (10**9, 10**8)

    def test_parameters_of_ray_before_its_first_version(self, start: Any, tmp_path: Path) -> None:
        start(
            memory=10**9,
            temp_dir=str(tmp_path),
            redis_max_memory=10**8,
            plasma_directory="/dev/shm",
            load_code_from_local=True,
        )
        assert skate.cluster_resources()["memory"] == 10**9


@inline
@pytest.mark.usefixtures("engine")
class TestObjects:
    def test_get_takes_references_only(self) -> None:
        ref = skate.put(1)
        assert skate.get([]) == []
        with pytest.raises(ValueError, match="int"):
            skate.get(1)
        with pytest.raises(ValueError, match="tuple"):
            skate.get((ref,))
        with pytest.raises(TypeError, match=r"item 1.*flatten"):
            skate.get([ref, [ref]])  # type: ignore[arg-type]

    def test_get_of_a_handle_says_what_to_do(self) -> None:
        handle = skate.remote(type("A", (), {})).remote()
        with pytest.raises(ValueError, match="methods"):
            skate.get(handle)

    def test_get_of_a_generator_is_the_generator(self) -> None:
        @skate.remote
        def numbers() -> Any:
            yield 1

        stream = numbers.remote()
        assert skate.get(stream) is stream

    def test_put_of_a_reference(self) -> None:
        ref = skate.put(1)
        with pytest.raises(TypeError, match=r"\[ref\]"):
            skate.put(ref)
        assert skate.get(skate.put([ref])) == [ref]

    def test_an_owner_is_an_actor(self) -> None:
        @skate.remote
        class Owner:
            pass

        ref = skate.put(1, _owner=Owner.remote())
        assert skate.get(ref) == 1
        with pytest.raises(TypeError, match="_owner takes the handle of an actor"):
            skate.put(1, _owner=ref)  # type: ignore[arg-type]

    def test_wait_checks_what_it_is_given(self) -> None:
        ref, other = skate.put(1), skate.put(2)
        with pytest.raises(TypeError, match=r"\[ref\]"):
            skate.wait(ref)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="tuple"):
            skate.wait((ref,))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="item 1 is int"):
            skate.wait([ref, 1])  # type: ignore[type-var]
        with pytest.raises(ValueError, match="duplicates"):
            skate.wait([ref, ref])
        with pytest.raises(ValueError, match="1 to 2"):
            skate.wait([ref, other], num_returns=3)
        with pytest.raises(ValueError, match="1 to 1"):
            skate.wait([ref], num_returns=0)
        with pytest.raises(ValueError, match="timeout"):
            skate.wait([ref], timeout=-1)
        assert skate.wait([]) == ([], [])

    def test_wait_over_references_and_generators(self) -> None:
        @skate.remote
        def numbers() -> Any:
            yield 1

        stream, ref = numbers.remote(), skate.put(1)
        assert skate.wait([stream, ref], num_returns=2) == ([stream, ref], [])
        assert skate.get(next(stream)) == 1

    def test_kill_and_cancel_take_the_right_thing(self) -> None:
        ref = skate.put(1)
        with pytest.raises(ValueError, match=r"cancel\("):
            skate.kill(ref)  # type: ignore[arg-type]
        handle = skate.remote(type("A", (), {})).remote()
        with pytest.raises(TypeError, match=r"kill\("):
            skate.cancel(handle)
        with pytest.raises(ValueError, match="name"):
            skate.get_actor("")

    def test_timeline_can_be_written(self, tmp_path: Path) -> None:
        skate.get(identity.remote(1))
        file = tmp_path / "trace.json"
        assert skate.timeline(str(file)) is None
        assert "identity" in [event["name"] for event in json.loads(file.read_text())]


def test_lazy_parts_of_the_package() -> None:
    assert skate.exceptions.RayError.__module__ == "skate.exceptions"
    assert skate.util.ActorPool.__name__ == "ActorPool"
    assert skate.runtime_env.RuntimeEnv() == {}
    assert "util" in dir(skate)
    with pytest.raises(AttributeError, match="no_such_part"):
        skate.no_such_part  # noqa: B018
    for name in skate.__all__:
        assert getattr(skate, name) is not None


def test_what_a_lazy_part_itself_misses_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

    monkeypatch.setattr("importlib.import_module", broken)
    monkeypatch.delattr(skate, "util", raising=False)
    with pytest.raises(ModuleNotFoundError, match="pyarrow"):
        skate.util  # noqa: B018


def test_nothing_but_init_starts_a_session_where_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @skate.remote
    def task() -> None: ...

    @skate.remote
    class Actor: ...

    monkeypatch.setenv("RAY_ENABLE_AUTO_CONNECT", "0")
    uses: list[Callable[[], object]] = [
        task.remote,
        Actor.remote,
        skate.nodes,
        skate.get_gpu_ids,
        lambda: skate.put(1),
        lambda: skate.get([]),
        lambda: skate.wait([]),
        lambda: skate.get_actor("name"),
        lambda: skate.kill(cast(Any, None)),
        lambda: skate.cancel(cast(Any, None)),
    ]
    for use in uses:
        with pytest.raises(skate.exceptions.RaySystemError, match="has not been started yet"):
            use()
    assert not skate.is_initialized()
    with skate.init(engine="inline"):
        assert skate.get([]) == []


def test_the_environment_says_what_a_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", '{"CPU": 3, "memory": 1e9, "mine": 2}')
    with skate.init(engine="inline", num_cpus=1, resources={"mine": 1, "other": 4}):
        has = skate.cluster_resources()
    assert {name: has[name] for name in ("CPU", "mine", "other", "memory")} == {
        "CPU": 3,
        "mine": 2,
        "other": 4,
        "memory": 1e9,
    }
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", "four")
    with pytest.raises(ValueError, match=r"takes an object in JSON.*'four'"):
        skate.init(engine="inline")
