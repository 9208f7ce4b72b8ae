"""Spans of OpenTelemetry around remote calls."""

import asyncio
import functools
import inspect
import json
import os
import subprocess
import sys
from typing import ClassVar, Generic, TypeVar

import pytest

import skate
import skate.engine
from skate._facade.tracing import SpanTracer
from skate.exceptions import RuntimeEnvSetupError
from tests.support import PATIENCE, Program

pytest.importorskip("opentelemetry.sdk")

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

FOLDER = "SKATE_TEST_SPANS"


class Lines(SpanExporter):
    def export(self, spans):
        with open(os.path.join(os.environ[FOLDER], str(os.getpid())), "a") as file:
            file.writelines(span.to_json(indent=None) + "\n" for span in spans)
        return SpanExportResult.SUCCESS


@functools.cache
def provider():
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(Lines()))
    return made


def export_to_folder():
    if trace.get_tracer_provider() is not provider():
        trace.set_tracer_provider(provider())


@skate.remote
def double(x, *, add=0):
    return x * 2 + add


@skate.remote
def outer(x):
    return skate.get(double.remote(x, add=1))


@skate.remote
def numbers():
    yield from range(2)


@skate.remote
class Counter:
    def __new__(cls, start):
        return super().__new__(cls)

    def __init__(self, start):
        self.value = start

    def add(self, more):
        self.value += more
        return self.own()

    def own(self):
        return self.value

    @staticmethod
    def plain():
        return "plain"

    def each(self):
        yield self.value

    def fail(self):
        raise KeyError("gone")


@skate.remote
class Waiter:
    async def rest(self):
        await asyncio.sleep(0)
        return "rested"

    async def items(self):
        yield 1


