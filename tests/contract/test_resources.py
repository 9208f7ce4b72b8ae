"""What a task may use, and how many run at a time."""

import os
import time

import pytest

import skate
from skate.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from tests.support import eventually, parallel

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
def identity(x):
    return x


@skate.remote
def visit(tally, resources=None):
    """Note how many are inside at the same time."""
    tally.add("+")
    time.sleep(0.01)
    inside = tally.words().count("+") - tally.words().count("-")
    tally.add("-")
    return inside


# -- accounting -----------------------------------------------------------------------------------


def test_what_there_is():
    total = skate.cluster_resources()
    assert total["CPU"] == 2
    assert total["memory"] > 0
    assert total["object_store_memory"] > 0


def test_a_machine_is_listed():
    (node,) = skate.nodes()
    assert node["Alive"] is True
    assert node["Resources"]["CPU"] == 2
    assert node["NodeID"] == skate.get_runtime_context().get_node_id()


@parallel
def test_what_is_in_use_is_not_available(flag):
    go, started = flag("go"), flag("started")

    @skate.remote
    def hold():
        started.set()
        go.wait()

    eventually(lambda: skate.available_resources().get("CPU") == 2)
    ref = hold.remote()
    started.wait()
    eventually(lambda: skate.available_resources().get("CPU") == 1)
    go.set()
    skate.get(ref)
    eventually(lambda: skate.available_resources().get("CPU") == 2)


@parallel
def test_resources_come_back_after_errors_and_actors():
    @skate.remote
    def fail():
        raise ValueError("failed")

    @skate.remote(num_cpus=1)
    class Actor:
        def hello(self):
            return "hello"

    for _ in range(3):
        with pytest.raises(ValueError, match="failed"):
            skate.get(fail.remote())
        assert skate.get(Actor.remote().hello.remote()) == "hello"
    eventually(lambda: skate.available_resources().get("CPU") == 2)


# -- limits ---------------------------------------------------------------------------------------


@parallel
def test_cpus_limit_how_many_run(tally):
    assert max(skate.get([visit.remote(tally) for _ in range(6)])) <= 2


@parallel
def test_an_actor_keeps_its_cpus_to_itself():
    @skate.remote(num_cpus=2)
    class Owner:
        def pid(self):
            return os.getpid()

    first, second = Owner.remote(), Owner.remote()
    pid = skate.get(first.pid.remote())
    waiting = second.pid.remote()
    assert skate.wait([waiting], timeout=0.2) == ([], [waiting])
    skate.kill(first)
    assert skate.get(waiting, timeout=60) != pid


@parallel
def test_a_task_can_take_all_cpus(tally):
    refs = [visit.options(num_cpus=2).remote(tally) for _ in range(4)]
    assert max(skate.get(refs)) == 1


@parallel
def test_fractions_of_a_cpu(flag):
    flags = [flag(str(i)) for i in range(4)]

    @skate.remote(num_cpus=0.5)
    def meet(i):
        flags[i].set()
        for other in flags:
            other.wait()
        return True

    assert all(skate.get([meet.remote(i) for i in range(4)], timeout=60))


@parallel
def test_tasks_without_cpus_are_not_limited(flag):
    flags = [flag(str(i)) for i in range(4)]

    @skate.remote(num_cpus=0)
    def meet(i):
        flags[i].set()
        for other in flags:
            other.wait()
        return True

    assert all(skate.get([meet.remote(i) for i in range(4)], timeout=60))


@parallel
@pytest.mark.init(resources={"license": 1})
def test_custom_resources(tally):
    assert skate.cluster_resources()["license"] == 1
    refs = [visit.options(resources={"license": 1}).remote(tally) for _ in range(4)]
    assert max(skate.get(refs)) == 1


@parallel
@pytest.mark.init(_memory=1_000_000_000)
def test_memory_is_a_resource(tally):
    refs = [visit.options(memory=600_000_000).remote(tally) for _ in range(3)]
    assert max(skate.get(refs)) == 1


@parallel
def test_actors_without_cpus_are_not_limited():
    @skate.remote
    class Actor:
        def hello(self):
            return "hello"

    actors = [Actor.remote() for _ in range(4)]
    assert skate.get([a.hello.remote() for a in actors]) == ["hello"] * 4
    assert skate.get(identity.remote("tasks still run")) == "tasks still run"


