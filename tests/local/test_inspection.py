"""How a process of a session is asked, and who may ask."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate.engine.local.inspection.dumps import StackDump
from skate.engine.local.inspection.questions import QuestionSocket
from skate.engine.local.reactor import Reactor
from skate.engine.sessions import NoAnswerError, Session, dumped_stacks, sessions
from tests.support import eventually, local_only

NOBODY = 65534
# Since Python 3.12, in a process with threads.
forking = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Session]:
    """This process, as it is asked in a folder of the test."""
    reactor = Reactor()
    reactor.start_courier()
    answers: dict[str, Callable[..., Any]] = {
        "double": lambda number: 2 * number,
        "fail": lambda: 1 / 0,
        "odd": lambda: {"path": Path("x")},
    }
    questions = QuestionSocket(reactor, str(tmp_path), answers)
    yield Session(os.getpid(), str(tmp_path))
    questions.close()
    reactor.close()


def test_a_question_and_its_answer(asked: Session) -> None:
    assert asked.ask("double", number=21) == 42
    assert asked.ask("odd") == {"path": "x"}  # what JSON does not know is text


@pytest.mark.parametrize(
    ("question", "hint"),
    [("nonsense", "'nonsense' is none of double"), ("fail", "ZeroDivisionError")],
)
def test_what_cannot_be_answered(asked: Session, question: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        asked.ask(question)
    assert asked.ask("double", number=1) == 2


@pytest.mark.parametrize("sent", [b"", b"nonsense\n", b"[1]\n", b"x" * 200_000, b"\xff\xfe\n"])
def test_garbage_is_not_answered_and_does_no_harm(asked: Session, sent: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(f"{asked.home}/ask-{os.getpid()}")
        try:
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65536)
        except OSError:  # it was cut off
            answer = b""
    assert answer == b"" or "error" in json.loads(answer)
    assert asked.ask("double", number=1) == 2


def test_those_who_ask_and_never_finish_keep_nobody_for_ever(asked: Session) -> None:
    silent = [socket.socket(socket.AF_UNIX) for _ in range(12)]
    for one in silent:
        one.connect(f"{asked.home}/ask-{os.getpid()}")
    for one in silent:
        one.close()
    eventually(lambda: _answers(asked))


def _answers(asked: Session) -> bool:
    try:
        return bool(asked.ask("double", number=1) == 2)
    except NoAnswerError:
        return False


@forking
@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user takes root")
def test_another_user_gets_no_answer_even_where_the_folder_is_open(asked: Session) -> None:
    path = f"{asked.home}/ask-{os.getpid()}"
    os.chmod(asked.home, 0o777)
    os.chmod(path, 0o777)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            # Opened before, as other users cannot enter the folders above it.
            folder = os.open(asked.home, os.O_PATH)
            os.setuid(NOBODY)
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(60)
                connection.connect(f"/proc/self/fd/{folder}/ask-{os.getppid()}")
                connection.sendall(b'{"ask": "double", "number": 1}\n')
                os.write(writing, b"<" + connection.recv(65536) + b">")
        except OSError as error:
            os.write(writing, f"<{type(error).__name__}>".encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    with os.fdopen(reading) as pipe:
        assert pipe.read() in ("<>", "<ConnectionResetError>", "<BrokenPipeError>")


# -- signals --------------------------------------------------------------------------------------


def test_stacks_by_a_signal(tmp_path: Path) -> None:
    dump = StackDump(str(tmp_path))
    try:
        for _ in range(2):
            threads = dumped_stacks(str(tmp_path), os.getpid())
            assert threads is not None
            names = [frame["function"] for frame in threads[0]["frames"]]
            assert "test_stacks_by_a_signal" in names
            assert threads[0]["is_main"]
    finally:
        dump.close()
    assert dumped_stacks(str(tmp_path), os.getpid()) is None
    os.kill(os.getpid(), signal.SIGURG)  # too late: it is ignored


def test_a_handler_of_the_users_own_stays(tmp_path: Path) -> None:
    caught = threading.Event()
    before = signal.signal(signal.SIGURG, lambda *_: caught.set())
    try:
        dump = StackDump(str(tmp_path))
        os.kill(os.getpid(), signal.SIGURG)
        assert caught.wait(60)
        dump.close()
        assert signal.getsignal(signal.SIGURG) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGURG, before)
    assert os.listdir(tmp_path) == []


# -- sessions -------------------------------------------------------------------------------------


@local_only
def test_a_worker_that_ends_leaves_nothing_in_the_folder(start: Any) -> None:
    start(num_cpus=1)
    (session,) = [one for one in sessions() if one.pid == os.getpid()]
    actor = skate.remote(type("A", (), {"pid": lambda self: os.getpid()})).remote()
    pid = skate.get(actor.pid.remote())
    assert {f"ask-{pid}", f"stack-{pid}"} <= set(os.listdir(session.home))
    skate.kill(actor)
    eventually(lambda: not {f"ask-{pid}", f"stack-{pid}"} & set(os.listdir(session.home)))


@forking
@local_only
def test_a_child_that_the_program_forks_answers_for_nobody(start: Any) -> None:
    start(num_cpus=1)
    (session,) = [one for one in sessions() if one.pid == os.getpid()]
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent is done
        os._exit(0)
    os.close(reading)
    try:
        assert session.ask("status")["pid"] == os.getpid()
        skate.shutdown()
        with pytest.raises(NoAnswerError):
            session.ask("status")
    finally:
        os.close(writing)
        os.waitpid(pid, 0)
