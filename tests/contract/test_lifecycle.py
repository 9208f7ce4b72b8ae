"""init and shutdown: once, twice, not at all, in threads and event loops."""

import asyncio
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

import skate
from skate.engine import installed_engine
from tests.support import eventually, local_only


@skate.remote
def identity(x):
    return x


def test_start_and_stop(start):
    assert not skate.is_initialized()
    start(num_cpus=2)
    assert skate.is_initialized()
    assert skate.get(identity.remote(1)) == 1
    skate.shutdown()
    assert not skate.is_initialized()


def test_start_again(start):
    for i in range(3):
        start(num_cpus=2)
        assert skate.get(identity.remote(i)) == i
        skate.shutdown()


def test_stop_twice(start):
    start(num_cpus=1)
    skate.shutdown()
    skate.shutdown()


def test_stop_without_start(engine_name):
    skate.shutdown()


@pytest.mark.differs_from_ray("Ray refuses, which troubles notebooks")
def test_start_twice_with_the_same_arguments(start):
    start(num_cpus=2)
    ref = skate.put("still here")
    start(num_cpus=2)
    assert skate.get(ref) == "still here"


def test_start_twice_on_purpose(start, engine_name):
    start(num_cpus=2)
    ref = skate.put("still here")
    skate.init(ignore_reinit_error=True)
    assert skate.get(ref) == "still here"


@pytest.mark.differs_from_ray("one suite, two libraries: the engine has no name in Ray")
def test_start_twice_with_other_arguments_is_an_error(start):
    start(num_cpus=2)
    with pytest.raises((RuntimeError, ValueError)):
        start(num_cpus=1)


@pytest.mark.differs_from_ray("Ray has no engines")
@pytest.mark.differs_from_ray("Ray takes it for an accident")
def test_start_again_inside_a_task_with_the_same_arguments(start):
    @skate.remote
    def again(**arguments):
        skate.init(**arguments)
        return skate.get(identity.remote("inside"))

    start(num_cpus=2)
    assert skate.get(again.remote(num_cpus=2), timeout=60) == "inside"
    assert skate.get(again.remote(), timeout=60) == "inside"


def test_an_unknown_engine_is_refused():
    with pytest.raises(ValueError, match="inline"):
        skate.init(engine="steam")


@pytest.mark.differs_from_ray("Ray's local mode is gone")
def test_local_mode_is_the_inline_engine():
    skate.init(local_mode=True)
    assert skate.get(identity.remote(1)) == 1
    assert skate.get(skate.remote(threading.get_ident).remote()) == threading.get_ident()
    skate.shutdown()


@pytest.mark.parametrize("arguments", [{"num_cpus": -1}, {"num_gpus": -1}, {"nonsense": 1}])
def test_arguments_that_make_no_sense_are_refused(start, arguments):
    with pytest.raises((ValueError, TypeError, RuntimeError)):
        start(**arguments)
    assert not skate.is_initialized()


def test_the_context_manager(start):
    with start(num_cpus=2):
        assert skate.get(identity.remote(1)) == 1
    assert not skate.is_initialized()


def test_the_context_of_the_session(start):
    context = start(num_cpus=2)
    assert context.address_info["node_id"] == skate.get_runtime_context().get_node_id()
    assert hasattr(context, "dashboard_url")


@pytest.mark.differs_from_ray("starting Ray by itself takes all CPUs and seconds")
def test_the_first_use_starts_skate():
    assert not skate.is_initialized()
    assert skate.get(identity.remote(1)) == 1
    assert skate.is_initialized()
    skate.shutdown()


@pytest.mark.differs_from_ray("starting Ray by itself takes all CPUs and seconds")
@pytest.mark.parametrize(
    "use", [lambda: skate.put(1), lambda: skate.remote(object).remote(), lambda: skate.nodes()]
)
def test_many_things_start_skate(use):
    use()
    assert skate.is_initialized()
    skate.shutdown()


@pytest.mark.differs_from_ray("starting Ray by itself takes all CPUs and seconds")
def test_the_first_use_may_come_from_several_threads(engine_name, monkeypatch):
    monkeypatch.setenv("SKATE_ENGINE", engine_name)
    together = threading.Barrier(6)

    def use(i):
        together.wait(60)
        return skate.get(identity.remote(i), timeout=60)

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(use, range(6))) == list(range(6))
    skate.shutdown()  # of a second engine, something would be left


