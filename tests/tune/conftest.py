"""One session of skate for the tests of a module: starting one costs more than most tests here.
What is left behind is looked for when the session ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate import tune
from tests.leftovers import Picture, leftovers_since


@pytest.fixture(autouse=True)
def leaves_nothing() -> None:
    """See `session`."""


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    before = Picture.take()
    skate.init(num_cpus=2, num_gpus=1)
    yield
    skate.shutdown()
    if found := leftovers_since(before):
        pytest.fail("left behind:\n  " + "\n  ".join(found), pytrace=False)


@pytest.fixture
def run(session: None, tmp_path: Path) -> Callable[..., tune.ExperimentAnalysis]:
    """`tune.run` into a folder of this test, silently."""

    def call(trainable: Any, **arguments: Any) -> tune.ExperimentAnalysis:
        settings = {"storage_path": tmp_path / "runs", "name": "run", "verbose": 0, **arguments}
        return tune.run(trainable, **settings)

    return call
