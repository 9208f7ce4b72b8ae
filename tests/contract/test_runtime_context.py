"""get_runtime_context() in the driver, in a task and in an actor."""

import warnings

import pytest

import skate

pytestmark = pytest.mark.usefixtures("engine")


def facts():
    context = skate.get_runtime_context()
    return {
        "job": context.get_job_id(),
        "node": context.get_node_id(),
        "worker": context.get_worker_id(),
        "task": context.get_task_id(),
        "task_name": context.get_task_name(),
        "function": context.get_task_function_name(),
        "actor": context.get_actor_id(),
        "actor_name": context.get_actor_name(),
        "namespace": context.namespace,
    }


@skate.remote
def task_facts():
    return facts()


@skate.remote
class Actor:
    def facts(self):
        return facts()

    def resources(self):
        return skate.get_runtime_context().get_assigned_resources()


def test_the_driver_is_in_no_task():
    mine = facts()
    assert [mine[k] for k in ("task", "task_name", "function", "actor", "actor_name")] == [
        None
    ] * 5
    assert mine["job"]
    assert mine["node"]
    assert mine["worker"]
    assert mine["namespace"]


def test_a_task():
    mine, its = facts(), skate.get(task_facts.remote())
    assert {k: its[k] for k in ("job", "node", "namespace")} == {
        k: mine[k] for k in ("job", "node", "namespace")
    }
    assert its["task_name"].endswith("task_facts")
    assert its["function"] == f"{__name__}.task_facts"
    assert its["actor"] is None
    assert its["actor_name"] is None


def test_every_task_has_its_own_id():
    ids = {its["task"] for its in skate.get([task_facts.remote() for _ in range(5)])}
    assert len(ids) == 5
    assert None not in ids


def test_an_actor():
    actor = Actor.options(name="known").remote()
    its = skate.get(actor.facts.remote())
    assert its["actor"] == actor._actor_id.hex()
    assert its["actor_name"] == "known"
    assert its["task_name"] == "Actor.facts"
    assert its["function"] == f"{__name__}.Actor.facts"
    assert its["task"] is not None


def test_an_actor_without_a_name():
    actor = Actor.remote()
    assert skate.get(actor.facts.remote())["actor_name"] in (None, "")


def test_assigned_resources():
    @skate.remote(num_cpus=0.5)
    def resources():
        return skate.get_runtime_context().get_assigned_resources()

    assert skate.get(resources.remote()) == {"CPU": 0.5}
    actor = Actor.options(num_cpus=1).remote()
    assert skate.get(actor.resources.remote()) == {"CPU": 1}


def test_the_current_actor_exists_only_in_an_actor():
    with pytest.raises(RuntimeError):
        skate.get_runtime_context().current_actor  # noqa: B018

    @skate.remote
    def ask():
        return skate.get_runtime_context().current_actor

    with pytest.raises(RuntimeError):
        skate.get(ask.remote())


def test_all_facts_at_once():
    everything = skate.get_runtime_context().get()
    assert everything["job_id"].hex() == skate.get_runtime_context().get_job_id()
    assert everything["node_id"].hex() == skate.get_runtime_context().get_node_id()


@skate.remote
class Asked:
    def id_as_object(self, name):
        """Return the warnings of it, and the id."""
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = getattr(skate.get_runtime_context(), name).hex()
        return [str(one.message) for one in warned], found

    def id(self, name):
        return getattr(skate.get_runtime_context(), name)()


@pytest.mark.parametrize("name", ["job_id", "node_id", "task_id", "actor_id"])
def test_ids_as_objects_are_deprecated(name):
    actor = Asked.remote()
    said, found = skate.get(actor.id_as_object.remote(name))
    assert f"Use get_{name}() instead" in said[0]
    assert len(found) == len(skate.get(actor.id.remote(f"get_{name}")))


def test_accelerators():
    assert skate.get_runtime_context().get_accelerator_ids()["GPU"] == []


def test_capture_of_children_is_off():
    context = skate.get_runtime_context()
    assert context.should_capture_child_tasks_in_placement_group is False


@pytest.mark.init(namespace="mine")
def test_the_namespace_of_the_driver():
    assert skate.get_runtime_context().namespace == "mine"
    assert skate.get(task_facts.remote())["namespace"] == "mine"


def test_the_session_has_a_name():
    assert skate.get_runtime_context().get_session_name()


def test_the_timeline_lists_what_ran(tmp_path):
    skate.get([task_facts.remote() for _ in range(3)])
    events = skate.timeline()
    assert isinstance(events, list)
    skate.timeline(str(tmp_path / "trace.json"))
    assert (tmp_path / "trace.json").exists()


def test_functions_of_all_kinds_of_actors_are_named_with_their_module():
    @skate.remote
    class Plain:
        def __init__(self):
            self.constructor = skate.get_runtime_context().get_task_function_name()

        def names(self):
            return self.constructor, skate.get_runtime_context().get_task_function_name()

    @skate.remote
    class Async:
        async def name(self):
            return skate.get_runtime_context().get_task_function_name()

    names = skate.get(Plain.remote().names.remote())
    assert names == (f"{__name__}.Plain.__init__", f"{__name__}.Plain.names")
    # Of async actors it is the qualified name, as with coroutines everywhere.
    here = "test_functions_of_all_kinds_of_actors_are_named_with_their_module.<locals>"
    assert skate.get(Async.remote().name.remote()) == f"{__name__}.{here}.Async.name"
