"""Placement groups: bundles of resources reserved together."""

import time

import pytest

import skate
from skate.util import placement_group, placement_group_table, remove_placement_group
from skate.util.placement_group import get_current_placement_group, get_placement_group
from skate.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.support import eventually, parallel

pytestmark = pytest.mark.usefixtures("engine")


@pytest.fixture
def group():
    groups = []

    def make(bundles, **options):
        groups.append(placement_group(bundles, **options))
        return groups[-1]

    yield make
    for made in groups:
        remove_placement_group(made)


@skate.remote
def current():
    group = get_current_placement_group()
    return group and group.id.hex()


def inside(group, **options):
    return PlacementGroupSchedulingStrategy(placement_group=group, **options)


def test_a_group_becomes_ready(group):
    made = group([{"CPU": 1}, {"CPU": 1}])
    skate.get(made.ready(), timeout=60)
    assert made.wait(timeout_seconds=60) is True
    assert made.bundle_count == 2
    assert made.bundle_specs == [{"CPU": 1}, {"CPU": 1}]


def test_a_task_runs_in_a_group(group):
    made = group([{"CPU": 1}])
    ref = current.options(scheduling_strategy=inside(made)).remote()
    assert skate.get(ref, timeout=60) == made.id.hex()


def test_without_a_group_there_is_none():
    assert skate.get(current.remote()) is None
    assert get_current_placement_group() is None


def test_an_actor_runs_in_a_group(group):
    @skate.remote(num_cpus=1)
    class Actor:
        def current(self):
            return get_current_placement_group().id.hex()

    made = group([{"CPU": 1}])
    actor = Actor.options(scheduling_strategy=inside(made)).remote()
    assert skate.get(actor.current.remote(), timeout=60) == made.id.hex()


def test_a_bundle_is_chosen_by_its_index(group):
    made = group([{"CPU": 1}, {"CPU": 1}])
    strategy = inside(made, placement_group_bundle_index=1)
    assert skate.get(current.options(scheduling_strategy=strategy).remote(), timeout=60)


@pytest.mark.parametrize("index", [2, -2])
def test_a_bundle_that_does_not_exist_is_refused(group, index):
    made = group([{"CPU": 1}, {"CPU": 1}])
    strategy = inside(made, placement_group_bundle_index=index)
    with pytest.raises(ValueError, match=f"bundle index {index} is invalid"):
        current.options(scheduling_strategy=strategy).remote()


def test_a_task_larger_than_any_bundle_is_refused(group):
    made = group([{"CPU": 1}])
    with pytest.raises(ValueError, match="CPU"):
        current.options(num_cpus=2, scheduling_strategy=inside(made)).remote()


@parallel
def test_bundles_are_reserved(group):
    made = group([{"CPU": 2}])
    assert made.wait(timeout_seconds=60)
    ref = current.remote()
    assert skate.wait([ref], timeout=0.1) == ([], [ref])
    remove_placement_group(made)
    assert skate.get(ref, timeout=60) is None


@parallel
def test_a_group_that_finds_no_room_waits(group):
    first = group([{"CPU": 2}])
    assert first.wait(timeout_seconds=60)
    second = group([{"CPU": 1}])
    assert second.wait(timeout_seconds=0.1) is False
    remove_placement_group(first)
    assert second.wait(timeout_seconds=60) is True


@parallel
def test_removing_a_group_ends_what_runs_in_it(group):
    @skate.remote(num_cpus=1)
    class Actor:
        def hello(self):
            return "hello"

    made = group([{"CPU": 1}])
    actor = Actor.options(scheduling_strategy=inside(made)).remote()
    assert skate.get(actor.hello.remote(), timeout=60) == "hello"
    remove_placement_group(made)
    eventually(lambda: dead(actor))
    eventually(lambda: skate.available_resources().get("CPU") == 2)


@skate.remote(num_cpus=0, max_restarts=1)
class Reserver:
    def reserve(self, name, **options):
        made = placement_group([{"CPU": 1}], name=name, **options)
        skate.get(made.ready(), timeout=60)


def free_cpus():
    return skate.available_resources().get("CPU", 0)


@pytest.mark.differs_from_ray("Ray keeps it for as long as the driver lives")
@pytest.mark.parametrize("no_restart", [True, False])
def test_a_group_ends_with_the_killed_actor_that_made_it(no_restart):
    actor = Reserver.remote()
    skate.get(actor.reserve.remote("reserved"), timeout=60)
    assert free_cpus() == 1
    skate.kill(actor, no_restart=no_restart)
    eventually(lambda: free_cpus() == 2)
    if not no_restart:  # the name is free again, too
        skate.get(actor.reserve.remote("reserved"), timeout=60)
        skate.kill(actor)
        eventually(lambda: free_cpus() == 2)


