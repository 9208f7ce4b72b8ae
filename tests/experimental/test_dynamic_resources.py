"""How much there is changes while programs run."""

from __future__ import annotations

import re

import pytest

import skate
from skate.experimental import set_resource


@skate.remote(num_cpus=1)
class Holder:
    def ping(self) -> None:
        """Be there."""


def cpus() -> tuple[float, float]:
    """What there is, and what of it is free."""
    return skate.cluster_resources().get("CPU", 0), skate.available_resources().get("CPU", 0)


@pytest.mark.engines("local")
@pytest.mark.init(num_cpus=1)
def test_what_waits_goes_on_when_there_is_more(engine) -> None:
    first, second = Holder.remote(), Holder.remote()
    skate.get(first.ping.remote())
    waiting = second.ping.remote()
    assert skate.wait([waiting], timeout=0)[0] == []
    set_resource("CPU", 2)
    skate.get(waiting)
    assert cpus() == (2, 0)


@pytest.mark.engines("local")
@pytest.mark.init(num_cpus=2)
def test_what_runs_goes_on_when_there_is_less(engine) -> None:
    holders = [Holder.remote() for _ in range(2)]
    skate.get([holder.ping.remote() for holder in holders])
    set_resource("CPU", 1)
    assert cpus() == (1, -1)
    third = Holder.remote()  # kept: without a handle it would end, and free its CPU
    late = third.ping.remote()
    skate.get([holder.ping.remote() for holder in holders])
    skate.kill(holders.pop())
    assert skate.wait([late], timeout=0.2)[0] == []
    skate.kill(holders.pop())
    skate.get(late)
    assert cpus() == (1, 0)


def test_a_resource_of_ones_own_comes_and_goes(engine) -> None:
    set_resource("licences", 2)
    assert skate.cluster_resources()["licences"] == 2
    assert skate.get(Holder.options(resources={"licences": 2}).remote().ping.remote()) is None
    set_resource("licences", 0)
    assert "licences" not in skate.cluster_resources()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((1, 2), TypeError, "resource_name takes a string; got 1"),
        (("CPU", "2"), TypeError, "capacity takes a number; got '2'"),
        (("CPU", -1), ValueError, "capacity takes a number that is not negative; got -1"),
        (("CPU", float("nan")), ValueError, "that is not negative; got nan"),
        (("GPU", 0.5), ValueError, "capacity takes a whole number of GPUs; got 0.5"),
        (("object_store_memory", 1), ValueError, "resource_name takes a resource that tasks ask"),
        (("CPU", 1, "elsewhere"), ValueError, "node_id takes one of"),
    ],
)
def test_what_is_refused(engine, arguments, error, message) -> None:
    with pytest.raises(error, match=re.escape(message)):
        set_resource(*arguments)
