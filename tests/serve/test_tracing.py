"""Traces of OpenTelemetry through handles and replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import skate
from skate import serve
from tests.leftovers import Picture, leftovers_since

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider


def set_up() -> None:
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())


@pytest.fixture(scope="module")
def traced() -> Iterator[None]:
    before = Picture.take()
    skate.init(engine="local", num_cpus=2, _tracing_startup_hook=set_up)
    serve.start(proxy_location="Disabled")
    yield
    serve.shutdown()
    skate.shutdown()
    assert not leftovers_since(before)


def trace_id(of: Any = None) -> int:
    return trace.get_current_span(of).get_span_context().trace_id


@serve.deployment(max_ongoing_requests=1)
class Model:
    async def __call__(self, earlier: object = None) -> int:
        await asyncio.sleep(0)
        return trace_id()

    async def own_span(self) -> bool:
        given = serve.get_trace_context()
        with trace.get_tracer("mine").start_as_current_span("inner", context=given) as span:
            return span.get_span_context().trace_id == trace_id(given) != 0


@serve.deployment
class Front:
    def __init__(self, model: serve.handle.DeploymentHandle) -> None:
        self.model = model

    async def __call__(self) -> list[int]:
        return [trace_id(), *await asyncio.gather(*(self.model.remote() for _ in range(3)))]


@pytest.mark.usefixtures("traced")
class TestTraces:
    def test_requests_that_wait_for_a_replica_go_on_with_the_callers_trace(self) -> None:
        handle = serve.run(Front.bind(Model.bind()))
        with trace.get_tracer("mine").start_as_current_span("mine"):
            assert set(handle.remote().result()) == {trace_id()}

    def test_requests_that_wait_for_an_argument_do_as_well(self) -> None:
        handle = serve.run(Model.bind())
        with trace.get_tracer("mine").start_as_current_span("mine"):
            assert handle.remote(handle.remote()).result() == trace_id()

    def test_spans_of_ones_own_are_part_of_the_trace(self) -> None:
        assert serve.run(Model.bind()).own_span.remote().result()


def test_the_trace_that_is_open() -> None:
    assert serve.get_trace_context() is None
    token = context.attach(context.set_value("a key", 1))
    try:
        assert serve.get_trace_context() == context.get_current()
    finally:
        context.detach(token)