@pytest.mark.differs_from_ray("Ray keeps both for as long as the driver lives")
def test_a_detached_group_outlives_the_killed_actor_that_made_it():
    actor = Reserver.remote()
    skate.get(actor.reserve.remote("short"), timeout=60)
    skate.get(actor.reserve.remote("long", lifetime="detached"), timeout=60)
    skate.kill(actor)
    eventually(lambda: free_cpus() == 1)
    remove_placement_group(get_placement_group("long"))
    eventually(lambda: free_cpus() == 2)


def test_a_group_outlives_an_actor_that_ends_with_its_last_handle():
    @skate.remote(num_cpus=1)
    class Maker:
        def make(self):
            return placement_group([{"CPU": 1}])

    made = skate.get(Maker.remote().make.remote(), timeout=60)
    eventually(lambda: free_cpus() == 1)  # the actor has ended
    ref = current.options(scheduling_strategy=inside(made)).remote()
    assert skate.get(ref, timeout=60) == made.id.hex()
    remove_placement_group(made)
    eventually(lambda: free_cpus() == 2)


def test_a_group_outlives_the_task_that_made_it():
    @skate.remote(num_cpus=0)
    def reserve():
        made = placement_group([{"CPU": 1}])
        skate.get(made.ready(), timeout=60)
        return made

    made = skate.get(reserve.remote(), timeout=60)
    assert free_cpus() == 1
    remove_placement_group(made)
    eventually(lambda: free_cpus() == 2)


def dead(actor):
    try:
        skate.get(actor.hello.remote())
    except skate.exceptions.RayActorError:
        return True
    return False


def run_in_a_group_that_is_removed(group, flag, max_retries):
    @skate.remote(num_cpus=1, max_retries=max_retries)
    def run(flag):
        flag.set()
        time.sleep(60)

    made = group([{"CPU": 1}])
    started = flag("started")
    ref = run.options(scheduling_strategy=inside(made)).remote(started)
    started.wait()
    remove_placement_group(made)
    return ref


@parallel
def test_a_task_that_runs_in_a_removed_group_ends(group, flag):
    ref = run_in_a_group_that_is_removed(group, flag, max_retries=0)
    with pytest.raises(skate.exceptions.WorkerCrashedError):
        skate.get(ref, timeout=60)


@parallel
@pytest.mark.differs_from_ray("Ray waits for ever")
def test_a_task_whose_group_was_removed_is_not_tried_again(group, flag):
    ref = run_in_a_group_that_is_removed(group, flag, max_retries=3)
    with pytest.raises(skate.exceptions.TaskPlacementGroupRemoved):
        skate.get(ref, timeout=60)


@pytest.mark.parametrize("strategy", ["SPREAD", "DEFAULT", "the group"])
def test_a_group_is_not_given_beside_a_strategy(group, strategy):
    made = group([{"CPU": 1}])
    given = inside(made) if strategy == "the group" else strategy
    with pytest.raises(ValueError, match="scheduling_strategy"):
        current.options(placement_group=made, scheduling_strategy=given).remote()


@pytest.mark.differs_from_ray("Ray waits for ever")
def test_a_removed_group_takes_nothing_more(group):
    made = group([{"CPU": 1}])
    task = current.options(scheduling_strategy=inside(made))
    assert skate.get(task.remote(), timeout=60) == made.id.hex()
    remove_placement_group(made)
    removed = skate.exceptions.TaskPlacementGroupRemoved
    for again in (task, current.options(scheduling_strategy=inside(made), num_cpus=0.5)):
        with pytest.raises((removed, ValueError)):
            skate.get(again.remote(), timeout=60)
    assert skate.get(current.remote(), timeout=60) is None


@parallel
@pytest.mark.differs_from_ray("Ray waits")
def test_a_refused_task_inside_a_task_fails_with_every_result(group):
    @skate.remote
    def pair():
        return 1, 2

    @skate.remote
    def outer(made):
        refs = pair.options(num_returns=2, num_cpus=2, scheduling_strategy=inside(made)).remote()
        return [outcome(ref) for ref in refs]

    def outcome(ref):
        try:
            return skate.get(ref, timeout=60)
        except ValueError:
            return "refused"

    made = group([{"CPU": 1}])
    assert made.wait(timeout_seconds=60)
    assert skate.get(outer.remote(made), timeout=60) == ["refused", "refused"]


