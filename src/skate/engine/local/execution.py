"""What a worker does: takes work from its queue, runs it, answers.

    Work ─► queue ─► (sync | threads | event loop) ─► WorkResult

Tasks and ordinary actors run on the main thread, which reads the socket itself whenever it has
nothing to do (`run`). An actor with max_concurrency or concurrency groups hands calls
to threads (`threads`), one with async methods to an event loop (`event_loop`).
"""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from skate._core import serialization
from skate._core.errors import task_error, unknown_concurrency_group
from skate.engine.local import messages as m
from skate.engine.local.answers import Answers
from skate.engine.local.hosted_actor import HostedActor, safe_repr
from skate.engine.local.interrupts import MAIN, Interrupts
from skate.engine.local.messages import Work, WorkSettings
from skate.engine.local.preparation import (
    Preparation,
    Prepared,
    Running,
    actor_settings_of,
    running_now,
)
from skate.engine.local.reactor import Waiter
from skate.engine.local.termination import Termination
from skate.engine.local.wire import by_number
from skate.engine.specs import ActorOptions, Context, TaskOptions

if TYPE_CHECKING:
    from skate.engine.local.wire import Connection
    from skate.engine.local.worker import WorkerEngine

Options = TypeVar("Options", TaskOptions, ActorOptions)

_SHORT_SECONDS = 200e-6  # answers may wait for the end of a run this short
_IDLE_SECONDS = 1.0  # without work, before the title of the process says so
_MOST_TOGETHER = 64
_MOST_REMEMBERED = 4096  # entries in tables that a long life could fill


class ExitActor(SystemExit):
    """Raised by exit_actor(): ends the actor after this call."""


def _exit_seconds() -> float:
    """Return how long calls may go on after another one has ended their actor."""
    try:
        return max(0.0, float(os.environ.get("SKATE_ACTOR_EXIT_SECONDS", "30")))
    except ValueError:
        return 30.0  # who exits has nobody to tell