def test_inside_a_running_event_loop(start):
    async def main():
        start(num_cpus=2)
        assert skate.get(identity.remote(1)) == 1
        assert await identity.remote(2) == 2
        skate.shutdown()

    asyncio.run(main())


@pytest.mark.differs_from_ray("Ray ends the whole program")
def test_started_in_a_thread_used_in_another(start):
    thread = threading.Thread(target=lambda: start(num_cpus=2))
    thread.start()
    thread.join()
    assert skate.get(identity.remote(1)) == 1
    skate.shutdown()


def test_stopped_in_another_thread(start):
    start(num_cpus=2)
    assert skate.get(identity.remote(1)) == 1
    thread = threading.Thread(target=skate.shutdown)
    thread.start()
    thread.join()
    assert not skate.is_initialized()


def test_an_old_reference_is_a_clear_error(start):
    start(num_cpus=2)
    old = skate.put(1)
    skate.shutdown()
    start(num_cpus=2)
    for use in (lambda: skate.get(old, timeout=60), lambda: skate.get(identity.remote(old), 20)):
        with pytest.raises(Exception):  # noqa: B017, PT011
            use()
    assert skate.get(identity.remote("new")) == "new"


@pytest.mark.differs_from_ray("Ray speaks of owners")
def test_the_error_of_an_old_reference_names_shutdown(start):
    start(num_cpus=2)
    old = skate.put(1)
    skate.shutdown()
    start(num_cpus=2)
    with pytest.raises(skate.exceptions.RayError, match=r"shutdown|session"):
        skate.get(old)


def test_an_old_reference_inside_an_argument_is_a_clear_error(start):
    @skate.remote
    def inside(refs):
        return skate.get(refs[0], timeout=60)

    start(num_cpus=2)
    old = skate.put(1)
    skate.shutdown()
    start(num_cpus=2)
    with pytest.raises((skate.exceptions.RayError, ValueError)) as info:
        skate.get(inside.remote([old]), timeout=60)
    assert not isinstance(info.value, TimeoutError)
    assert skate.get(identity.remote("new")) == "new"


def test_an_old_actor_is_a_clear_error(start):
    @skate.remote
    class Actor:
        def hello(self):
            return "hello"

    start(num_cpus=2)
    actor = Actor.remote()
    assert skate.get(actor.hello.remote()) == "hello"
    skate.shutdown()
    start(num_cpus=2)
    with pytest.raises(Exception):  # noqa: B017, PT011
        skate.get(actor.hello.remote(), timeout=60)


def _uses_of_what_has_ended(start):
    """Ways to use a reference, a handle and a group whose session has been shut down."""

    @skate.remote
    class Actor:
        def hello(self):
            return "hello"

    start(num_cpus=2)
    old, actor = skate.put(1), Actor.remote()
    group = skate.util.placement_group([{"CPU": 1}])
    skate.get(group.ready(), timeout=60)
    assert skate.get(actor.hello.remote(), timeout=60) == "hello"
    skate.shutdown()
    return {
        "get": lambda: skate.get(old),
        "get of several": lambda: skate.get([old]),
        "wait": lambda: skate.wait([old], timeout=0),
        "cancel": lambda: skate.cancel(old),
        "call": lambda: actor.hello.remote(),
        "kill": lambda: skate.kill(actor),
        "ready": lambda: group.ready(),
    }


_OF_HANDLES = ("call", "kill")


@pytest.mark.differs_from_ray("Ray begins a session before it says so")
def test_what_has_ended_with_its_session_begins_no_other_one(start):
    for name, use in _uses_of_what_has_ended(start).items():
        with pytest.raises(skate.exceptions.RayError, match="shut down") as info:
            use()
        kind = "ActorHandleNotFoundError" if name in _OF_HANDLES else "StaleReferenceError"
        assert type(info.value).__name__ == kind, name
        assert isinstance(info.value, ValueError), name
        assert not skate.is_initialized(), name


@pytest.mark.differs_from_ray("Ray's errors are of various kinds")
def test_what_has_ended_is_told_from_what_the_next_session_has(start):
    uses = _uses_of_what_has_ended(start)
    start(num_cpus=2)
    new = skate.put("new")
    for name, use in uses.items():
        kind = "ActorHandleNotFoundError" if name in _OF_HANDLES else "StaleReferenceError"
        with pytest.raises(getattr(skate.exceptions, kind)):
            skate.get(use(), timeout=60)
    assert skate.get(new) == "new"


