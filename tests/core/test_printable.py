"""Text of others on a terminal, or in a log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skate._core.printable import printable


def test_what_one_sees_stays() -> None:
    assert printable("/a b/ü/漢字") == "/a b/ü/漢字"
    assert printable("/a\r\nGET /b 200\x1b[2J\u202e\ud800") == (
        "/a\\r\\nGET /b 200\\x1b[2J\\u202e\\ud800"
    )


@given(st.text())
def test_it_is_one_line_that_can_be_printed(text: str) -> None:
    assert printable(text).isprintable()
