"""Who reads the sockets: the thread that waits.

A sync call would lose most of its time to handing the answer from a reading thread to the waiting
one. So there is no fixed reading thread. Whichever thread waits becomes the *leader*: it polls,
reads and handles all messages until its own condition holds, then passes the lead on.

    user threads    run_until(waiter): lead, or follow (sleep until done or asked to lead)
    courier         a background thread that leads when no user thread has for a tick, so that
                    work goes on while the program computes; it gives way to any user thread

The courier's states: *ticking* while user threads are active (it only helps to flush and read),
*leading* when they are not, and in *deep* sleep while a user thread leads for long. An idle
process therefore wakes nobody, and a busy one wakes the courier at most once per tick.
"""

from __future__ import annotations

import heapq
import itertools
import os
import select
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from skate.engine.local.wire import Connection, Message

COURIER = "skate-courier"  # its name

_LOOK_SECONDS = 60e-6
_FOREVER_SECONDS = 1e6  # longer than poll can take, and than anybody waits
_TICK_SECONDS = 0.005
_CLOSE_SECONDS = 0.5
_READ = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR


class Waiter:
    """Something a thread waits for. `finish` may be called from any thread, more than once."""

    __slots__ = ("_sleep", "done", "look")

    def __init__(self) -> None:
        self.done: bool = False
        self.look: bool = False  # the answer may come within microseconds: look before sleeping
        self._sleep: threading.Lock | None = None

    def finish(self) -> None:
        self.done = True
        self.wake()

    def wake(self) -> None:
        sleep = self._sleep
        if sleep is not None:
            try:
                sleep.release()
            except RuntimeError:  # awake already
                pass

    def prepare_sleep(self) -> threading.Lock:
        if self._sleep is None:
            self._sleep = threading.Lock()
        self._sleep.acquire(blocking=False)
        return self._sleep


class StopSignal(Protocol):
    """Whether to give up waiting."""

    pending: bool


