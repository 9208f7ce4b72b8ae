"""What tests of the local engine share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.local.hub_bench import HubBench


@pytest.fixture
def hub_bench() -> Iterator[HubBench]:
    made = HubBench()
    yield made
    made.close()


@pytest.fixture
def one_cpu_bench() -> Iterator[HubBench]:
    made = HubBench(cpus=1)
    yield made
    made.close()
