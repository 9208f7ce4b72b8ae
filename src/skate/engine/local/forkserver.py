"""A fresh, single-threaded interpreter that does nothing but fork workers.

    driver ── SEQPACKET socket ──► fork server ── fork ──► worker (own process group)
              FORK + descriptors                            its socket to the hub was made by
              ◄── FORKED, EXITED                            the driver and passed through

Forking from here is safe whatever the driver is: a notebook, threaded, using CUDA. Workers start
with everything that this process has imported: only skate in the "light" server, also what the
driver uses (torch, NumPy, …) in the "warm" one.

When the driver goes away, by whatever end, the socket closes: the server kills its workers'
process groups, removes the session's files and exits.
"""

from __future__ import annotations

import gc
import importlib
import marshal
import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from typing import Any

from skate._core.optional_imports import without_collections
from skate._core.tensorflow_processes import tensorflow_runs
from skate.engine.local import surroundings
from skate.engine.local.session import remove
from skate.engine.local.titles import load_setproctitle

# driver -> server
FORK = 0  # worker number; with descriptors: settings, hub socket, stdout, stderr
KILL = 1  # worker number
IMPORT = 2  # names of modules that later workers should find imported
SESSION = 3  # to a server from before there was one: its folders, and what to import when idle
# server -> driver
READY = 0  # an import is over, the first ones or one that was announced or asked for
FORKED = 1  # worker number, pid (by the worker itself) or a negative error number
EXITED = 2  # worker number, status as from waitpid
BUSY = 3  # an import begins that nobody has asked for

Around = tuple[list[str], list[str]]  # the driver's paths before and after an interpreter's own

_PACKET_BYTES = 1 << 20
_SET_CHILD_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of <linux/prctl.h>
_IDLE_MILLISECONDS = 2000  # without a request, before what can wait is imported
_MOST_POSTPONED = 3  # times, while the machine is busy: it may be so for hours
_UNUSED_MILLISECONDS = 60_000  # for which a server without a session waits for one

serves: bool = False  # whether this process is a fork server, or was forked from one


def main(
    fd: int,
    session_dirs: list[str],
    preload: list[str],
    later: list[str],
    around: Around | None = None,
    own_path: list[str] | None = None,
) -> None:
    """Serve until the driver is gone. Returns only in a worker, when its work is over.

    `preload` is imported at once, `later` when there is nothing else to do. An interpreter with
    packages of its own has `own_path`, and the driver's paths `around` it. Without `session_dirs`
    there is no session yet.
    """
    global serves
    serves = True
    control = socket.socket(fileno=fd)
    control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _PACKET_BYTES)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    surroundings.set_before_imports()
    import skate.engine.local.worker_main  # noqa: F401  # so that workers have it without importing

    surroundings.own_path = own_path
    load_setproctitle()
    try:
        _preload(preload)
    except _Unforkable as error:
        rest = [name for name in preload if name != error.name]
        os.execv(sys.executable, command(sys.executable, around, fd, session_dirs, rest, later))
    server = _Server(control, session_dirs, later)
    server.tell((READY,))
    server.serve()


def _preload(names: list[str]) -> None:
    with without_collections():
        for name in names:
            try:
                importlib.import_module(name)
            except Exception:  # a worker that needs it will show the user why
                pass
            if tensorflow_runs():
                raise _Unforkable(name)
        gc.freeze()  # later collections must not touch, and so copy, the shared pages


