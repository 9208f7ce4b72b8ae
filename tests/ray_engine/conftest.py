"""A real Ray cluster: three raylets on this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.ray_engine import sharing

NODE = {"num_cpus": 2, "object_store_memory": 100_000_000}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Three nodes; skate runs on them."""
    from ray.cluster_utils import Cluster

    import skate

    sharing.end()
    logging.getLogger("ray").setLevel(logging.ERROR)
    made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        made.add_node(**NODE, resources={"second": 1})
        made.add_node(**NODE, resources={"third": 1})
        skate.init(made.address, log_to_driver=False)
        yield made
    finally:
        skate.shutdown()
        made.shutdown()
