"""What the tests share: markers for engines, programs of their own, and events and counters that
cross processes."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

#: The test needs work that goes on while the driver does something else, or in another process.
parallel = pytest.mark.engines("local", "ray")

#: The test is about a promise of the local engine alone.
local_only = pytest.mark.engines("local")

#: How long anything in a test may take before it counts as a hang.
PATIENCE = float(os.environ.get("SKATE_TEST_PATIENCE", "60"))


def eventually(condition: Callable[[], object], patience: float = PATIENCE) -> None:
    """Return as soon as `condition` holds; fail when it does not within `patience` seconds."""
    deadline = time.monotonic() + patience
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not true within {patience} s: {condition}")
        time.sleep(0.002)


def reasons_for_waits() -> str:
    """Return why what threads of this process wait for is not there, as users are told."""
    from skate.engine import current_engine

    engine: Any = current_engine()
    return "; ".join(row["text"] for row in engine.state("waits"))


def handle_signals_as_usual() -> None:
    """Undo what starting the tests by a shell's `&` or by some runners does: signals that are
    ignored or blocked there would be so in every program that a test interrupts."""
    usual: dict[int, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
    }
    for number, handler in usual.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, usual)


class Program(subprocess.Popen[str]):
    """A program that a test has started, with text in its pipes and a process group of its own.

    It is killed with its group when its test ends, or before if an error leaves its `with`: who
    only waits for it there may wait for ever.
    """

    started: list[Program] = []  # noqa: RUF012  # in this process, and not known to have ended
    lasting: set[int] = set()  # noqa: RUF012  # pids of those that are there for all tests

    def __init__(self, command: Sequence[str | os.PathLike[str]], **options: Any) -> None:
        super().__init__(command, **{"text": True, "start_new_session": True, **options})
        self.started.append(self)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self.kill_group()
        super().__exit__(kind, error, trace)

    def outlive_tests(self) -> None:
        """Go on when the test ends that is the first to need it."""
        self.started.remove(self)
        self.lasting.add(self.pid)

    def kill_group(self) -> None:
        """Kill it, with what it has started and left in its group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self.poll() is None:
                os.killpg(self.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill it, and close its pipes."""
        self.kill_group()
        for pipe in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        self.wait(PATIENCE)

    @classmethod
    def end_all(cls, since: int = 0) -> None:
        """End those that were started after the first `since` ones."""
        while len(cls.started) > since:
            cls.started.pop().end()


def run_program(
    command: Sequence[str | os.PathLike[str]],
    *,
    input: str | None = None,
    timeout: float = 2 * PATIENCE,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, and return what it has printed and its exit code.

    `input` is what it reads; after `timeout` seconds it is killed and `TimeoutExpired` raised.
    With `check` it must end well. Other options are those of `Popen`.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        pipes["stdin"] = subprocess.PIPE
    with Program(command, **{**pipes, **options}) as program:
        out, err = program.communicate(input, timeout)
    Program.started.remove(program)
    assert not check or program.returncode == 0, f"{out}\n{err}"
    return subprocess.CompletedProcess(command, program.returncode, out, err)


def processes_of_session() -> list[psutil.Process]:
    """Return what runs below this process, without what is there for all tests."""
    below = psutil.Process().children(recursive=True)
    return [process for process in below if process.pid not in Program.lasting]


def offline_trackers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have MLflow and Weights & Biases as they are, without a network, for a fixture."""
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    yield
    wandb.teardown()


class Flag:
    """An event that processes share: a file that exists once it is set."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def set(self) -> None:
        open(self.path, "w").close()

    def is_set(self) -> bool:
        return os.path.exists(self.path)

    def wait(self) -> None:
        eventually(self.is_set)


class Tally:
    """A list of words that processes share: each `add` is one atomic append to a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def add(self, word: object = "x") -> int:
        """Append a word; returns how many there are now."""
        with open(self.path, "a") as file:
            file.write(f"{word}\n")
        return len(self.words())

    def words(self) -> list[str]:
        return Path(self.path).read_text().split() if os.path.exists(self.path) else []

    def __len__(self) -> int:
        return len(self.words())


def error_in_a_fork(call: Callable[[], object]) -> str:
    """Return what a forked child of this process raises, as "Type: text"; "" for nothing."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            call()
        except BaseException as error:
            os.write(writer, f"{type(error).__name__}: {error}".encode())
        os._exit(0)
    os.close(writer)
    with open(reader) as said:
        ended, _, _ = select.select([said], [], [], PATIENCE)
        if not ended:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return said.read() if ended else "waits for ever"