def _machine_is_busy() -> bool:
    """Return whether all processors have work, this process aside."""
    try:
        with open("/proc/loadavg") as file:
            running = int(file.read().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return False
    return running > (os.cpu_count() or 1)


class _Unforkable(Exception):  # noqa: N818  # it is caught right here
    """Importing a module has started something that does not survive a fork."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class _Server:
    def __init__(self, control: socket.socket, session_dirs: list[str], later: list[str]) -> None:
        self._control = control
        self._later = later
        self._session_dirs = session_dirs
        self._workers: dict[int, int] = {}  # number -> pid
        self._adopts = False  # becomes the parent of what workers leave behind
        read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._child_signal = read_end
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        self._wakeup_write = write_end

    def serve(self) -> None:
        poller = select.poll()
        poller.register(self._control, select.POLLIN)
        poller.register(self._child_signal, select.POLLIN)
        postponed = 0
        while True:
            ready = poller.poll(self._patience())
            if not ready and not self._session_dirs and not self._later:
                self._end()
            elif (
                not ready
                and self._session_dirs
                and postponed < _MOST_POSTPONED
                and _machine_is_busy()
            ):
                postponed += 1
            elif not ready:
                self.tell((BUSY,))
                self._import([self._later.pop(0)])
            for fd, _ in ready:
                if fd == self._child_signal:
                    os.read(fd, 4096)
                    self._reap()
                elif not self._handle():
                    self._end()

    def _patience(self) -> int | None:
        """Return for how many milliseconds to wait for a request. Before there is a session,
        nobody waits for one: what can be imported is."""
        if self._session_dirs:
            return _IDLE_MILLISECONDS if self._later else None
        return 0 if self._later else _UNUSED_MILLISECONDS

    def _handle(self) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(self._control, _PACKET_BYTES, 4)
        except OSError:
            return False
        if not data:
            return False
        operation, number = marshal.loads(data)
        if operation == IMPORT:
            self._import(number)
        elif operation == SESSION:
            self._session_dirs, later = number
            self._later += later
        elif operation == FORK:
            details, *rest = fds
            settings = marshal.loads(os.pread(details, os.fstat(details).st_size, 0))
            os.close(details)
            self._fork(number, settings, rest)
        elif operation == KILL and number in self._workers:
            _kill_group(self._workers[number])
        return True

    def _import(self, names: list[str]) -> None:
        try:
            _preload(names)
        except _Unforkable:
            os._exit(1)  # the driver starts another one, which leaves that module out
        self.tell((READY,))

    def _fork(self, number: int, settings: dict[str, Any], fds: list[int]) -> None:
        try:
            pid = os.fork()
        except OSError as error:  # no memory or no process to be had
            self.tell((FORKED, number, -(error.errno or 1)))
        else:
            if pid == 0:
                self._become_worker(number, settings, fds)
            self._workers[number] = pid
            if not self._adopts:
                self._adopts = True
                _adopt_orphans()
            with suppress(ProcessLookupError, PermissionError):
                os.setpgid(pid, pid)  # as the worker does: a kill may come before it gets there
        for fd in fds:
            os.close(fd)

    def _become_worker(self, number: int, settings: dict[str, Any], fds: list[int]) -> None:
        code = 1
        try:
            os.setpgid(0, 0)
            signal.set_wakeup_fd(-1)
            for sig, default in (
                (signal.SIGCHLD, signal.SIG_DFL),
                (signal.SIGINT, signal.default_int_handler),
            ):
                signal.signal(sig, default)
            for fd in (self._child_signal, self._wakeup_write):
                os.close(fd)
            # By itself: when this server dies and the driver sees the socket closed, every worker
            # that is there has told so, and those that have not can be started by another one.
            with suppress(OSError):  # the driver is gone, as the worker will see
                self._control.send(marshal.dumps((FORKED, number, os.getpid())))
            self._control.close()
            from skate.engine.local.worker_main import run_worker

            code = run_worker(number, settings, fds)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)

    def _reap(self) -> None:
        numbers = {pid: number for number, pid in self._workers.items()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            number = numbers.get(pid)
            if number is not None:
                del self._workers[number]
                _kill_group(pid)  # what it has started itself goes with it
                self.tell((EXITED, number, status))

    def tell(self, message: tuple[Any, ...]) -> None:
        try:
            self._control.send(marshal.dumps(message))
        except OSError:  # the driver is gone
            self._end()

    def _end(self) -> None:
        for pid in self._workers.values():
            _kill_group(pid)
        if self._session_dirs:
            remove(self._session_dirs)
            self._end_children()
            self._remove_what_comes_late()
        os._exit(0)

    def _remove_what_comes_late(self) -> None:
        """Remove what the workers of a server that died write until they notice the end."""
        deadline = time.monotonic() + 0.5
        while not remove(self._session_dirs) and time.monotonic() < deadline:
            time.sleep(0.005)

    def _end_children(self) -> None:
        """Collect workers, so that none stays behind as a zombie where nobody else would; and end
        what they have left: daemons in sessions of their own are this process's children now."""
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            try:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    for pid in _children():
                        with suppress(ProcessLookupError, PermissionError):
                            os.kill(pid, signal.SIGKILL)
                    time.sleep(0.001)
            except ChildProcessError:
                return


def _adopt_orphans() -> None:
    """Become the parent of processes whose own parents have ended, if they are descendants."""
    import ctypes

    with suppress(OSError, AttributeError):  # a system without it: daemons live on
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _children() -> list[int]:
    """Return the children of this process; none where the system does not tell."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return [pid for pid in _processes() if _parent_of(pid) == os.getpid()]


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def path_around() -> Around:
    """Return what this process has on `sys.path` before its standard library, and after it."""
    library = os.path.dirname(os.__file__)
    zipped = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    paths = [os.fspath(path) for path in sys.path]
    standard = [
        path in (library, os.path.join(library, "lib-dynload")) or os.path.basename(path) == zipped
        for path in paths
    ]
    first = standard.index(True) if any(standard) else 0
    rest = zip(paths[first:], standard[first:], strict=True)
    return paths[:first], [path for path, is_standard in rest if not is_standard]


def command(
    python: str,
    around: Around | None,
    fd: int,
    session_dirs: list[str],
    preload: list[str],
    later: list[str],
) -> list[str]:
    """Return the command line of a fork server that sees the same modules as this process.

    Where `python` has packages of its own, these go before the driver's: `around` is where the
    driver finds modules before and after its standard library.
    """
    paths = [os.fspath(path) for path in sys.path]
    program = (
        "import sys\n"
        f"around, own = {around!r}, [path for path in sys.path if path]\n"
        f"sys.path[:] = {paths!r} if around is None else [*around[0], *own, *around[1]]\n"
        "from skate.engine.local.forkserver import main\n"
        f"main({fd}, {session_dirs!r}, {preload!r}, {later!r}, around, own)"
    )
    return [python, *_interpreter_options(), "-c", program]


def _interpreter_options() -> list[str]:
    """Return the options that this interpreter was started with: -O, -W, -X utf8 and the like."""
    flags = sys.flags
    if not (
        sys.warnoptions or sys._xoptions or flags.isolated or flags.optimize or flags.dev_mode
        or flags.ignore_environment or flags.no_user_site or flags.no_site or flags.verbose
        or flags.bytes_warning or flags.debug or getattr(flags, "safe_path", False)
        or (flags.dont_write_bytecode and "PYTHONDONTWRITEBYTECODE" not in os.environ)
    ):  # fmt: skip
        return []  # without the time that it takes to import the answer
    import subprocess  # whose private function multiprocessing uses as well

    options = list(subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]
    for name, value in sys._xoptions.items():  # it knows some of these; twice is as good as once
        options += ["-X", name if value is True else f"{name}={value}"]
    return options
