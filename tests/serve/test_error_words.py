"""The words of errors that programs for Ray look for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from skate import serve
from skate.serve.config import AutoscalingConfig
from skate.serve.schema import LoggingConfig, ServeDeploySchema


@serve.deployment
class Model:
    def __call__(self, request: Any = None) -> None:
        return None


async def loads_nothing() -> None:
    return None


def plain(items: list[Any]) -> list[Any]:
    return items


def apps(*names: str) -> dict[str, Any]:
    return {"applications": [{"name": name, "import_path": "a:b"} for name in names]}


WORDS: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: Model(), RuntimeError, "cannot be constructed directly"),
    (lambda: serve.run(Model.bind(), name=""), serve.exceptions.RayServeException, "non-empty"),
    (lambda: serve.run(Model.bind(), route_prefix="/a/"), ValueError, "with a trailing '/'"),
    (lambda: serve.run(Model.bind(), route_prefix="/{a}"), ValueError, "not contain wildcards"),
    (lambda: serve.batch(plain), TypeError, "with @serve.batch must be 'async def'"),
    (lambda: serve.batch(1), TypeError, "functions or methods"),  # type: ignore[arg-type]
    (lambda: serve.multiplexed(1), TypeError, "a function or method"),  # type: ignore[arg-type]
    (lambda: serve.multiplexed(plain), TypeError, "async functions or methods"),
    (lambda: serve.multiplexed(loads_nothing), TypeError, "'model_id: str' argument"),
    (
        lambda: Model.options(placement_group_strategy="PACK"),
        ValueError,
        "placement_group_bundles, which must also be provided",
    ),
    (
        lambda: Model.options(
            ray_actor_options={"num_cpus": 1}, placement_group_bundles=[{"CPU": 0.5}]
        ),
        ValueError,
        "a subset of the first bundle",
    ),
    (lambda: AutoscalingConfig(min_replicas=2, max_replicas=1), ValueError, "max_replicas"),
    (lambda: LoggingConfig(additional_log_standard_attrs=["nope"]), ValueError, "'nope'"),
    (
        lambda: ServeDeploySchema.model_validate(apps("a", "a")),
        ValueError,
        "duplicate applications",
    ),
    (lambda: ServeDeploySchema.model_validate(apps("")), ValueError, "must be nonempty"),
]


@pytest.mark.parametrize(("mistake", "kind", "words"), WORDS)
def test_words(mistake: Callable[[], object], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        mistake()


def test_mistakes_of_limits_are_those_of_settings() -> None:
    pydantic = pytest.importorskip("pydantic")
    for fields in ({"min_replicas": 2, "max_replicas": 1}, {"initial_replicas": 5}):
        with pytest.raises(pydantic.ValidationError):
            AutoscalingConfig(**fields)  # type: ignore[arg-type]


def test_words_of_streams(run_locally: Callable[..., Any]) -> None:
    @serve.deployment
    class Counts:
        def __call__(self) -> Any:
            yield 1

        async def take(self, item: object) -> object:
            return item

        async def wait(self) -> str:
            handle = serve.get_deployment_handle("Counts", "default")
            with pytest.raises(
                RuntimeError, match=r"should not be called from within an `asyncio` event loop"
            ):
                handle.take.remote(1).result()
            with pytest.raises(TypeError, match=r"awaited directly: .*`async for"):
                await handle.options(stream=True).remote()
            return "ok"

    handle = run_locally(Counts.bind())
    assert handle.wait.remote().result() == "ok"
    stream = handle.options(stream=True).remote()
    with pytest.raises(TypeError, match=r"`\.result\(\)` is for one"):
        stream.result()
    with pytest.raises(RuntimeError, match="cannot be passed to downstream handle calls"):
        handle.take.remote(stream).result()
    with pytest.raises(
        serve.exceptions.RayServeException, match=r"'nope' .*does not exist\. Available methods"
    ):
        handle.nope.remote().result()
