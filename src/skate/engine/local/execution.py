"""What a worker does: takes work from its queue, runs it, answers.

    FUNCTION, TASK, CREATE, CALL ─► queue ─► (sync | threads | event loop) ─► RESULT

Tasks and ordinary actors run on the main thread, which reads the socket itself whenever it has
nothing to do (`run`). An actor with max_concurrency or concurrency groups hands calls
to threads (`threads`), one with async methods to an event loop (`event_loop`).
"""

from __future__ import annotations

import contextvars
import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from skate._core import serialization
from skate._core.errors import task_error, unknown_concurrency_group
from skate.engine.base import ActorOptions, Context, TaskOptions, method_of
from skate.engine.local import messages as m
from skate.engine.local import surroundings
from skate.engine.local.answers import Answers
from skate.engine.local.arguments import unpack
from skate.engine.local.interrupts import MAIN, Interrupts
from skate.engine.local.objects import INLINE, Entry
from skate.engine.local.reactor import Waiter
from skate.engine.local.store import parts_of
from skate.engine.local.titles import Title

if TYPE_CHECKING:
    from skate.engine.local.wire import Connection, Message
    from skate.engine.local.worker import WorkerEngine

Work = tuple["Message", "Connection | None"]  # what to do, and who wants to know (None: the hub)
Options = TypeVar("Options", TaskOptions, ActorOptions)

_SHORT = 200e-6  # seconds; answers may wait for the end of a run this short
_TOGETHER = 64
_MOST = 4096  # entries in tables that a long life could fill


class ActorExit(SystemExit):
    """Raised by exit_actor(): ends the actor after this call."""


class Running:
    """The piece of work that a thread or coroutine is busy with."""

    __slots__ = (
        "extra", "function", "function_name", "id", "label", "leaving", "pending", "waiter",
    )  # fmt: skip

    def __init__(
        self, id: int, function_name: str, label: str, extra: Any, function: Any = None
    ) -> None:
        self.id = id
        self.leaving = False  # it has called exit_actor()
        self.pending = False  # its wait is to end, because it was cancelled; see `reactor.Stop`
        self.waiter: Waiter | None = None  # what it waits for, in an actor with several calls
        self.function = function
        self.function_name = function_name
        self.label = label
        self.extra = extra or {}


_running: contextvars.ContextVar[Running | None] = contextvars.ContextVar("running", default=None)


