"""Sessions that are asked from outside, by processes that die while they answer."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from skate.engine import sessions as sessions_module
from skate.engine.local.inspection.traces import SOCKET_PREFIX
from skate.engine.sessions import NoAnswerError, Session
from tests.support import PATIENCE


@pytest.fixture(params=[b'{"value": [1,', b"", b"[1]", b"[" * 100_000, b"\xff"], ids=repr)
def cut_short(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    """A session whose only process says this, and is gone."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / f"{SOCKET_PREFIX}{os.getpid()}"))
        listener.listen()
        listener.settimeout(PATIENCE)

        def answer() -> None:
            connection, _ = listener.accept()
            with closing(connection):
                connection.recv(1000)
                connection.sendall(request.param)

        thread = threading.Thread(target=answer)
        thread.start()
        yield Session(os.getpid(), str(tmp_path))
        thread.join(PATIENCE)


def test_half_an_answer_is_none(cut_short: Session) -> None:
    with pytest.raises(NoAnswerError, match=str(os.getpid())):
        cut_short.ask("news")


def test_half_an_answer_of_a_worker_hides_no_other(cut_short: Session) -> None:
    assert cut_short.under_way() == {}


def test_a_process_of_another_user_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions_module, "is_own_process", lambda connection: False)
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(str(tmp_path / f"{SOCKET_PREFIX}{os.getpid()}"))
        theirs.listen()
        with pytest.raises(NoAnswerError, match="not this user's"):
            Session(os.getpid(), str(tmp_path)).ask("news", timeout=PATIENCE)