class Reactor:
    """Polls file descriptors and calls their handlers, on the leader's thread."""

    def __init__(self) -> None:
        self.dirty: list[Connection] = []  # connections with collected messages
        self.after: deque[Callable[[], None]] = deque()  # run outside of handlers
        self.on_turn: Callable[[], None] = _nothing  # called at the start of every turn
        self.activity: int = 0  # grows with every use by a user thread
        self.closed: bool = False
        self._poller = select.epoll()
        self._handlers: dict[int, Callable[[], None]] = {}
        self._writers: dict[int, Connection] = {}
        self._patience = 8
        self._alarm = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poller.register(self._alarm, _READ)
        self._handlers[self._alarm] = self._clear_alarm
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._timer_order = itertools.count()
        self._arming = threading.RLock()  # guards what the poller and `_writers` know
        self._lead = threading.Lock()
        self._leader = 0  # ident of the thread that leads
        self._followers: deque[Waiter] = deque()
        self._courier: threading.Thread | None = None
        self._courier_leads = False
        self._deep = False
        self._doze = threading.Lock()
        self._doze.acquire()

    # -- descriptors ---------------------------------------------------------------------------

    def fileno(self) -> int:
        """Return what is readable when `turn` has something to do; for event loops that poll by
        themselves."""
        return self._poller.fileno()

    def add(self, fd: int, handler: Callable[[], None]) -> None:
        with self._arming:
            self._handlers[fd] = handler
            self._poller.register(fd, _READ)

    def remove(self, fd: int) -> None:
        with self._arming:
            if self._handlers.pop(fd, None) is not None:
                self._writers.pop(fd, None)
                self._poller.unregister(fd)

    # -- one round -----------------------------------------------------------------------------

    def turn(self, timeout: float | None, look: bool = False) -> None:
        """Write what is collected, read what has come, handle it. The caller leads."""
        self.on_turn()
        if self.dirty:
            self.flush()
        if self._timers:
            timeout = self._run_timers(timeout)
        events = self._look() if look else None
        if not events:
            events = self._poller.poll(-1 if timeout is None else timeout)
        for fd, mask in events:
            if mask & select.EPOLLOUT:
                self._resume_writing(fd)
            if mask & _READ:
                handler = self._handlers.get(fd)
                if handler is not None:
                    handler()
        while self.after:
            self.after.popleft()()
        if self.dirty:
            self.flush()

    def _look(self) -> list[tuple[int, int]]:
        """Look for a moment before going to sleep.

        Putting a processor to sleep and waking it from another one takes longer (30-50 µs each
        on a virtual machine) than a short answer. For those who wait for one thing, and only
        while it has paid off recently.
        """
        if self._patience <= 0:
            self._patience += 1
            return []
        poll = self._poller.poll
        end = time.perf_counter() + _LOOK_SECONDS
        while time.perf_counter() < end:
            events = poll(0)
            if events:
                self._patience = 8
                return events
            os.sched_yield()
        self._patience -= 4 if self._patience > 4 else 20
        return []

    def collect(self, connection: Connection, message: Message) -> None:
        """Add to what the next flush writes. From any thread: in this order, so that a flush
        between two of these steps leaves nothing behind."""
        connection.outbox.append(message)
        if not connection.listed:
            connection.listed = True
            self.dirty.append(connection)

    def flush(self) -> None:
        """Write what is collected on every connection."""
        while self.dirty:
            try:
                connection = self.dirty.pop()
            except IndexError:
                return
            connection.listed = False
            if not connection.flush():
                with self._arming:
                    self._arm(connection)

    def _arm(self, connection: Connection) -> None:
        """Be told when the peer has read, unless all is written by now."""
        fd = -1 if connection.closed else connection.fileno()
        if fd in self._handlers:
            self._writers[fd] = connection
            self._poller.modify(fd, _READ | select.EPOLLOUT)

    def _resume_writing(self, fd: int) -> None:
        """Write more, as the peer has read. Disarmed first, as another thread may have to arm
        it anew; and not written under `_arming`: a garbage collection there could want any
        other lock."""
        with self._arming:
            connection = self._writers.pop(fd, None)
            if fd in self._handlers:
                self._poller.modify(fd, _READ)
        if connection is not None and not connection.flush():
            with self._arming:
                self._arm(connection)

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        """Call on the leader's thread, after `delay` seconds."""
        due = time.monotonic() + delay
        heapq.heappush(self._timers, (due, next(self._timer_order), callback))
        if self._timers[0][0] == due:  # the leader may be asleep until a later one
            self.interrupt()

    def _run_timers(self, timeout: float | None) -> float | None:
        """Call what is due; how long to sleep then: until the next, and at most `timeout`."""
        ran = False
        while self._timers:
            left = self._timers[0][0] - time.monotonic()
            if left > 0:
                timeout = left if timeout is None else min(left, timeout)
                break
            callback = heapq.heappop(self._timers)[2]
            try:
                callback()
            except Exception:  # a defect must be seen, and is not the leader's own
                sys.excepthook(*sys.exc_info())
            ran = True
        return 0 if ran else timeout  # it may have been what the leader waits for

    # -- waiting -------------------------------------------------------------------------------

    def run_until(
        self, waiter: Waiter, timeout: float | None = None, stop: StopSignal | None = None
    ) -> bool:
        """Wait until the waiter is done; False after `timeout` seconds, if told to stop, or when
        the reactor is closed."""
        if timeout is not None and timeout > _FOREVER_SECONDS:
            timeout = None
        deadline = None if timeout is None else time.monotonic() + timeout
        if self.leads():  # from a callback that this thread's own turn has called
            self._turn_until(waiter, deadline, stop)
            return waiter.done
        while not (waiter.done or self.closed or _stopped(stop)):
            self.activity += 1
            if self._take_lead():
                try:
                    self._turn_until(waiter, deadline, stop)
                finally:
                    self._leave()
            else:
                self._follow(waiter, _left(deadline), stop)
            if deadline is not None and time.monotonic() >= deadline:
                break
        return waiter.done

    def _turn_until(self, waiter: Waiter, deadline: float | None, stop: StopSignal | None) -> None:
        """Take at least one turn, so that a wait of no time sees what has come already. Told to
        stop before the lead was taken, there is none: the leader before may have read that
        alarm."""
        while not (waiter.done or self.closed or _stopped(stop)):
            self.turn(_left(deadline), waiter.look)
            if deadline is not None and time.monotonic() >= deadline:
                return

    def leads(self) -> bool:
        """Return whether the calling thread is the leader."""
        return self._leader == threading.get_ident()

    def _take_lead(self) -> bool:
        if not self._lead.acquire(blocking=False):
            return False
        self._leader = threading.get_ident()
        return True

    def _give_up_lead(self) -> None:
        self._leader = 0
        self._lead.release()

    def _leave(self) -> None:
        self._give_up_lead()
        if self._followers:
            self._promote()
        if self._deep:
            self._rouse_courier()

    def _follow(self, waiter: Waiter, left: float | None, stop: StopSignal | None) -> None:
        self.flush()  # the leader may be asleep, and what we wait for depend on it
        sleep = waiter.prepare_sleep()
        self._followers.append(waiter)
        # The lead may have been given up, or the end of the wait been told, just before we
        # queued: then nobody would wake us.
        if not self._lead.locked() or waiter.done or _stopped(stop):
            waiter.wake()
        elif self._courier_leads:
            self.interrupt()
        woken = sleep.acquire(timeout=-1 if left is None else left)
        try:
            self._followers.remove(waiter)
        except ValueError:  # promoted: who has no need to lead any more passes it on
            if waiter.done or not woken or _stopped(stop):
                self._promote()

    def _promote(self) -> None:
        while self._followers:
            try:
                follower = self._followers.popleft()
            except IndexError:
                return
            if not follower.done:
                follower.wake()
                return

    def interrupt(self) -> None:
        """Make the current leader's poll return. Safe in destructors and signal handlers."""
        if self.closed:
            return
        try:
            os.eventfd_write(self._alarm, 1)
        except OSError:
            if not self.closed:  # if it is: another thread has closed it just now
                raise

    def _clear_alarm(self) -> None:
        os.eventfd_read(self._alarm)

    # -- user threads passing by -----------------------------------------------------------------

    def help(self) -> None:
        """Flush, and handle what has come, without waiting: called now and then by submitters."""
        self.activity += 1
        if self._take_lead():
            try:
                self.turn(0)
            finally:
                self._leave()
        else:
            self.flush()

    def touch(self) -> None:
        """Leave what was collected to the courier, at its next tick."""
        self.activity += 1
        if self._courier_leads:
            self._courier_leads = False
            self.interrupt()
        elif self._deep:
            self._rouse_courier()

    # -- courier -------------------------------------------------------------------------------

    def start_courier(self) -> None:
        if self._courier is None:
            self._courier = threading.Thread(target=self._deliver, name=COURIER, daemon=True)
            self._courier.start()

    def _deliver(self) -> None:
        _name_thread()
        while not self.closed:
            seen = self.activity
            self._doze.acquire(timeout=_TICK_SECONDS)
            self.flush()  # whoever leads may be asleep
            if self._take_lead():
                try:
                    if self.activity == seen:
                        self._lead_while_quiet(seen)
                except Exception:  # a defect must be seen, and must not stop all traffic
                    sys.excepthook(*sys.exc_info())
                finally:
                    self._courier_leads = False
                    self._give_up_lead()
                    self._promote()
            elif self.activity == seen:
                self._sleep_deep()

    def _lead_while_quiet(self, seen: int) -> None:
        self._courier_leads = True
        while self.activity == seen and not self._followers and not self.closed:
            self.turn(None)

    def _sleep_deep(self) -> None:
        self._deep = True
        if self._lead.locked() and not self.closed:  # whoever leads rouses us when it leaves
            self._doze.acquire()
        self._deep = False

    def _rouse_courier(self) -> None:
        self._deep = False
        try:
            self._doze.release()
        except RuntimeError:  # roused already
            pass

    def detach_in_child(self) -> None:
        """Detach in a forked child: everything here is the parent's."""
        self.closed = True
        self._poller.close()
        os.close(self._alarm)

    def close(self) -> None:
        """Stop the courier, send home whoever waits, and close the poller.

        Registered descriptors stay open.
        """
        self.closed = True
        os.eventfd_write(self._alarm, 1)
        self._rouse_courier()
        for follower in list(self._followers):
            follower.wake()
        if self._courier is not None and self._courier is not threading.current_thread():
            self._courier.join()
        # The alarm makes the leader leave, unless it is in a handler: then it polls no more.
        self._lead.acquire(timeout=_CLOSE_SECONDS)
        self._poller.close()
        os.close(self._alarm)


def _stopped(stop: StopSignal | None) -> bool:
    return stop is not None and stop.pending


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _name_thread() -> None:
    """Tell the system what Python calls this thread: signals for stacks are sent to it, because
    they would end the sleep of another one (`engine.sessions`)."""
    try:
        with open("/proc/thread-self/comm", "w") as file:
            file.write(COURIER)
    except OSError:  # a system without it
        pass


def _nothing() -> None:
    pass
