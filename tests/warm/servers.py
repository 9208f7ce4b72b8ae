"""Fixtures for packages of tests whose sessions use torch or other slow packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import oracle


def servers_with(packages: str) -> Any:
    """Return a fixture for the `conftest.py` of a package: fork servers of its sessions need not
    import these, nor what others have imported. Programs that tests start are as ever: who kills
    a warm one has killed its client first."""

    @pytest.fixture(scope="package", autouse=True)
    def warm_servers(warm_python: str) -> Iterator[None]:
        if oracle.ACTIVE:  # and Ray starts its processes by itself
            yield
            return
        from skate.engine.local.hub import servers

        def python_of(interpreter: Any) -> str:
            return warm_python if interpreter is None else str(interpreter.executable)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(servers, "_python_of", python_of)
            patch.setenv("WARM_PACKAGES", packages)
            yield

    return warm_servers
