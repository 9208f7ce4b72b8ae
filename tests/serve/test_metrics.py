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

        def clash_of_defaults(self) -> None:
            Counter("other").set_default_tags({"deployment": "mine"})

    handle = run_locally(Model.bind())
    handle.remote().result()
    text = handle.remote().result()
    assert 'deployment="Model"' in text
    assert 'application="default"' in text
    assert 'kind="a"' in text
    for method in ("clash", "clash_of_defaults"):
        with pytest.raises(ValueError, match=r"reserved: .* takes other names"):
            getattr(handle, method).remote().result()


def test_the_route_is_that_of_the_request_also_where_the_program_names_it(
    run_locally: Callable[..., Any],
) -> None:
    @serve.deployment
    class Model:
        def __init__(self) -> None:
            self.counter = Counter("routed", tag_keys=("kind", "route"))
            self.counter.set_default_tags({"kind": "a"})

        def __call__(self) -> str:
            self.counter.inc()
            self.counter.inc(tags={"route": "/elsewhere"})
            return collect()

    text = run_locally(Model.bind()).remote().result()
    assert text.count('route=""') == 1
    assert text.count('route="/elsewhere"') == 1


def test_outside_of_replicas_nothing_is_added() -> None:
    counter = Counter("plain_serving", tag_keys=("kind",))
    counter.inc(tags={"kind": "b"})
    assert 'plain_serving_total{kind="b"} 1' in collect()