@parallel
def test_actors_with_cpus_wait_for_them():
    @skate.remote(num_cpus=2)
    class Greedy:
        def hello(self):
            return "hello"

    first, second = Greedy.remote(), Greedy.remote()
    assert skate.get(first.hello.remote()) == "hello"
    waiting = second.hello.remote()
    assert skate.wait([waiting], timeout=0.1) == ([], [waiting])
    skate.kill(first)
    assert skate.get(waiting, timeout=60) == "hello"


# -- blocked tasks give their CPU back ------------------------------------------------------------


@parallel
def test_a_task_that_waits_for_another_gives_its_cpu_back():
    @skate.remote(num_cpus=2)
    def inner():
        return "inner"

    @skate.remote(num_cpus=2)
    def outer():
        return skate.get(inner.remote())

    assert skate.get(outer.remote(), timeout=60) == "inner"


@parallel
def test_wait_gives_the_cpu_back_as_well():
    @skate.remote(num_cpus=2)
    def outer():
        ref = identity.options(num_cpus=2).remote(1)
        return skate.wait([ref], timeout=60) == ([ref], [])

    assert skate.get(outer.remote(), timeout=60)


@parallel
def test_nested_tasks_do_not_deadlock():
    @skate.remote
    def nest(depth):
        return 0 if depth == 0 else 1 + skate.get(nest.remote(depth - 1))

    assert skate.get(nest.remote(8), timeout=60) == 8


@parallel
def test_a_wide_tree_of_tasks():
    @skate.remote
    def tree(depth):
        return 1 if depth == 0 else sum(skate.get([tree.remote(depth - 1) for _ in range(3)]))

    assert skate.get(tree.remote(3), timeout=60) == 27


# -- GPUs -----------------------------------------------------------------------------------------


def test_a_machine_that_is_not_there():
    strategy = NodeAffinitySchedulingStrategy("ab" * 28, soft=False)
    with pytest.raises(skate.exceptions.TaskUnschedulableError):
        skate.get(gpus.options(scheduling_strategy=strategy).remote(), timeout=60)
    soft = NodeAffinitySchedulingStrategy("ab" * 28, soft=True)
    assert skate.get(gpus.options(scheduling_strategy=soft).remote())
    here = NodeAffinitySchedulingStrategy(skate.nodes()[0]["NodeID"], soft=False)
    assert skate.get(gpus.options(scheduling_strategy=here).remote())


def test_an_actor_for_a_machine_that_is_not_there():
    @skate.remote
    class Lost:
        def method(self): ...

    strategy = NodeAffinitySchedulingStrategy("ab" * 28, soft=False)
    lost = Lost.options(scheduling_strategy=strategy).remote()
    with pytest.raises(skate.exceptions.ActorUnschedulableError):
        skate.get(lost.method.remote(), timeout=60)


# -- labels ---------------------------------------------------------------------------------------


in_zone_b = pytest.mark.init(labels={"zone": "b", "domain.io/disk": "ssd"})
by_label = pytest.mark.engines("inline", "local")  # Ray waits for a machine that fits


@skate.remote(label_selector={"zone": "in(x, y)"}, fallback_strategy=[{"label_selector": {}}])
def labelled():
    return "ran"


@by_label
@in_zone_b
@pytest.mark.parametrize(
    ("selector", "fits"),
    [
        ({"zone": "b"}, True),
        ({"zone": "in(a, b)", "domain.io/disk": "ssd"}, True),
        ({"zone": "!a", "other": "!in(a,b)"}, True),
        ({"ray.io/node-id": "!none"}, True),
        ({"zone": "a"}, False),
        ({"zone": "!in(a, b)"}, False),
        ({"other": "a"}, False),
    ],
)
def test_labels_that_a_machine_must_have(selector, fits):
    task = labelled.options(label_selector=selector, fallback_strategy=None)
    if fits:
        assert skate.get(task.remote(), timeout=60) == "ran"
        return
    with pytest.raises(skate.exceptions.TaskUnschedulableError, match="label_selector"):
        skate.get(task.remote(), timeout=60)