class Execution:
    """The work of one worker process."""

    def __init__(self, engine: WorkerEngine) -> None:
        self.engine = engine
        self.answers = Answers(engine)
        self.interrupts = Interrupts(engine.reactor, engine.lock, self._is_cancelled)
        self.queue: deque[Work] = deque()
        self.arrived = Waiter()  # done when there is work
        self.unanswered: set[int] = set()  # ids of the work that is here
        self.cancelled: set[int] = set()  # those of them that somebody has cancelled
        self.borrowed: dict[int, list[Entry]] = {}  # objects that came with a call, by its id
        self.exiting = False
        self.exit_code = 0
        self.ended = Waiter()  # done when this process is to end
        self.actor: Any = None
        self.actor_id = 0
        self.actor_label = ""
        self._print_label = ""  # in front of what the actor prints
        self.actor_settings: dict[str, Any] = {}
        self.cancel_running: Callable[[int], None] = self._interrupt_main
        self.deliver: Callable[[Work], None] = self._enqueue
        self.on_exit: Callable[[], object] = lambda: None
        self._functions: dict[int, Any] = {}
        self._methods: dict[str, Callable[..., Any]] = {}  # of the actor, as they are called
        self._captured: dict[Any, tuple[Any, Any]] = {}
        self._durations: dict[Any, float] = {}
        self._pid = os.getpid()
        self._current: Running | None = None  # on the main thread
        self._title = Title(engine.settings["titles"])
        self._shown = ""  # the last name in the title: most calls are of the same function
        self._waiting = 0  # the main thread is inside get or wait
        self._calls_waiting: dict[int, Running] = {}  # of an actor, other than on the main thread
        self.handlers: dict[int, Callable[..., None]] = {
            m.FUNCTION: self._on_function,
            m.FORGET: self._on_forget,
            m.CREATE: lambda *rest: self._enqueue(((m.CREATE, *rest), None)),
            m.CANCEL: self._on_cancel,
            m.STEAL: self._on_steal,
            m.CREDIT: self.answers.on_credit,
            m.EXIT: self._on_exit,
        }

    @property
    def has_cpu(self) -> bool:
        return bool(self.actor_settings.get("resources", {}).get("CPU"))

    # -- messages ------------------------------------------------------------------------------

    def _on_function(self, key: int, kind: int, data: Any, name: str) -> None:
        self._functions[key] = (kind, data, name)

    def _on_forget(self, key: int) -> None:
        self._functions.pop(key, None)

    def on_task(self, message: Message) -> None:
        if self._waiting:
            self.unanswered.discard(message[1])
            self.engine.send((m.GAVE_BACK, [message[1]]))
        else:
            self._enqueue((message, None))

    def _enqueue(self, work: Work) -> None:
        self.queue.append(work)
        self.arrived.finish()

    def _on_cancel(self, id: int) -> None:
        for work in self.queue:
            if work[0][1] == id:
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
            if self.actor is None:
                self.interrupts.trigger(MAIN)
            else:
                self.interrupts.end_wait()

    def end_wait_of(self, id: int) -> None:
        """A call of an actor that runs several is cancelled: it need not wait any longer."""
        running = self._calls_waiting.get(id)
        waiter = running.waiter if running is not None else None  # its thread may end the wait now
        if running is not None and waiter is not None:
            running.pending = True
            self.engine.reactor.interrupt()
            waiter.wake()

    def _is_cancelled(self) -> bool:
        return self._current is not None and self._current.id in self.cancelled

    def _on_steal(self) -> None:
        waiting = [work[0][1] for work in self.queue]
        self._give_back(waiting[len(waiting) // 2 :])

    def _on_exit(self) -> None:
        self.exiting = True
        self.arrived.finish()
        self.ended.finish()
        self.engine.reactor.interrupt()  # the main thread may lead, and sleep
        self.on_exit()

    def give_back(self) -> None:
        """This worker is going to wait: what it has not started is for others. Lock held."""
        if self.queue and self.actor is None:
            self._give_back([work[0][1] for work in self.queue])

    def _give_back(self, ids: list[int]) -> None:
        if ids:
            self.queue = deque(work for work in self.queue if work[0][1] not in set(ids))
            self.unanswered.difference_update(ids)
        self.engine.send((m.GAVE_BACK, ids))

    # -- running, in order ---------------------------------------------------------------------

    def set_up(self, hook: bytes) -> None:
        """Call the user's function that is to run before all else. If it fails, so does whatever
        is sent here."""
        from skate.runtime_env import run_setup_hook

        try:
            run_setup_hook(pickle.loads(hook))
        except Exception as error:
            failure = error

            def refuse(key: int) -> NoReturn:
                raise failure

            self._function = refuse  # type: ignore[method-assign]

    def run(self) -> int:
        """Work until told to exit; returns the exit code."""
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
                    reactor.run_until(self.arrived)
                    self.interrupts.idle = False
                done_since = 0
                continue
            done_since += 1
            with self.engine.lock:
                if not self.queue:
                    continue
                work = self.queue.popleft()
            if work[0][0] == m.CREATE and not self._is_sequential(work):
                return self._run_concurrently(work)
            self._perform(work)
        return self.exit_code

    @staticmethod
    def _is_sequential(work: Work) -> bool:
        extra = work[0][6]
        return not extra["is_async"] and extra["concurrency"] == 1 and not extra["groups"]

    def _run_concurrently(self, creation: Work) -> int:
        if creation[0][6]["is_async"]:
            from skate.engine.local.event_loop import run_event_loop

            run_event_loop(self, creation)
        else:
            from skate.engine.local.threads import run_threads

            run_threads(self, creation)
        return self.exit_code

    def _perform(self, work: Work) -> None:
        key = work[0][2]
        self._flush_unless_short(key)
        start = time.perf_counter()
        call = self.begin(work)
        if call is None:
            return
        function, args, kwargs, running = call
        self._current = running
        token = _running.set(running)
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
            self.interrupts.pending = False
            _running.reset(token)
            elapsed = time.perf_counter() - start
            if len(self._durations) >= _MOST:
                self._durations.clear()
            self._durations[key] = (self._durations.get(key, elapsed) * 7 + elapsed) / 8

    def stop_if_cancelled(self) -> None:
        """Raise KeyboardInterrupt if a cancellation came while engine code was running."""
        if self.interrupts.pending or (self.cancelled and self._is_cancelled()):
            self.interrupts.deliver()

    def _leave_if_forked(self) -> None:
        """The user's code has forked, and this is the child: its parent answers."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _failed(self, work: Work, error: BaseException, start: float) -> None:
        if not self.ends_actor(work, error):
            self.answers.fail(work, error, start)

    def ends_actor(self, work: Work, error: BaseException) -> bool:
        """Whether what a call has raised, or has asked for before, is the end of its actor, which
        begins then: the process ends, and the hub sees the call unanswered."""
        running = _running.get()
        if running is not None and running.leaving:
            error = ActorExit(0)
        if not isinstance(error, SystemExit):
            return False
        if self.actor_id == 0:
            raise error  # a task: its process ends at once
        self.leave(error, self.name_of(work[0]))
        return True

    def leave(self, exit: SystemExit, who: str) -> None:
        """End this actor. It is what was wanted after exit_actor() and sys.exit(0), and a crash
        after any other sys.exit, with the restarts and retries that follow one."""
        wanted = exit.code is not None and exit.code == 0
        said = "exit_actor()" if isinstance(exit, ActorExit) else f"sys.exit({exit.code!r})"
        with self.engine.lock:
            if not self.exiting:
                why = f"it ended itself with {said}" if wanted else f"{who} called {said}"
                self.engine.send((m.EXITING, wanted, why))
                self.exit_code = 0 if wanted else _exit_code(exit)
                self._on_exit()

    def _flush_unless_short(self, key: Any) -> None:
        """Answers wait for the next run only if that is known to be short."""
        outbox = self.engine.hub.outbox
        if outbox and (len(outbox) >= _TOGETHER or self._durations.get(key, 1.0) > _SHORT):
            self.engine.reactor.flush()

    # -- preparing a call ----------------------------------------------------------------------

    def begin(self, work: Work) -> tuple[Callable[..., Any], Any, Any, Running] | None:
        """The function, its arguments and the context; None if it has been answered already."""
        message = work[0]
        try:
            if message[0] == m.TASK:
                return self._begin_task(message)
            if message[0] == m.CALL:
                return self._begin_call(message)
            return self._begin_creation(message)
        except BaseException as error:
            if isinstance(error, SystemExit):
                raise
            self.answers.fail(work, error, time.perf_counter())
            return None

    def _begin_task(self, message: Message) -> tuple[Callable[..., Any], Any, Any, Running]:
        _, id, key, kind, data, dependencies, _, extra = message
        function, name = self._function(key)
        args, kwargs = self._arguments(id, kind, data, dependencies)
        if extra and "accelerators" in extra:
            surroundings.show_accelerators(extra["accelerators"])
        title = name if not extra else extra.get("name") or name
        if title is not self._shown:
            self._shown = title
            self._title.show(_short(title))
        return function, args, kwargs, Running(id, name, _short(name), extra, function)

    def _begin_call(self, message: Message) -> tuple[Callable[..., Any], Any, Any, Running]:
        _, id, method, kind, data, dependencies, _, extra = message
        if extra and extra.get("group") and not self.actor_settings["groups"]:
            raise unknown_concurrency_group(extra["group"], ())
        args, kwargs = self._arguments(id, kind, data, dependencies)
        function = self._methods.get(method) or self._method(method)
        if method != self._shown:
            self._shown = method
            self._title.show(f"{self.actor_label}.{method}")
        return function, args, kwargs, Running(id, method, self._print_label, extra)

    def _method(self, name: str) -> Callable[..., Any]:
        if name.startswith("__ray_"):
            if name == "__ray_ready__":
                return lambda: True
            if name == "__ray_terminate__":
                return self.exit_actor
            if name == "__ray_call__":
                return lambda function, *args, **kwargs: function(self.actor, *args, **kwargs)
        method = self._methods[name] = method_of(self.actor, name)
        return method

    def _begin_creation(self, message: Message) -> tuple[Callable[..., Any], Any, Any, Running]:
        _, id, key, kind, data, dependencies, extra = message
        cls, name = self._function(key)
        self.actor_id = id
        self.actor_label = self._print_label = name
        self.actor_settings = extra
        if "accelerators" in extra:
            surroundings.show_accelerators(extra["accelerators"])
        self._title.show(f"{_short(name)}.__init__")
        args, kwargs = self._arguments(id, kind, data, dependencies)
        return (
            lambda *a, **k: self._construct(cls, a, k),
            args,
            kwargs,
            Running(id, f"{name}.__init__", name, extra),
        )

    def _construct(self, cls: Any, args: Any, kwargs: Any) -> None:
        # The instance is in place before __init__ runs, which may already ask who it is.
        self.actor = cls.__new__(cls, *args, **kwargs) if _has_own_new(cls) else cls.__new__(cls)
        self.actor.__init__(*args, **kwargs)
        self._print_label = _own_repr(self.actor) or self.actor_label

    def _function(self, key: int) -> tuple[Callable[..., Any], str]:
        known = self._functions[key]
        if len(known) == 3:
            kind, data, name = known
            if kind == INLINE:
                function = serialization.loads(data)
            else:
                function = serialization.loads(parts_of(self.engine.store.open(data)))
            known = self._functions[key] = (function, name)
        return known  # type: ignore[no-any-return]

    def _arguments(self, task_id: int, kind: int, data: Any, dependencies: Any) -> tuple[Any, Any]:
        if kind == INLINE and not dependencies:
            return serialization.loads(data)  # type: ignore[no-any-return]
        load = self.engine.load_argument
        borrowed = self.borrowed[task_id] = []
        if kind == INLINE:
            value = serialization.loads(data)
        else:
            location, object_id = data
            value = load(kind, location, object_id, borrowed)
        if not dependencies:
            return value  # type: ignore[no-any-return]
        return unpack(value, [(slot, load(k, d, id, borrowed)) for slot, k, d, id in dependencies])

    # -- inside user code ----------------------------------------------------------------------

    def wait(self, needs: Waiter, timeout: float | None) -> bool:
        """Wait inside get, wait or next; ended early by cancellation."""
        if self._current is None or threading.get_ident() != MAIN:
            running = _running.get() if self.actor_id else None
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
        self._calls_waiting[running.id] = running
        if running.id in self.cancelled:
            running.pending = True
        try:
            return self.engine.reactor.run_until(needs, timeout, running)
        finally:
            running.waiter = None
            self._calls_waiting.pop(running.id, None)
            if running.pending:
                raise KeyboardInterrupt

    def exit_actor(self) -> None:
        """End the actor when the calling method ends, even if it catches what is raised here."""
        if self.actor_id == 0:
            raise TypeError("exit_actor() is for the methods of an actor; this is a task")
        running = _running.get()
        if running is None:  # a thread of the user's own
            self.leave(ActorExit(0), self.actor_label)
        else:
            running.leaving = True
        raise ActorExit(0)

    def leave_if_asked(self) -> None:
        """Raise again what exit_actor() has raised, if the method has caught it."""
        running = _running.get()
        if running is not None and running.leaving:
            raise ActorExit(0)

    def end_actor(self) -> None:
        """Let the actor clean up: `__ray_shutdown__` if it has one, then `__del__`."""
        actor, self.actor = self.actor, None
        self._methods.clear()
        shutdown = getattr(actor, "__ray_shutdown__", None)
        if shutdown is not None:
            try:
                shutdown()
            except Exception:
                import traceback

                traceback.print_exc()

    def current_task_id(self) -> int:
        running = _running.get()
        return running.id if running is not None else self.actor_id

    @staticmethod
    def current() -> Running | None:
        """The piece of work that this thread or coroutine is busy with."""
        return _running.get()

    def label(self) -> str:
        running = _running.get()
        return running.label if running is not None else self._print_label or "worker"

    def captured(self, options: Options) -> Options:
        """Options of a child: in the parent's environment, and in its placement group if that
        captures children."""
        running = _running.get()
        settings = {**self.actor_settings, **(running.extra if running else {})}
        group = settings.get("group") if settings.get("capture") else None
        env = settings.get("runtime_env")
        if group is None and env is None:
            return options
        if len(self._captured) >= _MOST:
            self._captured.clear()
        key = (id(options), group, env)
        known = self._captured.get(key)
        if known is None:
            changes: dict[str, Any] = {}
            if group is not None and options.placement_group is None:
                changes["placement_group"] = serialization.loads(group)
                changes["capture_child_tasks"] = True
            if env is not None:
                from skate.runtime_env import merge_runtime_envs

                parent = serialization.loads(env)
                changes["runtime_env"] = merge_runtime_envs(parent, options.runtime_env)
            # With the original, so that its id is not given to another.
            known = self._captured[key] = (options, options._replace(**changes))
        return known[1]

    def context(self) -> Context:
        from skate.engine.local.context import build_context

        return build_context(self, _running.get())

    def group_of(self, work: Work, groups: Iterable[str]) -> str | None:
        """The concurrency group of a call ("" is the default one); None if there is no such
        group, which the caller has been told then."""
        extra = work[0][7]
        group: str = extra.get("group", "") if extra else ""
        if group in groups:
            return group
        error = unknown_concurrency_group(group, groups)
        self.answers.fail(work, error, time.perf_counter())
        return None

    def name_of(self, message: Message) -> str:
        """What the work is called, in errors."""
        if message[0] == m.CALL:
            return f"{self.actor_label or 'actor'}.{message[2]}"
        known = self._functions[message[2]]
        return f"{known[-1]}.__init__" if message[0] == m.CREATE else str(known[-1])

    def remote_error(self, error: BaseException, name: str) -> Any:
        """Packed error of user code."""
        actor_id = self.actor_id.to_bytes(16, "big").hex() if self.actor_id else None
        label = safe_repr(self.actor) if self.actor is not None else ""
        return serialization.dumps(
            task_error(error, name, actor_repr=label, actor_id=actor_id)
        ).packed()


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def safe_repr(value: Any) -> str:
    """For messages: a user's own __repr__ may fail, before __init__ is done above all."""
    try:
        return repr(value)
    except Exception:
        return object.__repr__(value)


def _own_repr(actor: Any) -> str:
    """What the user's own __repr__ says in one line, or nothing."""
    cls: Any = type(actor)
    if cls.__repr__ is object.__repr__:
        return ""
    try:
        said = repr(actor)
    except Exception:
        return ""
    return said if said.isprintable() else ""


def _exit_code(exit: SystemExit) -> int:
    """The status of a process that has crashed: never 0."""
    return exit.code & 0xFF or 1 if isinstance(exit.code, int) else 1


def _has_own_new(cls: type) -> bool:
    return getattr(cls, "__new__", None) is not object.__new__
