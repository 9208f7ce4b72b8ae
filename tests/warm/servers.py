"""A fixture for packages of tests whose sessions use torch or other slow packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package", autouse=True)
def warm_servers(warm_python: str) -> Iterator[None]:
    """Fork servers, and programs that tests start, need not import what others have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", warm_python)
        yield
