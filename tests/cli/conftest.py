"""What the tests of commands share."""

from collections.abc import Iterator

import pytest

import skate


@pytest.fixture(autouse=True)
def _no_session_stays() -> Iterator[None]:
    """End the session that a command has begun, as the end of its process would."""
    yield
    skate.shutdown()