class Execution:
    """The work of one worker process."""

    def __init__(self, engine: WorkerEngine) -> None:
        self.engine = engine
        self.answers: Answers = Answers(engine)
        self.interrupts: Interrupts = Interrupts(engine.reactor, engine.lock, self._is_cancelled)
        self.queue: deque[Work] = deque()
        self.arrived: Waiter = Waiter()  # done when there is work
        self.unanswered: set[int] = set()  # ids of the work that is here
        self.callers: dict[int, Connection] = {}  # who wants to know of it, if not the hub
        self.cancelled: set[int] = set()  # those of them that somebody has cancelled
        self.begun: set[int] = set()  # calls that run now, where several run at a time
        self.exiting: bool = False
        self.exit_code: int = 0
        self.ended: Waiter = Waiter()  # done when this process is to end
        self.termination: Termination = Termination(self)
        self.actor: HostedActor = HostedActor(self.exit_actor)
        self.preparation: Preparation = Preparation(engine, self.actor)
        self.cancel_running: Callable[[int], None] = self._interrupt_main
        self.deliver: Callable[[Work], None] = self._enqueue
        self.on_exit: Callable[[], object] = lambda: None
        self._captured: dict[Any, tuple[Any, Any]] = {}
        self._durations: dict[Any, float] = {}
        self._pid = os.getpid()
        self._current: Running | None = None  # on the main thread
        self._waiting = 0  # the main thread is inside get or wait
        self.calls_waiting: dict[int, Running] = {}  # of an actor, not on the main thread
        self.handlers: dict[int, Callable[..., None]] = by_number(
            {
                m.DefineFunction: self.preparation.on_function,
                m.ForgetFunction: self.preparation.on_forget,
                m.CancelWork: self._on_cancel,
                m.StealWork: self._on_steal,
                m.GrantCredit: self.answers.on_credit,
                m.ExitWorker: self._on_exit,
            }
        )

    # -- messages ------------------------------------------------------------------------------

    def take(self, work: Work, caller: Connection | None = None) -> None:
        """Take work that has come: from the hub, or from a caller that wants the answer itself."""
        operation, id = work.operation, work.id
        if operation == m.CALL:
            self.unanswered.add(id)
            if caller is not None:
                self.callers[id] = caller
            self.deliver(work)
        elif operation == m.TASK:
            if self._waiting:
                self.engine.send(m.GaveBack([id]))
                return
            self.unanswered.add(id)
            self._enqueue(work)
        else:
            self._enqueue(work)

    def _enqueue(self, work: Work) -> None:
        self.queue.append(work)
        self.arrived.finish()

    def _on_cancel(self, id: int) -> None:
        for work in self.queue:
            if work.id == id:
                self.queue.remove(work)
                self.answers.cancelled(work)
                return
        if id in self.unanswered:
            self.cancelled.add(id)
            self.cancel_running(id)

    def _interrupt_main(self, id: int) -> None:
        """Interrupt a task wherever it is, and a method of an actor only where it waits: it may
        have changed half of its state, and can ask whether it is cancelled."""
        current = self._current
        if current is not None and current.id == id:
            if self.actor.instance is None:
                self.interrupts.trigger(MAIN)
            else:
                self.interrupts.end_wait()

    def end_wait_of(self, id: int) -> None:
        """End the wait of a cancelled call, in an actor that runs several."""
        running = self.calls_waiting.get(id)
        waiter = running.waiter if running is not None else None  # its thread may end the wait now
        if running is not None and waiter is not None:
            running.pending = True
            self.engine.reactor.interrupt()
            waiter.wake()

    def _is_cancelled(self) -> bool:
        return self._current is not None and self._current.id in self.cancelled

    def _on_steal(self) -> None:
        waiting = [work.id for work in self.queue]
        self._give_back(waiting[len(waiting) // 2 :])

    def _on_exit(self) -> None:
        self.exiting = True
        self.arrived.finish()
        self.ended.finish()
        self.engine.reactor.interrupt()  # the main thread may lead, and sleep
        self.on_exit()

    def give_back(self) -> None:
        """Give what has not started to others, before a wait. The lock is held."""
        if self.queue and self.actor.instance is None:
            self._give_back([work.id for work in self.queue])

    def _give_back(self, ids: list[int]) -> None:
        if ids:
            given = set(ids)
            self.queue = deque(work for work in self.queue if work.id not in given)
            self.unanswered.difference_update(ids)
        self.engine.send(m.GaveBack(ids))

    # -- running, in order ---------------------------------------------------------------------

    def set_up(self, hook: bytes) -> None:
        """Call the user's function that is to run before all else. If it fails, so does whatever
        is sent here."""
        from skate._core.runtime_environments import run_setup_hook

        try:
            run_setup_hook(pickle.loads(hook))
        except Exception as error:
            self.preparation.refuse_all(error)

    def run(self) -> int:
        """Work until told to exit, and return the exit code."""
        self.engine.reactor.start_courier()
        reactor = self.engine.reactor
        done_since = 0
        while not self.exiting:
            if not self.queue:
                self.arrived.done = False
                # Calls that come one by one come from someone who waits for each.
                self.arrived.look = done_since == 1
                if not self.queue and not self.exiting:
                    self.interrupts.idle = True
                    if not reactor.run_until(self.arrived, _IDLE_SECONDS):
                        self.preparation.show_idle()
                        reactor.run_until(self.arrived)
                    self.interrupts.idle = False
                done_since = 0
                continue
            done_since += 1
            with self.engine.lock:
                if not self.queue:
                    continue
                work = self.queue.popleft()
            if work.operation == m.CREATION and not _is_sequential(actor_settings_of(work)):
                return self._run_concurrently(work)
            self._perform(work)
        return self.exit_code

    def _run_concurrently(self, creation: Work) -> int:
        settings = actor_settings_of(creation)
        if settings["is_async"]:
            from skate.engine.local.event_loop import run_event_loop

            run_event_loop(self, creation, settings)
        else:
            from skate.engine.local.threads import run_threads

            run_threads(self, creation, settings)
        return self.exit_code

    def _perform(self, work: Work) -> None:
        key = work.target
        self._flush_unless_short(key)
        start = time.perf_counter()
        call = self.begin(work)
        if call is None:
            return
        function, args, kwargs, running = call
        running.began = start
        self._current = running
        token = running_now.set(running)
        try:
            self.stop_if_cancelled()
            value = function(*args, **kwargs)
            self.interrupts.look_briefly()
            del args, kwargs, call  # what they keep alive must be free before the answer
            self._leave_if_forked()
            self.answers.give(work, value, start)
        except BaseException as error:
            self._leave_if_forked()
            self._failed(work, error, start)
        finally:
            self._current = None
            self.interrupts.forget_cancellation()
            running_now.reset(token)
            elapsed = time.perf_counter() - start
            if len(self._durations) >= _MOST_REMEMBERED:
                self._durations.clear()
            self._durations[key] = (self._durations.get(key, elapsed) * 7 + elapsed) / 8

    def stop_if_cancelled(self) -> None:
        """Raise KeyboardInterrupt if a cancellation came while engine code was running."""
        if self.interrupts.pending or (self.cancelled and self._is_cancelled()):
            self.interrupts.deliver()

    def _leave_if_forked(self) -> None:
        """End the child of user code that has forked: its parent answers."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _failed(self, work: Work, error: BaseException, start: float) -> None:
        if not self.ends_actor(work, error):
            self.answers.fail(work, error, start)

    def ends_actor(self, work: Work, error: BaseException) -> bool:
        """Return whether what a call has raised, or has asked for before, is the end of its
        actor, which begins then: the process ends, and the hub sees the call unanswered."""
        running = running_now.get()
        if running is not None and running.leaving:
            error = ExitActor(0)
        if not isinstance(error, SystemExit):
            return False
        if self.actor.id == 0:
            raise error  # a task: its process ends at once
        self.leave(error, self.preparation.name_of(work))
        return True

    def leave(self, exit: SystemExit, who: str) -> None:
        """End this actor. It is what was wanted after exit_actor() and sys.exit(0), and a crash
        after any other sys.exit, with the restarts and retries that follow one."""
        wanted = exit.code is not None and exit.code == 0
        code = 0 if wanted else _exit_code(exit)
        said = f"sys.exit({exit.code!r}), exit code {code}"
        if isinstance(exit, ExitActor):
            said = "exit_actor()"
        with self.engine.lock:
            if not self.exiting:
                why = f"it ended itself with {said}" if wanted else f"{who} called {said}"
                running = running_now.get()
                call = running.id if running is not None else 0
                self.engine.send(m.ActorExiting(wanted, why, call))
                self.exit_code = code
                if wanted:
                    self.wind_down()
                else:
                    self._on_exit()

    def wind_down(self) -> None:
        """End this process when the calls that run have ended."""
        with self.engine.lock:
            if self.begun:
                self.exiting = True  # nothing else begins; `call_ended` ends it
                self.engine.reactor.call_later(_exit_seconds(), self._on_exit)
            else:
                self._on_exit()

    def call_ended(self, id: int) -> None:
        """Note the end of a call where several run at a time: those that run beside the one that
        ends the actor give their answers, and the last of them lets it end."""
        self.begun.discard(id)
        if self.exiting and not self.begun and not self.ended.done:
            self.engine.reactor.flush()
            with self.engine.lock:
                self._on_exit()

    def _flush_unless_short(self, key: object) -> None:
        """Send answers, which wait for the next run only if that is known to be short."""
        outbox = self.engine.hub.outbox
        if outbox and (
            len(outbox) >= _MOST_TOGETHER or self._durations.get(key, 1.0) > _SHORT_SECONDS
        ):
            self.engine.reactor.flush()

    # -- preparing a call ----------------------------------------------------------------------

    def begin(self, work: Work) -> Prepared | None:
        """Return the function, its arguments and the context; None if it has been answered
        already."""
        try:
            return self.preparation.prepare(work)
        except BaseException as error:
            if isinstance(error, SystemExit):
                raise
            self.answers.fail(work, error, time.perf_counter())
            return None

    # -- inside user code ----------------------------------------------------------------------

    def wait(self, needs: Waiter, timeout: float | None) -> bool:
        """Wait inside get, wait or next; ended early by cancellation."""
        if self._current is None or threading.get_ident() != MAIN:
            running = running_now.get() if self.actor.id else None
            if running is None:
                return self.engine.reactor.run_until(needs, timeout)
            return self._wait_in_call(running, needs, timeout)
        self._waiting += 1
        try:
            return self.interrupts.wait(needs, timeout)
        finally:
            self._waiting -= 1

    def _wait_in_call(self, running: Running, needs: Waiter, timeout: float | None) -> bool:
        running.waiter = needs
        self.calls_waiting[running.id] = running
        if running.id in self.cancelled:
            running.pending = True
        try:
            return self.engine.reactor.run_until(needs, timeout, running)
        finally:
            running.waiter = None
            self.calls_waiting.pop(running.id, None)
            if running.pending:
                raise KeyboardInterrupt

    def exit_actor(self) -> None:
        """End the actor when the calling method ends, even if it catches what is raised here."""
        if self.actor.id == 0:
            raise TypeError("exit_actor() is for the methods of an actor; this is a task")
        running = running_now.get()
        if running is None:  # a thread of the user's own
            self.leave(ExitActor(0), self.actor.label)
        else:
            running.leaving = True
        raise ExitActor(0)

    def leave_if_asked(self) -> None:
        """Raise again what exit_actor() has raised, if the method has caught it."""
        running = running_now.get()
        if running is not None and running.leaving:
            raise ExitActor(0)

    def current_task_id(self) -> int:
        running = running_now.get()
        return running.id if running is not None else self.actor.id

    @staticmethod
    def current() -> Running | None:
        """Return the piece of work that this thread or coroutine is busy with."""
        return running_now.get()

    def on_main_thread(self) -> tuple[str, int, float] | None:
        """Return the name and id of what runs on the main thread, and since when."""
        running = self._current
        if running is None:
            return None
        return self.preparation.title, running.id, running.began

    def main_is_busy(self) -> bool:
        """Return whether a task, or a method of an ordinary actor, runs on the main thread."""
        return self._current is not None

    def label(self) -> str:
        running = running_now.get()
        return running.label if running is not None else self.actor.print_label or "worker"

    def captured(self, options: Options) -> Options:
        """Return options of a child: in the parent's environment, and in its placement group if
        that captures children, or the child asks for it."""
        running = running_now.get()
        settings: WorkSettings = {**self.actor.settings, **(running.settings if running else {})}
        is_captured = settings.get("capture_child_tasks") or options.capture_child_tasks
        group = settings.get("placement_group") if is_captured else None
        env = settings.get("runtime_env")
        if group is None and env is None:
            return options
        if len(self._captured) >= _MOST_REMEMBERED:
            self._captured.clear()
        key = (id(options), group, env)
        known = self._captured.get(key)
        if known is None:
            changes: dict[str, Any] = {}
            if group is not None and options.placement_group is None:
                changes["placement_group"] = serialization.loads(group)
                changes["capture_child_tasks"] = True
            if env is not None:
                from skate._core.runtime_environments import merge_runtime_envs

                parent = serialization.loads(env)
                changes["runtime_env"] = merge_runtime_envs(parent, options.runtime_env)
            # With the original, so that its id is not given to another.
            known = self._captured[key] = (options, options._replace(**changes))
        return known[1]

    def context(self) -> Context:
        from skate.engine.local.context import build_context

        return build_context(self, running_now.get())

    def group_of(self, work: Work, groups: Iterable[str]) -> str | None:
        """Return the concurrency group of a call ("" is the default one); None if there is no such
        group, which the caller has been told then."""
        settings = work.settings
        group = (settings.get("concurrency_group") if settings else None) or ""
        if group in groups:
            return group
        error = unknown_concurrency_group(group, groups)
        self.answers.fail(work, error, time.perf_counter())
        return None

    def remote_error(self, error: BaseException, name: str) -> Any:
        """Return the packed error of user code."""
        actor = self.actor
        actor_id = actor.id.to_bytes(16, "big").hex() if actor.id else None
        label = safe_repr(actor.instance) if actor.instance is not None else ""
        return serialization.dumps(
            task_error(error, name, actor_repr=label, actor_id=actor_id)
        ).packed()


def _is_sequential(settings: WorkSettings) -> bool:
    concurrent = settings["is_async"] or settings["max_concurrency"] != 1
    return not concurrent and not settings["concurrency_groups"]


def _exit_code(exit: SystemExit) -> int:
    """Return the status of a process that has crashed: never 0."""
    return exit.code & 0xFF or 1 if isinstance(exit.code, int) else 1
