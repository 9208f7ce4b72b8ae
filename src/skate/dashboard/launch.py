"""The driver's side of its page: a socket, and a process that is started when somebody connects.

Until then the page costs a listening socket and a thread that sleeps.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import socket
import subprocess
import sys
import threading
import weakref

from skate._core import notices
from skate._core.optional_imports import try_import
from skate.engine.sessions import own_session

_START = """
import json, sys
config = json.loads(sys.stdin.readline())
sys.path[:] = config["path"]
try:
    from skate.dashboard.process import main
    main(config)
except BaseException as error:
    print(f"{type(error).__name__}: {error}", flush=True)
    sys.exit(1)
"""
STAYS = b"stays"  # what the process says if it goes on after the session
_HOST = "127.0.0.1"
_BACKLOG = 16
_LAST_LOOK_SECONDS = 3.0  # that a page which somebody looks at may take before the session ends
_END_SECONDS = 5.0

_lingering: list[subprocess.Popen[bytes]] = []  # they show the end of their sessions
_open: weakref.WeakSet[DriverPage] = weakref.WeakSet()


def listening_socket(port: int | None) -> socket.socket:
    """Return a socket of this machine alone that is listened to.

    Args:
        port: Its number; None takes a free one.

    Raises:
        OSError: If the port is taken.
    """
    found = socket.socket()
    try:
        found.bind((_HOST, port or 0))
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        raise OSError(
            error.errno, f"{error.strerror}: port {port}; without a number, a free one is taken"
        ) from None
    return found


def new_token() -> str:
    """Return what nobody can guess."""
    return secrets.token_urlsafe(24)


def address_of(listener: socket.socket, token: str) -> str:
    """Return the address of a page, without `http://`."""
    return f"{_HOST}:{listener.getsockname()[1]}/{token}/"


class DriverPage:
    """The page of the session of this process: an address, at first.

    Args:
        port: Where; None takes a free one.

    Raises:
        ImportError: If what serves it is not installed.
        OSError: If the port is taken.
    """

    def __init__(self, port: int | None = None) -> None:
        for module in ("starlette", "uvicorn"):
            try_import(module, "serve")
        self.pid: int = os.getpid()
        self._token = new_token()
        self._listener = listening_socket(port)
        self.address: str = address_of(self._listener, self._token)
        self._home = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._wake, self._woken = os.pipe()
        self._thread = threading.Thread(target=self._run, name="skate-dashboard", daemon=True)
        _open.add(self)

    def show(self) -> None:
        """Show the session, which has begun."""
        self._home = own_session().home
        self._thread.start()

    def _run(self) -> None:
        """Start the process when somebody connects, and again should it have ended meanwhile."""
        while self._wait_for(self._listener.fileno()):
            self._process = process = self._started()
            assert process.stdout is not None
            if not self._wait_for(process.stdout.fileno()):
                return
            said = process.stdout.read().decode(errors="replace").strip()
            _close_pipes(process)
            if process.wait() > 0:  # below 0: somebody has killed it, and may look again
                notices.warn(f"the page cannot be shown: {said or process.returncode}")
                self._listener.shutdown(socket.SHUT_RDWR)  # who connects is refused
                return

    def _wait_for(self, descriptor: int) -> bool:
        """Wait until something comes; False if the session ends."""
        ready, _, _ = select.select([descriptor, self._wake], [], [])
        return self._wake not in ready

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it may outlive this process, whose pipes others wait for
            pass_fds=[self._listener.fileno()],
            start_new_session=True,  # Ctrl-C is for the driver
        )
        config = {
            "token": self._token,
            "pid": self.pid,
            "home": self._home,
            "listener": self._listener.fileno(),
            "path": sys.path,
        }
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write(json.dumps(config).encode() + b"\n")
            process.stdin.flush()
        return process

    def close(self) -> None:
        """Let the page take a last look, and end it.

        If somebody has it open, it goes on, and shows the last state.
        """
        if self not in _open:
            return
        _open.discard(self)
        if self._thread.is_alive():
            os.write(self._woken, b"x")
            self._thread.join()
        self._close_own()
        process = self._process
        if process is None or process.poll() is not None:
            return
        stays = _last_look(process)
        _close_pipes(process)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0 if stays else _END_SECONDS)
            return
        _lingering.append(process)

    def _close_own(self) -> None:
        self._listener.close()
        os.close(self._wake)
        os.close(self._woken)

    def detach_in_child(self) -> None:
        """Detach in a forked child: the page is the parent's."""
        self._close_own()
        if self._process is not None:
            _close_pipes(self._process)
            self._process.returncode = 0  # whoever waits for it is the parent


def _last_look(process: subprocess.Popen[bytes]) -> bool:
    """Tell the page that the session ends; return whether it stays to show the last state.

    By then it has asked for all that it needs.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(b"end\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], _LAST_LOOK_SECONDS)
        return not ready or os.read(process.stdout.fileno(), len(STAYS)) == STAYS
    except OSError:  # it is gone
        return False


def _close_pipes(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()


def _detach_all() -> None:
    for one in [*_open]:
        one.detach_in_child()
    _open.clear()
    _lingering.clear()


os.register_at_fork(after_in_child=_detach_all)
