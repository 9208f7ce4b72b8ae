"""Every example in a docstring of serve runs, and shows what it says."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from typing import Any

import pytest

from skate import serve
from skate.serve.handle import DeploymentHandle

DOCUMENTED: list[Callable[..., Any]] = [
    serve.batch, serve.deployment, serve.ingress, serve.run, DeploymentHandle,
]  # fmt: skip


@pytest.mark.parametrize("documented", DOCUMENTED, ids=lambda each: each.__name__)
def test_examples(documented: Callable[..., Any], run_locally: Callable[..., Any]) -> None:
    names = {"serve": serve, "__name__": "__main__"}
    text = documented.__doc__ or ""
    example = doctest.DocTestParser().get_doctest(text, names, documented.__name__, None, 0)
    assert example.examples
    shown: list[str] = []
    results = doctest.DocTestRunner().run(example, out=shown.append)
    assert not results.failed, "".join(shown)