def test_children_are_captured_on_request(group):
    @skate.remote
    def parent():
        return skate.get(current.options(num_cpus=0).remote())

    made = group([{"CPU": 2}])
    captured = inside(made, placement_group_capture_child_tasks=True)
    assert skate.get(parent.options(scheduling_strategy=captured).remote()) == made.id.hex()


@parallel
def test_children_of_a_call_in_a_concurrency_group_are_captured(group):
    @skate.remote(num_cpus=0, concurrency_groups={"io": 2})
    class Parent:
        @skate.method(concurrency_group="io")
        def ask(self):
            return skate.get(current.options(num_cpus=0).remote())

    made = group([{"CPU": 1}])
    captured = inside(made, placement_group_capture_child_tasks=True)
    parent = Parent.options(scheduling_strategy=captured).remote()
    assert skate.get(parent.ask.remote(), timeout=60) == made.id.hex()


WAYS_OUT = (
    {"scheduling_strategy": inside(None)},
    {"scheduling_strategy": inside("default", placement_group_capture_child_tasks=False)},
    {"scheduling_strategy": "DEFAULT"},
    {"scheduling_strategy": "SPREAD"},
    {"placement_group": None},
)
WAYS_IN = (
    {"scheduling_strategy": inside("default")},
    {"scheduling_strategy": inside("default", placement_group_capture_child_tasks=True)},
    {"placement_group": "default"},
)


@skate.remote
def ask_children(ways):
    return skate.get([current.options(num_cpus=0, **way).remote() for way in ways])


def test_a_captured_child_can_ask_for_no_group(group):
    made = group([{"CPU": 1}])
    captured = inside(made, placement_group_capture_child_tasks=True)
    asked = ask_children.options(scheduling_strategy=captured).remote(WAYS_OUT)
    assert skate.get(asked) == [None] * len(WAYS_OUT)


def test_a_captured_child_can_ask_for_the_group_of_its_parent(group):
    made = group([{"CPU": 1}])
    captured = inside(made, placement_group_capture_child_tasks=True)
    asked = ask_children.options(scheduling_strategy=captured).remote(WAYS_IN)
    assert skate.get(asked) == [made.id.hex()] * len(WAYS_IN)


def test_a_child_can_ask_for_the_group_of_a_parent_that_captures_none(group):
    made = group([{"CPU": 1}])
    asked = ask_children.options(scheduling_strategy=inside(made)).remote(WAYS_IN)
    assert skate.get(asked) == [None, made.id.hex(), None]


def test_children_are_not_captured_by_default(group):
    @skate.remote
    def parent():
        return skate.get(current.options(num_cpus=0).remote())

    made = group([{"CPU": 1}])
    assert skate.get(parent.options(scheduling_strategy=inside(made)).remote()) is None


def test_the_table_of_groups(group):
    made = group([{"CPU": 1}], strategy="SPREAD", name="in the table")
    assert made.wait(timeout_seconds=60)
    entry = placement_group_table(made)
    assert entry["state"] == "CREATED"
    assert entry["strategy"] == "SPREAD"
    assert entry["name"] == "in the table"
    assert entry["bundles"] == {0: {"CPU": 1.0}}
    assert entry["bundles_to_node_id"] == {0: skate.get_runtime_context().get_node_id()}
    assert made.id.hex() in placement_group_table()
    remove_placement_group(made)
    eventually(lambda: placement_group_table(made)["state"] == "REMOVED")


def test_a_group_by_name(group):
    from skate.util import get_placement_group

    made = group([{"CPU": 1}], name="found")
    assert made.wait(timeout_seconds=60)
    assert get_placement_group("found").id == made.id
    with pytest.raises(ValueError, match="unknown"):
        get_placement_group("unknown")


def test_a_name_belongs_to_one_group_at_a_time(group):
    made = group([{"CPU": 1}], name="only")
    assert made.wait(timeout_seconds=60)
    with pytest.raises(Exception, match="only"):
        group([{"CPU": 1}], name="only")
    remove_placement_group(made)
    assert group([{"CPU": 1}], name="only").wait(timeout_seconds=60)


def test_a_group_travels(group):
    @skate.remote
    def run_in(made):
        return skate.get(current.options(scheduling_strategy=inside(made), num_cpus=1).remote())

    made = group([{"CPU": 1}])
    assert skate.get(run_in.remote(made), timeout=60) == made.id.hex()