@pytest.mark.differs_from_ray("Ray begins a session for it")
def test_a_group_that_has_ended_with_its_session_needs_no_removal(start):
    start(num_cpus=2)
    group = skate.util.placement_group([{"CPU": 1}])
    skate.shutdown()
    skate.util.remove_placement_group(group)
    assert not skate.is_initialized()


def test_a_remote_function_survives_a_restart(start):
    for i in range(2):
        start(num_cpus=2)
        assert skate.get(identity.remote(i)) == i
        skate.shutdown()


def test_old_references_can_be_dropped_after_shutdown(start):
    start(num_cpus=2)
    refs = [identity.remote(i) for i in range(10)]
    skate.shutdown()
    del refs


def test_shutdown_with_work_under_way(start, flag):
    @skate.remote
    def quick(i):
        return i

    start(num_cpus=2)
    for i in range(200):
        quick.remote(i)
    skate.shutdown()
    assert not skate.is_initialized()


@local_only
def test_who_waits_while_the_session_is_shut_down_is_told_so(start, flag):
    @skate.remote
    def wait_for(never):
        never.wait()

    start(num_cpus=2)
    ref = wait_for.remote(flag("never"))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(skate.get, ref)
        eventually(lambda: installed_engine()._blocked)
        skate.shutdown()
        error = waiting.exception(timeout=60)
    assert isinstance(error, skate.exceptions.ObjectLostError)
    assert str(error) == f"Object {ref.hex()} cannot be had: the session was shut down."


def test_values_outlive_the_session(start):
    np = pytest.importorskip("numpy")
    start(num_cpus=2)
    array = skate.get(skate.put(np.arange(1_000_000)))
    skate.shutdown()
    assert array[-1] == 999_999


@pytest.mark.differs_from_ray("harmless there, and some warn")
@pytest.mark.parametrize(
    "arguments",
    [
        {"include_dashboard": False},
        {"dashboard_port": 8265},
        {"log_to_driver": False},
        {"ignore_reinit_error": True},
        {"object_store_memory": 10**8},
        {"logging_level": "ERROR"},
        {"_temp_dir": None},
    ],
    ids=str,
)
def test_arguments_that_ray_programs_use(start, arguments, request):
    logger = logging.getLogger("skate")
    request.addfinalizer(partial(logger.setLevel, logger.level))  # `logging_level` is for good
    start(**arguments)
    assert skate.get(identity.remote(1)) == 1


def test_an_empty_namespace_is_refused(start):
    with pytest.raises(ValueError, match="namespace"):
        start(namespace="")


def test_an_unknown_parameter_of_init_is_refused(start):
    with pytest.raises(RuntimeError, match="unheard_of"):
        start(unheard_of=1)


@local_only
@pytest.mark.parametrize(
    "spelling",
    [
        lambda place: {"object_spilling_directory": place},
        lambda place: {"_temp_dir": place},
        lambda place: {
            "_system_config": {
                "object_spilling_config": json.dumps(
                    {"type": "filesystem", "params": {"directory_path": place}}
                )
            }
        },
    ],
    ids=["parameter", "temp_dir", "config"],
)
def test_where_values_are_spilled_in_words_of_ray(start, tmp_path, spelling):
    np = pytest.importorskip("numpy")
    start(object_store_memory=10**7, **spelling(str(tmp_path)))
    refs = [skate.put(np.arange(10**6) + i) for i in range(3)]
    assert [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [skate.get(ref)[0] for ref in refs] == [0, 1, 2]


@local_only
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"_temp_dir": "relative"}, "an absolute path"),
        *(
            ({"_system_config": {"object_spilling_config": config}}, "one of filesystem")
            for config in (
                '{"type": "abc"}',
                '{"type": "filesystem", "params": {"random_arg": 1}}',
                '{"type": "filesystem", "params": {"buffer_size": "abc"}}',
                "[]",
                "no JSON",
                7,
            )
        ),
    ],
    ids=str,
)
def test_places_to_spill_that_cannot_be(start, arguments, words):
    with pytest.raises(ValueError, match=words):
        start(**arguments)
    assert not skate.is_initialized()
