"""Sessions of this user, looked at from outside: what `skate status`, `list`, `stack`, `memory`,
`timeline` and `logs` are made of.

Each process of a session answers on a socket of its own, in JSON. One that cannot, because C code
keeps the GIL, is made to write down its stacks by a signal; of one that is stopped, /proc tells.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from skate._core.live_rows import MEASUREMENTS
from skate._core.peer_credentials import is_own_process
from skate.engine.local.call_sites import Sites
from skate.engine.local.inspection.traces import DUMP_PREFIX, SOCKET_PREFIX
from skate.engine.local.reactor import COURIER
from skate.engine.local.session import live_homes
from skate.engine.local.socket_paths import use_socket

Row = dict[str, Any]

_ANSWER_SECONDS = 10.0  # for what takes a while to collect
_NEWS_SECONDS = 3.0  # for what is asked again and again
_STACK_SECONDS = 0.7  # for stacks, which take none; the signal follows
_DUMP_SECONDS = 2.0
_LOOK_SECONDS = 0.005
_SIGNAL = signal.SIGURG
_STATES = {"T": "stopped", "t": "stopped by a debugger", "Z": "ended", "X": "ended", "D": "in D"}
_THREAD = re.compile(r"^(?:Current )?[Tt]hread 0x[0-9a-f]+(?: \[(.*)\])? .*:$")
_FRAME = re.compile(r'^  File "(.*)", line (\d+|\?\?\?) in (.*)$')


class NoAnswerError(ConnectionError):
    """A process of a session does not answer."""


class Session:
    """A session that runs.

    Attributes:
        pid: The process of the driver.
        home: The session's folder in shared memory.
    """

    def __init__(self, pid: int, home: str) -> None:
        self.pid = pid
        self.home = home

    def processes(self) -> list[int]:
        """Return the driver, and the workers in the order of their numbers."""
        traces = (SOCKET_PREFIX, DUMP_PREFIX)
        try:
            names = [name for name in os.listdir(self.home) if name.startswith(traces)]
        except OSError:  # it has just ended
            names = []
        pids = {int(name.partition("-")[2]) for name in names} - {self.pid}
        return [self.pid, *sorted(pid for pid in pids if state_of(pid) is not None)]

    def ask(
        self, question: str, pid: int | None = None, timeout: float | None = None, **more: object
    ) -> Any:
        """Return what a process answers.

        Args:
            question: One of the answers in `skate.engine.local.inspection`.
            pid: The process; the driver unless given.
            timeout: How many seconds to wait.
            more: Arguments of the question.

        Raises:
            NoAnswerError: If it does not answer in time, or has ended.
            ValueError: If it refuses the question.
        """
        pid = pid or self.pid
        answer = _asked(self.home, pid, {"ask": question, **more}, timeout or _ANSWER_SECONDS)
        if "error" in answer:
            raise ValueError(f"process {pid} answers: {answer['error']}")
        return answer["value"]

    @property
    def is_over(self) -> bool:
        """Whether its driver has ended it, or is gone."""
        return live_homes().get(self.pid) != self.home

    def news(self, **seen: int) -> Row:
        """Return what there is now, and what has happened since `seen`.

        Args:
            seen: How many tasks that ended (`ended`), errors (`failed`), actors that are gone
                (`gone`) and pieces of output (`printed`) are known.
        """
        found: Row = self.ask("news", None, _NEWS_SECONDS, **seen)
        return found

    def under_way(self) -> dict[str, list[Row]]:
        """Return the rows of all kinds that libraries have announced, in all processes."""
        rows: dict[str, list[Row]] = {}
        for found in _at_once(self._under_way_of, self.processes()):
            for kind, some in found.items():
                rows.setdefault(kind, []).extend(some)
        return rows

    def _under_way_of(self, pid: int) -> dict[str, list[Row]]:
        try:
            return dict(self.ask("under_way", pid, _STACK_SECONDS))
        except NoAnswerError:
            return {}

    def measurements(self) -> list[tuple[int, list[Row]]]:
        """Return what all processes have measured, by their numbers."""
        pids = self.processes()
        return list(zip(pids, _at_once(self._measured_by, pids), strict=True))

    def _measured_by(self, pid: int) -> list[Row]:
        try:
            return list(self.ask("list", pid, _NEWS_SECONDS, kind=MEASUREMENTS))
        except (NoAnswerError, ValueError):  # numbers of others are shown all the same
            return []

    def rows(self, kind: str) -> list[Row]:
        """Return the rows of a kind that all processes of the session know."""
        rows = [{"session": self.pid, **row} for row in self.ask("list", kind=kind)]
        if kind in ("datasets", "trials", "deployments"):
            workers = self.processes()[1:]
            for found in _at_once(lambda pid: self._rows_of(pid, kind), workers):
                rows += found
        if kind == "tasks":
            self._add_beginnings([row for row in rows if row["state"] == "RUNNING"])
        return rows

    def _add_beginnings(self, running: list[Row]) -> None:
        """Say of tasks since when they run, which their processes know; of calls in threads and
        coroutines it is known when they were sent."""
        pids = {row["worker_pid"] for row in running}
        found = _at_once(self._beginnings_in, sorted(pids))
        began = {id: start for some in found for id, start in some.items()}
        for row in running:
            row["start_time_ms"] = began.get(row["task_id"], row["start_time_ms"])

    def _beginnings_in(self, pid: int) -> dict[str, int]:
        try:
            runs = self.ask("runs", pid, _STACK_SECONDS)
        except (NoAnswerError, ValueError):  # a session of an older version does not know
            return {}
        return {run["task_id"]: int((time.time() - run["seconds"]) * 1000) for run in runs}

    def _rows_of(self, pid: int, kind: str) -> list[Row]:
        try:
            found = self.ask("list", pid, _STACK_SECONDS, kind=kind)
        except NoAnswerError:
            return []
        return [{"session": self.pid, **row} for row in found]

    def memory(self) -> list[Row]:
        """Return the objects that have bytes, with the lines that made them where those are
        known."""
        rows: list[Row] = self.ask("memory")
        lines = self.call_sites()
        return [{**row, "line": lines.get(row["object_id"], (None, None))[1]} for row in rows]

    def call_sites(self) -> Sites:
        """Return how and where objects were made, by their ids, as far as that is noted."""
        lines: Sites = {}
        for found in _at_once(self._sites_of, self.processes()):
            lines.update(found)
        return lines

    def _sites_of(self, pid: int) -> Sites:
        try:
            return dict(self.ask("sites", pid, _STACK_SECONDS))
        except NoAnswerError:
            return {}

    def stacks(self, pids: Sequence[int] | None = None) -> list[Row]:
        """Return what processes do now, and why they do not go on: all of them, or those given."""
        with ThreadPoolExecutor(1) as aside:
            graph = aside.submit(self._wait_graph)
            rows = _at_once(self._stacks_of, self.processes() if pids is None else pids)
            self._explain_waits(rows)
        for row in rows:
            row["because"] = _reasons(graph.result(), row["pid"], row["role"])
        return rows

    def _wait_graph(self) -> Row:
        if state_of(self.pid) in _STATES:
            return {}
        try:
            return dict(self.ask("wait_graph", None, _DUMP_SECONDS))
        except (NoAnswerError, ValueError):
            return {}

    def _stacks_of(self, pid: int) -> Row:
        role = "driver" if pid == self.pid else "worker"
        row: Row = {"session": self.pid, "pid": pid, "role": role, "title": command_of(pid)}
        state = state_of(pid)
        if state in _STATES:
            return {**row, "state": _STATES[state], "kernel": _kernel_function(pid)}
        try:
            return {**row, "state": "answers", **self.ask("stacks", pid, _STACK_SECONDS)}
        except NoAnswerError:
            pass
        threads = dumped_stacks(self.home, pid)
        if threads is not None:
            return {**row, "state": "busy", "threads": threads}
        return {**row, "state": "silent", "kernel": _kernel_function(pid)}

    def _explain_waits(self, rows: list[Row]) -> None:
        """Say what makes the objects that processes wait for."""
        ids = sorted({id for row in rows for id in row.get("waits_for", ())})
        if not ids:
            return
        try:
            found = {
                one["object_id"]: one for one in self.ask("waits", None, _STACK_SECONDS, ids=ids)
            }
        except NoAnswerError:
            found = {}
        for row in rows:
            row["waits_for"] = [
                found.get(id, {"object_id": id}) for id in row.get("waits_for", ())
            ]


def _reasons(graph: Row, pid: int, role: str) -> list[str]:
    """Return why a process does not go on: of the driver, all that is behind what it waits for;
    of a worker, what is the matter with its work."""
    if role == "driver":
        return list(graph.get("reasons", ()))
    nodes = graph.get("nodes", ())
    return [node["text"] for node in nodes if node["pid"] == pid and node["cause"] != "running"]


def session_around() -> Session | None:
    """Return the session of which this process is the driver or a worker, if it can be found."""
    own = os.getpid()
    return next((session for session in sessions() if own in session.processes()), None)


def own_session() -> Session:
    """Return the session of which this process is the driver."""
    pid = os.getpid()
    return Session(pid, live_homes()[pid])


def sessions() -> list[Session]:
    """Return this user's sessions. What is left of those that died is removed."""
    return [Session(pid, home) for pid, home in live_homes().items()]


