"""Environments with packages of their own, as the driver uses them: found, or built once.

    find ──► complete on disk ──────────────────────────► Interpreter
      └────► a builder process ──► pipe, read by the reactor ──┴──► or RuntimeEnvSetupError

Whoever needs an environment that is being built is told when it is there. Nothing waits.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from skate._core.requirements import Requirements
from skate.engine.local.environment_builder import BuildRequest
from skate.engine.local.environment_folders import EnvironmentFolder
from skate.engine.local.hub.servers import Interpreter
from skate.engine.local.reactor import Reactor
from skate.exceptions import RuntimeEnvSetupError

_FAILURE_SECONDS = 10.0  # for so long, a failure is the answer to whoever asks for the same


class WantedEnvironment(NamedTuple):
    """What a worker's environment must have; part of the key that says which workers are alike."""

    name: str  # of its folder: what was wanted, and what was in the files that it names
    requirements: Requirements
    variables: tuple[tuple[str, str], ...] = ()  # that pip and the like obey
    directory: str = ""  # where relative paths begin
    timeout: float = 0.0  # seconds to build it; 0: no limit


Outcome = Interpreter | RuntimeEnvSetupError
WhenDone = Callable[[Outcome], None]


class Environments:
    """The environments of one session. All methods are called with the engine's lock held."""

    def __init__(
        self, reactor: Reactor, later: Callable[[float, Callable[[], None]], None]
    ) -> None:
        self._reactor = reactor
        self._later = later  # calls with the lock held
        self._known: dict[WantedEnvironment, Interpreter] = {}
        self._failed: dict[WantedEnvironment, tuple[float, RuntimeEnvSetupError]] = {}
        self._builds: dict[WantedEnvironment, _Build] = {}
        self._held: list[int] = []  # descriptors that keep environments from being removed

    def find(self, wanted: WantedEnvironment, when_done: WhenDone) -> None:
        """Call `when_done` with the interpreter or with why there is none: now or later."""
        known = self._known.get(wanted) or self._failure(wanted)
        if known is not None:
            when_done(known)
            return
        build = self._builds.get(wanted)
        if build is not None:
            build.waiting.append(when_done)
            return
        try:
            found: Outcome | None = self._complete(wanted)
            if found is None:
                self._begin(wanted, when_done)
        except OSError as error:
            found = self._fail(wanted, str(error))
        if found is not None:
            when_done(found)

    def _failure(self, wanted: WantedEnvironment) -> RuntimeEnvSetupError | None:
        until, error = self._failed.get(wanted, (0.0, None))
        return error if time.monotonic() < until else None

    def _complete(self, wanted: WantedEnvironment) -> Interpreter | None:
        """Return the environment, if it is on disk: kept there from now on."""
        if wanted.requirements.tool == "py_executable":
            return None
        folder = EnvironmentFolder(wanted.name)
        lock = folder.use()
        if lock is None:
            return None
        self._held.append(lock)
        return self._remember(wanted, str(folder.interpreter), folder.path)

    def _remember(self, wanted: WantedEnvironment, python: str, prefix: str) -> Interpreter:
        self._known[wanted] = found = Interpreter(python, prefix)
        return found

    def _fail(self, wanted: WantedEnvironment, reason: str) -> RuntimeEnvSetupError:
        tool = wanted.requirements.tool
        error = RuntimeEnvSetupError(
            f"The environment of runtime_env[{tool!r}] = {list(wanted.requirements.packages)} "
            f"could not be set up: {reason}"
        )
        now = time.monotonic()
        self._failed = {key: known for key, known in self._failed.items() if now < known[0]}
        self._failed[wanted] = (now + _FAILURE_SECONDS, error)
        return error

    # -- building ------------------------------------------------------------------------------

    def _begin(self, wanted: WantedEnvironment, when_done: WhenDone) -> None:
        build = _Build(wanted)
        build.waiting.append(when_done)
        self._builds[wanted] = build
        self._reactor.add(build.answer.fileno(), lambda: self._later(0, lambda: self._read(build)))
        if wanted.timeout:
            self._later(wanted.timeout, lambda: self._give_up(build))

    def _read(self, build: _Build) -> None:
        if build.wanted not in self._builds or not build.read():
            return
        self._end(build)
        python, reason = build.outcome()
        outcome: Outcome
        if reason is not None:
            outcome = self._fail(build.wanted, reason)
        elif found := self._complete(build.wanted):
            outcome = found
        else:  # an interpreter that was there before, or an environment of conda
            outcome = self._remember(
                build.wanted, python, os.path.dirname(os.path.dirname(python))
            )
        for when_done in build.waiting:
            when_done(outcome)

    def _give_up(self, build: _Build) -> None:
        if self._builds.get(build.wanted) is not build:
            return
        self._end(build)
        error = self._fail(
            build.wanted,
            f"it was not ready after setup_timeout_seconds={build.wanted.timeout:g}",
        )
        for when_done in build.waiting:
            when_done(error)

    def _end(self, build: _Build) -> None:
        del self._builds[build.wanted]
        self._reactor.remove(build.answer.fileno())
        build.end()

    # -- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """End what is being built, and let others remove what is not used any more."""
        for build in self._builds.values():  # the reactor is closed by now
            build.end()
        self._builds.clear()
        self._let_go()

    def detach_in_child(self) -> None:
        """Detach in a forked child: the builders are the parent's."""
        for build in self._builds.values():
            build.detach_in_child()
        self._builds.clear()
        self._let_go()

    def _let_go(self) -> None:
        for lock in self._held:
            os.close(lock)
        self._held.clear()


class _Build:
    """A builder process, and who waits for it."""

    def __init__(self, wanted: WantedEnvironment) -> None:
        self.wanted = wanted
        self.waiting: list[WhenDone] = []
        self._received = b""
        directory = wanted.directory or os.getcwd()
        program = (
            "import sys\n"
            f"sys.path[:] = {[os.fspath(path) for path in sys.path]!r}\n"
            "from skate.engine.local.environment_builder import main\n"
            "main()"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._request = self._process.stdin
        self.answer = self._process.stdout
        os.set_blocking(self.answer.fileno(), False)
        asked = list(wanted.requirements)
        request = BuildRequest(wanted.name, asked, directory, dict(wanted.variables))
        with suppress(OSError):  # it has died, and its answer is none
            self._request.write(f"{json.dumps(request)}\n".encode())
            self._request.flush()

    def read(self) -> bool:
        """Read what there is; True at its end."""
        try:
            data = os.read(self.answer.fileno(), 1 << 16)
        except BlockingIOError:
            return False
        self._received += data
        return not data or data.endswith(b"\n")

    def outcome(self) -> tuple[str, str | None]:
        """Return the path of the interpreter, or "" and why there is none."""
        try:
            answer = json.loads(self._received)
        except ValueError:
            return "", f"its builder ended with code {self._process.returncode}"
        return answer.get("python", ""), answer.get("error")

    def end(self) -> None:
        """End the builder, with what it has started."""
        self.detach_in_child()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def detach_in_child(self) -> None:
        self._request.close()
        self.answer.close()