@by_label
@in_zone_b
def test_labels_to_fall_back_on():
    assert skate.get(labelled.remote(), timeout=60) == "ran"
    others = [{"label_selector": {"zone": zone}} for zone in ("c", "b")]
    assert skate.get(labelled.options(fallback_strategy=others).remote(), timeout=60) == "ran"
    with pytest.raises(skate.exceptions.TaskUnschedulableError):
        skate.get(labelled.options(fallback_strategy=others[:1]).remote(), timeout=60)


@by_label
@in_zone_b
def test_conditions_on_labels():
    from skate.util.scheduling_strategies import Exists, In, NodeLabelSchedulingStrategy

    @skate.remote
    class Actor:
        def get(self):
            return "ran"

    here = NodeLabelSchedulingStrategy({"zone": In("a", "b"), "domain.io/disk": Exists()})
    actor = Actor.options(scheduling_strategy=here).remote()
    assert skate.get(actor.get.remote(), timeout=60) == "ran"
    elsewhere = NodeLabelSchedulingStrategy({"zone": In("a")}, soft={"zone": In("b")})
    lost = Actor.options(scheduling_strategy=elsewhere).remote()
    with pytest.raises(skate.exceptions.ActorUnschedulableError, match="zone"):
        skate.get(lost.get.remote(), timeout=60)


two_gpus = pytest.mark.init(num_gpus=2)


@skate.remote
def gpus():
    return skate.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")


@two_gpus
def test_gpus_are_given_by_number():
    ids, visible = skate.get(gpus.options(num_gpus=2).remote())
    assert [str(i) for i in ids] == ["0", "1"]
    assert visible == "0,1"


@pytest.mark.engines("inline", "local")  # Ray looks at a process that is there already
def test_gpus_are_those_that_the_driver_may_use(start, monkeypatch):
    skate.shutdown()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-8932f937")
    start(num_gpus=2)
    assert skate.get(gpus.options(num_gpus=2).remote()) == ([3, "GPU-8932f937"], "3,GPU-8932f937")
    one = skate.get(gpus.options(num_gpus=1).remote())
    assert one in (([3], "3"), (["GPU-8932f937"], "GPU-8932f937"))


@two_gpus
def test_one_gpu():
    ids, visible = skate.get(gpus.options(num_gpus=1).remote())
    assert len(ids) == 1
    assert visible == str(ids[0])


@parallel
@two_gpus
@pytest.mark.differs_from_ray("Ray shows all of them")
def test_without_a_gpu_none_is_visible():
    assert skate.get(gpus.remote()) == ([], "")


@parallel
@two_gpus
def test_work_with_a_gpu_has_processes_of_its_own():
    @skate.remote(max_calls=0)
    def where():
        return os.getpid()

    without = set(skate.get([where.remote() for _ in range(8)]))
    with_one = where.options(num_gpus=1)
    assert not without & set(skate.get([with_one.remote() for _ in range(4)]))


@two_gpus
@pytest.mark.engines("inline", "local")
@pytest.mark.parametrize("number", [0, 1])
def test_the_variable_can_be_left_to_the_program(number, monkeypatch):
    switch = {"RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES": "1", "CUDA_VISIBLE_DEVICES": "7"}
    for name, value in switch.items():
        monkeypatch.setenv(name, value)
    ids, visible = skate.get(gpus.options(num_gpus=number).remote())
    assert (len(ids), visible) == (number, "7")


others = {"TPU": 4, "neuron_cores": 2, "HPU": 2, "NPU": 2, "FURIOSA": 2}


@pytest.mark.init(resources=others)
@pytest.mark.engines("inline", "local")
@pytest.mark.parametrize(
    ("asked", "ids", "variables"),
    [
        ({"neuron_cores": 2}, ["0", "1"], {"NEURON_RT_VISIBLE_CORES": "0,1"}),
        ({"HPU": 1}, ["0"], {"HABANA_VISIBLE_MODULES": "0"}),
        ({"NPU": 2}, ["0", "1"], {"ASCEND_RT_VISIBLE_DEVICES": "0,1"}),
        ({"FURIOSA": 1}, ["0"], {"FURIOSA_DEVICES": "npu:0"}),
        (
            {"TPU": 2},
            ["0", "1"],
            {
                "TPU_VISIBLE_CHIPS": "0,1",
                "TPU_CHIPS_PER_HOST_BOUNDS": "1,2,1",
                "TPU_HOST_BOUNDS": "1,1,1",
            },
        ),
        ({"TPU": 4}, ["0", "1", "2", "3"], {"TPU_VISIBLE_CHIPS": "0,1,2,3"}),
    ],
)
def test_other_accelerators(asked, ids, variables):
    @skate.remote(resources=asked)
    def look():
        found = skate.get_runtime_context().get_accelerator_ids()
        return found, {name: os.environ.get(name) for name in variables}

    found, seen = skate.get(look.remote(), timeout=60)
    (name,) = asked
    assert (found.pop(name), seen) == (ids, variables)
    assert not any(found.values())