def _at_once(ask: Any, pids: Sequence[int]) -> list[Any]:
    if not pids:
        return []
    with ThreadPoolExecutor(min(32, len(pids))) as pool:
        return list(pool.map(ask, pids))


def _asked(home: str, pid: int, question: Row, timeout: float) -> Row:
    deadline = time.monotonic() + timeout
    answer = b""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout)
            use_socket(home, f"{SOCKET_PREFIX}{pid}", connection.connect)
            if not is_own_process(connection):
                raise PermissionError(f"process {pid} is not this user's")
            connection.sendall(json.dumps(question).encode() + b"\n")
            while more := connection.recv(1 << 20):
                answer += more
                connection.settimeout(max(0.001, deadline - time.monotonic()))
    except OSError as error:
        raise NoAnswerError(f"process {pid} does not answer: {error}") from None
    if not answer:
        raise NoAnswerError(f"process {pid} has ended, or too many ask it at once")
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise NoAnswerError(f"process {pid} has ended in the middle of its answer")
    return found


# -- processes that cannot answer -----------------------------------------------------------------


def state_of(pid: int) -> str | None:
    """Return the letter by which the kernel names the state of a process; None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0].decode()
    except (OSError, IndexError):
        return None


def resident_bytes(pid: int) -> int:
    """Return how much memory of the machine a process has; what it shares with others too."""
    return memory_of(pid)[0]


def memory_of(pid: int) -> tuple[int, int]:
    """Return how much memory a process has, and how much of it may be shared with others."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, resident, shared, *_ = map(int, file.read().split())
    except (OSError, ValueError):
        return 0, 0
    page = os.sysconf("SC_PAGESIZE")
    return resident * page, shared * page