@pytest.fixture(params=["inline", "local"])
def spans(request, tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    skate.shutdown()
    skate.init(engine=request.param, num_cpus=2, _tracing_startup_hook=export_to_folder)

    def read():
        lines = [line for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
        return [json.loads(line) for line in lines]

    yield read
    skate.shutdown()


def names(spans):
    return sorted(span["name"] for span in spans)


def test_a_task_has_a_span_where_it_is_called_and_one_where_it_runs(spans):
    assert skate.get(double.remote(3)) == 6
    function = f"{__name__}.double"
    assert names(spans()) == [f"{function} ray.remote", f"{function} ray.remote_worker"]
    caller, worker = sorted(spans(), key=lambda span: len(span["name"]))
    assert caller["kind"] == "SpanKind.PRODUCER"
    assert worker["kind"] == "SpanKind.CONSUMER"
    assert worker["parent_id"] == caller["context"]["span_id"]
    assert worker["attributes"]["ray.function"] == function
    assert worker["attributes"]["ray.task_id"]


def test_a_task_inside_a_task_continues_its_trace(spans):
    assert skate.get(outer.remote(3)) == 7
    assert len(spans()) == 4
    assert len({span["context"]["trace_id"] for span in spans()}) == 1


def test_the_callers_own_span_is_the_parent(spans):
    with trace.get_tracer("mine").start_as_current_span("mine"):
        skate.get(double.remote(1))
    assert len({span["context"]["trace_id"] for span in spans()}) == 1


def test_methods_of_actors(spans):
    counter = Counter.remote(1)
    assert skate.get(counter.add.remote(2)) == 3
    assert skate.get(counter.plain.remote()) == "plain"
    assert skate.get(next(counter.each.remote())) == 3
    skate.get(counter.__ray_ready__.remote())
    made = [f"Counter.{name} ray.remote" for name in ("__init__", "add", "each", "plain")]
    assert {*names(spans())} >= {*made, *(f"{name}_worker" for name in made)} - {
        "Counter.each ray.remote_worker"  # its stream may not have ended yet
    }
    assert not any("own" in name or "__ray" in name for name in names(spans()))
    ids = {span["attributes"].get("ray.actor_id") for span in spans()}
    assert ids == {counter._actor_id.hex()}


def test_async_methods_and_streams(spans):
    waiter = Waiter.remote()
    assert skate.get([waiter.rest.remote() for _ in range(3)]) == ["rested"] * 3
    assert names(spans()).count("Waiter.rest ray.remote_worker") == 3
    assert [skate.get(item) for item in waiter.items.remote()] == [1]
    assert [skate.get(item) for item in numbers.remote()] == [0, 1]


def test_an_error_is_on_the_span_where_it_was_raised(spans):
    counter = Counter.remote(1)
    with pytest.raises(KeyError, match="gone"):
        skate.get(counter.fail.remote())
    [failed] = [span for span in spans() if span["name"] == "Counter.fail ray.remote_worker"]
    assert failed["status"]["status_code"] == "ERROR"


def test_a_second_init_does_not_set_up_again_and_shutdown_ends_it(spans):
    tracer = skate.engine.tracer
    skate.init(_tracing_startup_hook=export_to_folder)
    assert skate.engine.tracer is tracer is not None
    skate.shutdown()
    assert skate.engine.tracer is None


T = TypeVar("T")


class Kinds(type):
    made: ClassVar[list[str]] = []

    def __init__(cls, name, bases, body, **given):
        super().__init__(name, bases, body)
        Kinds.made.append(name)


class Base(metaclass=Kinds):
    kinds: ClassVar[list[str]] = []

    def __init_subclass__(cls, *, kind):
        Base.kinds.append(kind)

    def __new__(cls, *args, **kwargs):
        return super().__new__(cls)


class Special(Base, Generic[T], metaclass=Kinds, kind="special"):
    def __init__(self, value):
        self.value = value

    def told(self):
        return Base.kinds, Kinds.made, type(type(self)).__name__

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__

    def hashed(self):
        return hash(self) == object.__hash__(self)

    @classmethod
    def name(cls, more):
        return cls.__name__ + more


def test_a_class_that_is_told_of_its_subclasses_is_not_told_of_ours(spans):
    actor = skate.remote(Special).remote(1)
    assert skate.get(actor.told.remote()) == (["special"], ["Base", "Special"], "Kinds")
    assert skate.get(actor.hashed.remote())
    assert skate.get(actor.name.remote("!")) == "Special!"
    assert "Special.name ray.remote_worker" in names(spans())


async def add_one(x):
    return x + 1


@functools.wraps(add_one)
def add_one_now(x):
    return asyncio.run(add_one(x))


class Passes:
    @functools.wraps(add_one)
    def later(self, *args):
        return add_one(*args)

    later.__signature__ = inspect.signature(lambda self, x: None)


def test_what_looks_like_another_kind_of_function_runs_as_what_it_is(spans):
    assert skate.get(skate.remote(add_one_now).remote(1)) == 2
    assert skate.get(skate.remote(Passes).remote().later.remote(1)) == 2
    later = [span for span in spans() if span["name"] == "Passes.later ray.remote_worker"]
    assert len(later) == 1


def test_a_stream_that_is_half_read_leaves_no_span_here(spans):
    stream = numbers.remote()
    assert skate.get(next(stream)) == 0
    items = Waiter.remote().items.remote()
    assert skate.get(next(items)) == 1
    assert not trace.get_current_span().get_span_context().is_valid
    del stream, items


def test_the_rest_of_a_stream_has_the_span_of_the_first_item(spans):
    seen = [skate.get(item) for item in span_ids.remote()]
    [worker] = [span for span in spans() if span["name"].endswith("span_ids ray.remote_worker")]
    assert seen == [int(worker["context"]["span_id"], 16)] * 2


@skate.remote
def span_ids():
    for _ in range(2):
        yield trace.get_current_span().get_span_context().span_id


def test_a_session_that_runs_already_is_not_traced_from_then_on(untraced, monkeypatch):
    counter = Counter.remote(1)
    skate.init(ignore_reinit_error=True, _tracing_startup_hook=export_to_folder)
    assert skate.engine.tracer is None
    monkeypatch.setattr(skate.engine, "tracer", SpanTracer())
    assert skate.get(counter.add.remote(2)) == 3  # who made it did not trace it


@pytest.fixture
def untraced():
    skate.shutdown()
    skate.init(num_cpus=2)
    yield
    skate.shutdown()


def fails():
    raise LookupError("no exporter")


@pytest.mark.parametrize(
    ("engine", "error"), [("inline", RuntimeEnvSetupError), ("local", LookupError)]
)
def test_a_hook_that_fails_leaves_no_session(engine, error):
    skate.shutdown()
    with pytest.raises(error, match="no exporter"):
        skate.init(engine=engine, num_cpus=1, _tracing_startup_hook=fails)
    assert not skate.is_initialized()
    assert skate.engine.tracer is None


@pytest.mark.parametrize(("hook", "error"), [("no colon", ValueError), (3, TypeError)])
def test_a_hook_is_a_function_or_the_path_of_one(hook, error):
    skate.shutdown()
    with pytest.raises(error, match=r"_tracing_startup_hook.*module:function"):
        skate.init(_tracing_startup_hook=hook)
    assert not skate.is_initialized()


def test_without_opentelemetry_the_error_names_the_extra(monkeypatch):
    skate.shutdown()
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(ImportError, match=r"\[tracing\]"):
        skate.init(num_cpus=1, _tracing_startup_hook=export_to_folder)
    assert not skate.is_initialized()


def test_a_path_that_leads_nowhere_starts_nothing():
    skate.shutdown()
    with pytest.raises(ImportError, match="no_such_module"):
        skate.init(_tracing_startup_hook="no_such_module:setup")
    assert not skate.is_initialized()


LINES = """
import sys, skate
from skate.util.tracing import setup_local_tmp_tracing as hook
hook.spans_dir = sys.argv[1]
for session in range(int(sys.argv[2])):
    with skate.init(engine="inline", _tracing_startup_hook=hook.setup_tracing):
        assert skate.get(skate.remote(abs).remote(-1)) == 1
"""


@pytest.mark.parametrize("sessions", [1, 3])
def test_lines_of_json_in_a_file_for_each_process(tmp_path, sessions):
    with Program([sys.executable, "-c", LINES, tmp_path, str(sessions)]) as program:
        assert program.wait(PATIENCE) == 0
    [path] = tmp_path.iterdir()
    assert path.name == f"{program.pid}.txt"
    assert names(map(json.loads, path.read_text().splitlines())) == [
        *["builtins.abs ray.remote"] * sessions,
        *["builtins.abs ray.remote_worker"] * sessions,
    ]


def test_no_spans_in_a_folder_that_others_may_write_to(tmp_path):
    tmp_path.chmod(0o777)
    ended = subprocess.run(
        [sys.executable, "-c", LINES, tmp_path, "1"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert "PermissionError: spans are not written" in ended.stderr
    assert not [*tmp_path.iterdir()]