@pytest.mark.init(resources=others)
@parallel
@pytest.mark.engines("local")
def test_accelerators_are_given_to_one_at_a_time(flag):
    here, there = flag("here"), flag("there")

    @skate.remote(resources={"NPU": 1})
    def meet(mine, other):
        mine.set()
        other.wait()
        return os.environ["ASCEND_RT_VISIBLE_DEVICES"]

    assert sorted(skate.get([meet.remote(here, there), meet.remote(there, here)], timeout=60)) == [
        "0",
        "1",
    ]


@parallel
@two_gpus
def test_fractions_of_a_gpu_share_one(flag):
    here, there = flag("here"), flag("there")

    @skate.remote(num_gpus=0.5)
    def meet(mine, other):
        mine.set()
        other.wait()
        return skate.get_gpu_ids()

    first, second = skate.get([meet.remote(here, there), meet.remote(there, here)], timeout=60)
    assert first == second
    assert len(first) == 1


@parallel
@two_gpus
def test_actors_keep_their_gpus():
    @skate.remote(num_gpus=1)
    class Actor:
        def gpus(self):
            return skate.get_gpu_ids()

    actors = [Actor.remote() for _ in range(2)]
    assert sorted(str(i) for ids in skate.get([a.gpus.remote() for a in actors]) for i in ids) == [
        "0",
        "1",
    ]


def test_the_driver_has_no_gpus():
    assert skate.get_gpu_ids() == []


# -- what can never be ----------------------------------------------------------------------------


@pytest.mark.differs_from_ray("Ray waits for ever")
@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"num_cpus": 8}, "CPU"),
        ({"num_gpus": 1}, "GPU"),
        ({"resources": {"license": 1}}, "license"),
        ({"memory": 10**15}, "memory"),
    ],
    ids=["cpu", "gpu", "custom", "memory"],
)
def test_an_impossible_request_says_so_at_once(options, word):
    with pytest.raises(skate.exceptions.RayError, match=word):
        skate.get(identity.options(**options).remote(1), timeout=60)


@pytest.mark.differs_from_ray("Ray waits for ever")
def test_an_impossible_actor_says_so_at_once():
    @skate.remote(num_gpus=1)
    class Actor:
        def hello(self):
            return "hello"

    actor = Actor.remote()
    with pytest.raises(skate.exceptions.RayError, match="GPU"):
        skate.get(actor.hello.remote(), timeout=60)


@pytest.mark.differs_from_ray("Ray waits for ever")
def test_an_impossible_request_names_the_way_out():
    with pytest.raises(skate.exceptions.RayError, match=r"init\(num_gpus="):
        skate.get(identity.options(num_gpus=1).remote(1), timeout=60)


@parallel
def test_a_task_that_gets_what_is_there_keeps_its_cpu(tally, flag):
    go = flag("go")

    @skate.remote
    def use(refs):
        tally.add("+")
        for ref in refs:
            skate.get(ref)
            skate.wait([ref])
        go.wait()
        tally.add("-")

    @skate.remote
    def items():
        yield from range(3)

    @skate.remote
    def consume():
        tally.add("+")
        stream = items.options(num_cpus=0).remote()
        skate.get(stream.completed())
        total = sum(skate.get(ref) for ref in stream)
        tally.add("-")
        return total

    refs = [skate.put(number) for number in range(10)]
    users = [use.remote(refs) for _ in range(10)]
    eventually(lambda: len(tally) >= 2)
    # Who had been let in by them would be up before this one, which needs a new worker too.
    assert skate.get(identity.options(num_cpus=0).remote(1), timeout=60) == 1
    go.set()
    skate.get(users, timeout=60)
    running = most = 0
    for word in tally.words():
        running += 1 if word == "+" else -1
        most = max(most, running)
    assert most <= 2
    assert skate.get(consume.remote(), timeout=60) == 3