def command_of(pid: int) -> str:
    """Return the command line of a process, or what it has written over it."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _kernel_function(pid: int) -> str:
    """Return where in the kernel the main thread waits, if that may be known."""
    with suppress(OSError), open(f"/proc/{pid}/wchan") as file:
        found = file.read()
        return "" if found == "0" else found
    return ""


def dumped_stacks(home: str, pid: int) -> list[Row] | None:
    """Have a process write down its stacks, without its GIL; None if it cannot.

    The thread that writes has the signal blocked meanwhile: once there is something and no more
    threads block it than before, all of it is there.
    """
    if not _catches(pid):
        return None
    try:
        file = os.open(os.path.join(home, f"{DUMP_PREFIX}{pid}"), os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX)  # one at a time
        os.ftruncate(file, 0)
        before = _blocking_threads(pid)
        os.kill(_thread_for_signals(pid), _SIGNAL)
        deadline = time.monotonic() + _DUMP_SECONDS
        while not os.fstat(file).st_size or _blocking_threads(pid) - before:
            if time.monotonic() > deadline:
                return None
            time.sleep(_LOOK_SECONDS)
        text = os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")
        return _threads_in(text)
    except ProcessLookupError:
        return None
    finally:
        os.close(file)


def _thread_for_signals(pid: int) -> int:
    """Return the courier of a process: system calls of other threads shall not be interrupted.
    (The kernel takes the number of a thread, and gives the signal to that one first.)"""
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/comm") as file:
                if file.read().strip() == COURIER:
                    return int(thread)
    return pid


def _catches(pid: int) -> bool:
    return bool(_mask(f"/proc/{pid}/status", "SigCgt") >> (_SIGNAL - 1) & 1)


def _blocking_threads(pid: int) -> set[str]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return set()
    return {
        thread
        for thread in threads
        if _mask(f"/proc/{pid}/task/{thread}/status", "SigBlk") >> (_SIGNAL - 1) & 1
    }


def _mask(path: str, name: str) -> int:
    with suppress(OSError), open(path) as file:
        for line in file:
            if line.startswith(f"{name}:"):
                return int(line.split()[1], 16)
    return 0


def _threads_in(text: str) -> list[Row]:
    """Return the threads of a text by `faulthandler`, the innermost frames last, the main thread,
    which it writes last, first."""
    threads: list[Row] = []
    for line in text.splitlines():
        if begun := _THREAD.match(line):
            threads.append({"name": begun[1] or "thread", "is_main": False, "frames": []})
        elif threads and (frame := _FRAME.match(line)):
            number = int(frame[2]) if frame[2].isdigit() else 0
            row = {"function": frame[3], "file": frame[1], "line": number}
            threads[-1]["frames"].insert(0, row)
    if threads:
        threads[-1].update(name="MainThread", is_main=True)
    return threads[::-1]
