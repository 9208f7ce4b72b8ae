"""Applications that change while they are used: what restarts, what does not, nothing lost."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import serve
from skate.serve.exceptions import DeploymentUnavailableError, SkateServeError
from tests.support import PATIENCE, Tally, eventually

Run = Callable[..., Any]


def version(number: int, **options: Any) -> Any:
    """An application whose code differs by the number."""

    @serve.deployment(name="Model", **options)
    class Model:
        def __init__(self) -> None:
            self.config: Any = None

        def reconfigure(self, config: Any) -> None:
            if config == "bad":
                raise ValueError("a bad config")
            self.config = config

        async def __call__(self) -> tuple[int, Any, int]:
            return number, self.config, os.getpid()

    return Model.bind()


class Load:
    """Requests in a row, from several threads, until the block ends."""

    def __init__(self, handle: Any, threads: int = 4) -> None:
        self.answers: Counter[int] = Counter()
        self.errors: list[BaseException] = []
        self._handle = handle
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(threads)]

    def _ask(self) -> None:
        while not self._end.is_set():
            try:
                self.answers[self._handle.remote().result(timeout_s=PATIENCE)[0]] += 1
            except Exception as error:
                self.errors.append(error)

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        eventually(lambda: sum(self.answers.values()) > 10)
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(PATIENCE)


def pids(handle: Any, count: int) -> set[int]:
    """The processes that answer, once so many have."""
    found: set[int] = set()

    def ask() -> bool:
        found.add(handle.remote().result()[2])
        return len(found) == count

    eventually(ask)
    return found


@pytest.mark.parametrize("reserved", [{}, {"num_cpus": 1}])
def test_new_code_replaces_replicas_and_loses_no_request(
    run_locally: Run, reserved: dict[str, float]
) -> None:
    options = {"num_replicas": 2, "ray_actor_options": reserved}
    handle = run_locally(version(1, **options))
    with Load(handle) as load:
        run_locally(version(2, **options))
        eventually(lambda: load.answers[2] > 10)
    assert load.errors == []
    assert set(load.answers) == {1, 2}
    assert handle.remote().result()[0] == 2


def test_the_same_code_runs_again(run_locally: Run, tmp_path: Path) -> None:
    """Train, overwrite the file, run again: the new model is served."""
    path = tmp_path / "model"

    @serve.deployment
    class Model:
        def __init__(self) -> None:
            self.model = path.read_text()

        def __call__(self) -> str:
            return self.model

    app = Model.bind()
    for model in ("first", "second"):
        path.write_text(model)
        assert run_locally(app).remote().result() == model


@pytest.mark.parametrize("how", ["asked", "version"])
def test_the_same_code_keeps_its_replicas_if_asked_to(run_locally: Run, how: str) -> None:
    kept: dict[str, Any] = {"keep_unchanged": True} if how == "asked" else {}
    named: dict[str, Any] = {"version": "one"} if how == "version" else {}
    handle = run_locally(version(1, **named))
    pid = handle.remote().result()[2]
    run_locally(version(1, **named), **kept)
    assert handle.remote().result() == (1, None, pid)
    run_locally(version(1, user_config={"a": 1}, max_ongoing_requests=7, **named), **kept)
    assert handle.remote().result() == (1, {"a": 1}, pid)
    run_locally(version(1, **named | ({"version": "two"} if named else {})))
    assert handle.remote().result()[2] != pid


def test_the_number_of_replicas_changes(run_locally: Run) -> None:
    handle = run_locally(version(1, num_replicas=3))
    before = pids(handle, 3)
    run_locally(version(1, num_replicas=1), keep_unchanged=True)
    assert _states() == {"RUNNING": 1}
    assert handle.remote().result()[2] in before


def _states(name: str = "Model") -> dict[str, int]:
    deployments = serve.status().applications["default"].deployments
    return {state.value: count for state, count in deployments[name].replica_states.items()}


def test_code_that_does_not_start_leaves_the_old_one_in_place(run_locally: Run) -> None:
    handle = run_locally(version(1))

    @serve.deployment(name="Model")
    class Broken:
        def __init__(self) -> None:
            raise ValueError("cannot be made")

    with pytest.raises(RuntimeError, match="cannot be made"):
        run_locally(Broken.bind())
    status = serve.status().applications["default"]
    assert status.status == "DEPLOY_FAILED"
    assert (
        "3 replicas, one after the other, did not come up" in status.deployments["Model"].message
    )
    assert handle.remote().result()[0] == 1
    run_locally(version(2))
    assert handle.remote().result()[0] == 2
    assert serve.status().applications["default"].status == "RUNNING"


def test_code_that_never_ran_fails_its_requests(run_locally: Run) -> None:
    @serve.deployment(max_constructor_retry_count=1)
    class Broken:
        def __init__(self) -> None:
            raise ValueError("cannot be made")

    with pytest.raises(RuntimeError, match="1 replicas, one after the other"):
        run_locally(Broken.bind())
    with pytest.raises(DeploymentUnavailableError, match="cannot be made"):
        serve.get_app_handle("default").remote().result(timeout_s=PATIENCE)


def test_a_config_that_is_refused(run_locally: Run) -> None:
    handle = run_locally(version(1, user_config="fine"))
    with pytest.raises(RuntimeError, match="a bad config"):
        run_locally(version(1, user_config="bad"))
    run_locally(version(1, user_config="better"))
    assert handle.remote().result()[1] == "better"


def test_a_config_for_nobody(run_locally: Run) -> None:
    @serve.deployment(user_config={"a": 1}, max_constructor_retry_count=1)
    def function() -> None: ...

    with pytest.raises(RuntimeError, match="reconfigure"):
        run_locally(function.bind())


def test_deployments_that_an_application_no_longer_has_end(run_locally: Run) -> None:
    @serve.deployment
    class Front:
        def __init__(self, *others: Any) -> None: ...

    @serve.deployment
    class Part: ...

    run_locally(Front.bind(Part.bind()))
    run_locally(Front.bind())
    eventually(lambda: set(serve.status().applications["default"].deployments) == {"Front"})


def test_applications_are_apart(run_locally: Run, tally: Tally) -> None:
    @serve.deployment
    class Model:
        def __init__(self, name: str) -> None:
            self.name = name

        def __call__(self) -> str:
            return self.name

        def __del__(self) -> None:
            tally.add(self.name)

    one = run_locally(Model.bind("one"), name="one", route_prefix="/one")
    two = run_locally(Model.bind("two"), name="two", route_prefix="/two")
    assert (one.remote().result(), two.remote().result()) == ("one", "two")
    with pytest.raises(SkateServeError, match=r"Prefix /one is being used by application .one."):
        run_locally(Model.bind("three"), name="three", route_prefix="/one")
    serve.delete("one")
    assert tally.words() == ["one"]
    assert list(serve.status().applications) == ["two"]
    assert two.remote().result() == "two"
    with pytest.raises(DeploymentUnavailableError, match="deleted"):
        one.remote().result()
    with pytest.raises(SkateServeError, match="Application 'one' does not exist"):
        serve.get_app_handle("one")


def waiting_until(begun: Any, go: Any) -> Any:
    """A deployment whose requests say that they have begun, and end when they may."""

    @serve.deployment
    def slow() -> str:
        begun.set()
        go.wait()
        return "finished"

    return slow


def test_requests_are_finished_before_a_replica_ends(
    run_locally: Run, flag: Callable[[str], Any]
) -> None:
    begun, go = flag("begun"), flag("go")
    slow = waiting_until(begun, go)
    response = run_locally(slow.bind()).remote()
    begun.wait()
    serve.delete("default", _blocking=False)
    eventually(lambda: serve.status().applications["default"].status == "DELETING")
    go.set()
    assert response.result() == "finished"
    eventually(lambda: not serve.status().applications)


def test_an_update_returns_when_the_old_replicas_have_ended(
    run_locally: Run, flag: Callable[[str], Any]
) -> None:
    begun, go = flag("begun"), flag("go")
    slow = waiting_until(begun, go)
    handle = run_locally(slow.bind())
    response = handle.remote()
    begun.wait()
    with ThreadPoolExecutor(1) as pool:
        update = pool.submit(run_locally, slow.bind())
        eventually(lambda: "finish what they have" in _message_of("slow"))
        assert not update.done()
        go.set()
        assert response.result() == "finished"
        update.result()
    assert _states("slow") == {"RUNNING": 1}


def _message_of(deployment: str) -> str:
    return serve.status().applications["default"].deployments[deployment].message


def test_what_this_machine_can_never_give(run_locally: Run) -> None:
    with pytest.raises(RuntimeError, match=r"asks for .*'CPU': 64"):
        run_locally(version(1, ray_actor_options={"num_cpus": 64}))
    with pytest.raises(RuntimeError, match="more than this machine has"):
        run_locally(version(1, placement_group_bundles=[{"CPU": 64}]))


def test_a_replica_has_a_placement_group_of_its_own(run_locally: Run) -> None:
    @serve.deployment(
        ray_actor_options={"num_cpus": 1}, placement_group_bundles=[{"CPU": 1}, {"CPU": 1}]
    )
    def child() -> bool:
        @skate.remote(num_cpus=1)
        def task() -> bool:
            return skate.util.get_current_placement_group() is not None

        return bool(skate.get(task.remote()))

    assert run_locally(child.bind()).remote().result()
    assert "CPU" not in skate.available_resources()
    serve.delete("default")
    eventually(lambda: skate.available_resources().get("CPU") == 2)
