"""What the driver and workers ask of the hub, without processes."""

from __future__ import annotations

from tests.local.hub_bench import HubBench


def test_resources_come_and_go(hub_bench: HubBench) -> None:
    for capacity in (3, 3, 1):
        hub_bench.ask("set_resource", "seats", capacity)
        assert hub_bench.ask("cluster_resources")["seats"] == capacity


def test_who_waits_gets_what_is_added(one_cpu_bench: HubBench) -> None:
    bench = one_cpu_bench
    bench.submit(num_cpus=1)
    waiting = bench.submit(num_cpus=1)
    assert waiting.worker is None
    bench.ask("add_resources", {"CPU": 1})
    assert waiting.worker is not None
