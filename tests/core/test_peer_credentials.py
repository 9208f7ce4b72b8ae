"""Who is at the other end of a Unix socket."""

from __future__ import annotations

import os
import socket

import pytest

from skate._core.peer_credentials import is_own_process, user_of_peer


def test_the_kernel_says_whose_the_other_end_is(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there:
        user = os.geteuid()
        assert user_of_peer(here) == user_of_peer(there) == user
        assert is_own_process(here)
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)
        assert not is_own_process(here)
