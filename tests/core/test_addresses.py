"""Host and port as one text."""

from __future__ import annotations

from skate._core.addresses import build_address


def test_hosts_with_colons_are_in_brackets() -> None:
    assert build_address("::1", 80) == "[::1]:80"
    assert build_address("localhost", "80") == "localhost:80"
