"""Measurements that say which replica they come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from skate import serve
from skate.serve.metrics import Counter
from skate.util.metrics import collect


def test_replicas_name_themselves(run_locally: Callable[..., Any]) -> None:
    @serve.deployment
    class Model:
        def __init__(self) -> None:
            self.counter = Counter("served", tag_keys=("kind",))

        def __call__(self) -> str:
            self.counter.inc(2, {"kind": "a"})
            return collect()

        def clash(self) -> None:
            Counter("other", tag_keys=("replica",))

    handle = run_locally(Model.bind())
    handle.remote().result()
    text = handle.remote().result()
    assert 'deployment="Model"' in text
    assert 'application="default"' in text
    assert 'kind="a"' in text
    with pytest.raises(ValueError, match="takes other names"):
        handle.clash.remote().result()


def test_outside_of_replicas_nothing_is_added() -> None:
    counter = Counter("plain_serving", tag_keys=("kind",))
    counter.inc(tags={"kind": "b"})
    assert 'plain_serving_total{kind="b"} 1' in collect()
