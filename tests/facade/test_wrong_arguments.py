"""Wrong values for the parameters of the façade and of `util`: each is a TypeError or ValueError
that shows what was given and says what is allowed, and nothing half-done stays behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import skate
from skate import util
from skate._core.options import ACTOR, CALL, OPTIONS, TASK
from skate.util import metrics, multiprocessing, queue, state
from skate.util import scheduling_strategies as strategies
from skate.util.actor_group import ActorGroup
from skate.util.actor_pool import ActorPool

pytestmark = [pytest.mark.engines("inline"), pytest.mark.usefixtures("engine")]


class Odd:
    def __repr__(self) -> str:
        return "Odd()"


WRONG: list[Any] = [
    None, "", "x", -1, 2**70, 1e308, float("nan"), float("inf"), Odd(), b"x", True,
    [], [Odd()], {}, {1: Odd()}, (), set(),
]  # fmt: skip

# What an error must not be like: a look at the inside of skate.
INTERNAL = (
    "has no attribute",
    "not supported between",
    "not subscriptable",
    "has no len()",
    "cannot be interpreted",
    "is not a mapping",
    "too large",
)


@skate.remote
def task(x: Any = None) -> int:
    return 1


@skate.remote
class Actor:
    def method(self, x: Any = None) -> int:
        return 1


def with_option(made: Callable[[], Any], name: str) -> Callable[[Any], Any]:
    return lambda value: made().options(**{name: value}).remote()


def group(**given: Any) -> None:
    util.remove_placement_group(util.placement_group(**{"bundles": [{"CPU": 1}], **given}))


def in_group(**given: Any) -> Any:
    made = util.placement_group([{"CPU": 1}])
    strategy = strategies.PlacementGroupSchedulingStrategy(made, **given)
    try:
        return skate.get(task.options(scheduling_strategy=strategy).remote())
    finally:
        util.remove_placement_group(made)


ACTIONS: dict[str, Callable[[Any], Any]] = {
    "init(address)": lambda v: started(address=v or 0) if not isinstance(v, str) else None,
    "init(num_cpus)": lambda v: started(num_cpus=v),
    "init(num_gpus)": lambda v: started(num_gpus=v),
    "init(resources)": lambda v: started(resources=v),
    "init(labels)": lambda v: started(labels=v),
    "init(namespace)": lambda v: started(namespace=v),
    "init(runtime_env)": lambda v: started(runtime_env=v),
    "init(logging_level)": lambda v: started(logging_level=v) if not isinstance(v, int) else None,
    "init(logging_format)": lambda v: started(logging_format=v or 1),
    "init(_system_config)": lambda v: started(_system_config=v),
    "get": lambda v: skate.get(v),
    "get of a list": lambda v: skate.get([v]),
    "get(timeout)": lambda v: skate.get(skate.put(1), timeout=v),
    "wait": lambda v: skate.wait(v),
    "wait of a list": lambda v: skate.wait([v]),
    "wait(num_returns)": lambda v: skate.wait([skate.put(1)], num_returns=v),
    "wait(timeout)": lambda v: skate.wait([skate.put(1)], timeout=v),
    "cancel": lambda v: skate.cancel(v),
    "kill": lambda v: skate.kill(v),
    "get_actor": lambda v: skate.get_actor(v),
    "get_actor(namespace)": lambda v: skate.get_actor("nobody", v),
    "timeline": lambda v: skate.timeline(v) if not isinstance(v, str) else None,
    "remote": lambda v: skate.remote(v),
    "ObjectRef": lambda v: skate.ObjectRef(v),
    "ObjectRef.from_hex": lambda v: skate.ObjectRef.from_hex(v),
    "UniqueID": lambda v: skate.UniqueID(v),
    "UniqueID.from_hex": lambda v: skate.UniqueID.from_hex(v),
    "JobID.from_int": lambda v: skate.JobID.from_int(v),
    "placement_group(bundles)": lambda v: group(bundles=v),
    "placement_group of a bundle": lambda v: group(bundles=[v]),
    "placement_group of an amount": lambda v: group(bundles=[{"CPU": v}]),
    "placement_group(strategy)": lambda v: group(strategy=v),
    "placement_group(lifetime)": lambda v: group(lifetime=v),
    "remove_placement_group": lambda v: util.remove_placement_group(v),
    "get_placement_group": lambda v: util.get_placement_group(v),
    "placement_group_table": lambda v: util.placement_group_table(v),
    "PlacementGroupSchedulingStrategy(index)": lambda v: in_group(placement_group_bundle_index=v),
    "NodeAffinitySchedulingStrategy": lambda v: strategies.NodeAffinitySchedulingStrategy(
        v, False
    ),
    "NodeLabelSchedulingStrategy": lambda v: strategies.NodeLabelSchedulingStrategy(v),
    "list_actors(filters)": lambda v: state.list_actors(filters=v),
    "list_actors of a filter": lambda v: state.list_actors(filters=[v]),
    "list_actors(limit)": lambda v: state.list_actors(limit=v),
    "Gauge": lambda v: metrics.Gauge(v) if v != "" else None,
    "Gauge(tag_keys)": lambda v: metrics.Gauge("gauge", tag_keys=v),
    "Gauge.set": lambda v: metrics.Gauge("gauge").set(v),
    "Gauge.set(tags)": lambda v: metrics.Gauge("gauge").set(1, tags=v),
    "Histogram(boundaries)": lambda v: metrics.Histogram("histogram", boundaries=v),
    "Queue.put(timeout)": lambda v: queue.Queue().put(1, timeout=v),
    "Pool(processes)": lambda v: multiprocessing.Pool(v).terminate() if v != 2**70 else None,
    "Pool(ray_remote_args)": lambda v: multiprocessing.Pool(1, ray_remote_args=v).terminate(),
    "as_completed(chunk_size)": lambda v: list(util.as_completed([skate.put(1)], chunk_size=v)),
    "map_unordered": lambda v: list(util.map_unordered(v, [1])),
    "map_unordered(backpressure_size)": lambda v: list(
        util.map_unordered(task, [1], backpressure_size=v)
    ),
    "ActorGroup": lambda v: ActorGroup(v),
    "ActorGroup(num_actors)": lambda v: ActorGroup(Odd, v, 0) if v != 2**70 else None,
    "ActorPool.submit": lambda v: ActorPool([Actor.remote()]).submit(v, 1),
    **{
        f"{kind}: {name}": with_option(made, name)
        for kind, made in (
            (TASK, lambda: task),
            (ACTOR, lambda: Actor),
            (CALL, lambda: Actor.remote().method),
        )
        for name, option in OPTIONS.items()
        if kind in option.kinds and name not in ("num_returns", "max_calls")
    },
}


def started(**given: Any) -> Any:
    return skate.init(ignore_reinit_error=True, **given)


def problem(act: Callable[[Any], Any], value: Any) -> str | None:
    """What is wrong with how a value is refused; None if it is refused well, or taken."""
    try:
        act(value)
    except (TypeError, ValueError) as error:
        found = next((words for words in INTERNAL if words in str(error)), None)
        return f"{type(error).__name__}: {error}" if found or not str(error) else None
    except (skate.exceptions.SkateError, queue.Empty):
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("action", ACTIONS)
def test_wrong_values_are_refused_in_words(action: str) -> None:
    found = {repr(value): problem(ACTIONS[action], value) for value in WRONG}
    assert {value: text for value, text in found.items() if text} == {}


def test_a_call_that_cannot_be_made_leaves_the_pool_as_it_was() -> None:
    pool = ActorPool([Actor.remote()])
    with pytest.raises(TypeError, match="fn"):
        pool.submit(5, 1)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        pool.submit(lambda actor, value: actor.no_such_method.remote(value), 1)
    pool.submit(lambda actor, value: actor.method.remote(value), 1)
    assert pool.get_next() == 1


@pytest.mark.parametrize("timeout", [2**70, 1e308, float("inf"), 5])
def test_time_outs_may_be_as_long_as_one_likes(timeout: float) -> None:
    assert skate.get(skate.put(1), timeout=timeout) == 1
    assert len(skate.wait([skate.put(1)], timeout=timeout)[0]) == 1
    assert skate.get(skate.put(1), timeout=-1) == 1