@pytest.mark.parametrize(
    "arguments",
    [
        {"bundles": []},
        {"bundles": [{}]},
        {"bundles": [{"CPU": 0}]},
        {"bundles": {"CPU": 1}},
        {"bundles": [{"CPU": 1}], "strategy": "SOMEHOW"},
    ],
    ids=str,
)
def test_groups_that_make_no_sense_are_refused(arguments):
    with pytest.raises((ValueError, TypeError)):
        placement_group(**arguments)


@pytest.mark.differs_from_ray("Ray accepts it")
def test_a_negative_bundle_is_refused():
    with pytest.raises(ValueError, match="CPU"):
        placement_group([{"CPU": -1}])


@pytest.mark.differs_from_ray("Ray waits for ever")
def test_an_impossible_group_says_so(group):
    made = group([{"CPU": 2}, {"CPU": 1}])
    with pytest.raises(skate.exceptions.RayError, match="CPU"):
        skate.get(made.ready(), timeout=60)


@pytest.mark.differs_from_ray("Ray waits for the whole of the time")
def test_waiting_for_an_impossible_group_returns_false(group, capsys):
    made = group([{"CPU": 2}, {"CPU": 1}])
    assert made.wait(timeout_seconds=600) is False
    assert "CPU" in capsys.readouterr().err


@pytest.mark.init(labels={"zone": "a"})
def test_bundles_are_where_the_labels_fit(group):
    made = group([{"CPU": 1}, {"CPU": 1}], bundle_label_selector=[{"zone": "in(a, b)"}, {}])
    assert made.wait(timeout_seconds=60) is True
    assert made.bundle_specs == [{"CPU": 1}, {"CPU": 1}]
    ref = current.options(scheduling_strategy=inside(made)).remote()
    assert skate.get(ref, timeout=60) == made.id.hex()


@pytest.mark.init(labels={"zone": "a"})
def test_a_bundle_whose_label_no_machine_has_is_not_reserved(group):
    made = group([{"CPU": 1}, {"CPU": 1}], bundle_label_selector=[{}, {"zone": "!a"}])
    assert made.wait(timeout_seconds=1) is False


def test_a_resource_named_bundle_is_reserved():
    with pytest.raises((ValueError, skate.exceptions.RayError), match="bundle"):
        placement_group([{"bundle": 1}])


def test_bundles_may_add_up_to_all_there_is(group):
    made = group([{"CPU": 0.04}] * 50)  # as floats, a little more than the two CPUs
    assert made.wait(60)


@pytest.mark.engines("inline", "local")
def test_a_group_of_an_earlier_session_is_told_and_can_be_removed(start):
    group = placement_group([{"CPU": 1}])
    skate.shutdown()
    start(num_cpus=2)
    with pytest.raises(ValueError, match="does not exist any more"):
        current.options(scheduling_strategy=inside(group)).remote()
    remove_placement_group(group)


def test_a_name_is_taken_once(group):
    made = group([{"CPU": 1}], name="taken")
    with pytest.raises(skate.exceptions.RaySystemError, match="taken"):
        placement_group([{"CPU": 1}], name="taken")
    remove_placement_group(made)
    assert group([{"CPU": 1}], name="taken").wait(60)


def test_a_group_is_not_ready_after_it_was_removed(group):
    made = group([{"CPU": 1}])
    assert made.wait(60)
    remove_placement_group(made)
    eventually(lambda: placement_group_table(made)["state"] == "REMOVED")
    with pytest.raises(Exception, match=r"removed|does not exist"):
        made.wait(60)
    with pytest.raises(skate.exceptions.TaskPlacementGroupRemoved):
        skate.get(made.ready(), timeout=60)


@pytest.mark.engines("inline", "local")
@pytest.mark.differs_from_ray("Ray waits for ever")
def test_what_is_to_run_in_a_group_that_can_never_be_is_told_so(group):
    made = group([{"CPU": 1000}])
    row = placement_group_table(made)
    assert (row["state"], row["stats"]["scheduling_state"]) == ("PENDING", "INFEASIBLE")
    assert made.wait(60) is False
    strategy = inside(made)
    with pytest.raises(skate.exceptions.TaskUnschedulableError, match="1000"):
        skate.get(current.options(scheduling_strategy=strategy).remote(), timeout=60)

    @skate.remote
    class Actor:
        def ready(self):
            return True

    actor = Actor.options(scheduling_strategy=strategy).remote()
    with pytest.raises(skate.exceptions.ActorUnschedulableError, match="1000"):
        skate.get(actor.ready.remote(), timeout=60)
    remove_placement_group(made)
    assert placement_group_table(made)["state"] == "REMOVED"
