"""One skate session for all tests of training: importing torch takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate.train import RunConfig
from tests.leftovers import Picture, leftovers_since
from tests.warm.servers import servers_with

warm_servers = servers_with("torch lightning transformers xgboost lightgbm sklearn")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.leaves("one session for all tests of training"))


@pytest.fixture(scope="package")
def _session(warm_servers: None) -> Iterator[None]:
    before = Picture.take()
    skate.init(num_cpus=2)
    yield
    skate.shutdown()
    assert not leftovers_since(before, except_for="threads")


@pytest.fixture
def run_config(_session: None, tmp_path: Path) -> Any:
    """Makes the configuration of a run in a folder of this test."""

    def make(**settings: Any) -> RunConfig:
        return RunConfig(**{"name": "run", "storage_path": tmp_path / "runs", **settings})

    return make
