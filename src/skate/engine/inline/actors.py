"""Actors: an object, its lane or event loop, and how it ends."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate._core.errors import unknown_concurrency_group
from skate._core.futures import asyncio_future
from skate.engine.inline.calls import ActorExit, Arguments, Call, KnownError
from skate.engine.inline.lanes import Lane
from skate.engine.inline.loops import LoopThread
from skate.engine.specs import ActorOptions, ClassSpec, Context, method_of, unfinished
from skate.exceptions import (
    ActorDiedError,
    ActorPlacementGroupRemoved,
    ActorUnavailableError,
    ActorUnschedulableError,
    SkateError,
    TaskCancelledError,
    TaskPlacementGroupRemoved,
    TaskUnschedulableError,
)

if TYPE_CHECKING:
    from skate._core.refs import ObjectRef
    from skate.engine.inline.objects import Objects
    from skate.engine.inline.resources import Holding, InlineResources
    from skate.engine.inline.streams import InlineStream

_ASYNC_CONCURRENCY = 1000
_PLAIN_REPRS = (object.__repr__, type(None).__repr__)


class InlineActor:
    """One actor. Belongs to its reference: when that goes, it ends. (By a destructor, which Python
    also runs for actors that hold each other's handles.)"""

    def __init__(
        self,
        cls: ClassSpec,
        options: ActorOptions,
        arguments: Arguments,
        objects: Objects,
        resources: InlineResources,
        holding: Holding,
        group: object,
        runtime_env: dict[str, object],
        actor_id: str,
        construct_again: Callable[[InlineActor], None],
    ) -> None:
        self.cls = cls
        self.options = options
        self.arguments = arguments
        self.actor_id = actor_id
        self.holding = holding
        self.group = group
        self.runtime_env = runtime_env
        self.instance: Any = None
        self.death: SkateError | None = None
        self.restarts: int = 0
        self.streams: list[InlineStream] = []
        self.groups: list[ObjectRef[Any]] = []  # placement groups that go with it if it is killed
        self.leaving: set[str | None] = set()  # ids of calls that have called exit_actor()
        self.construct_again = construct_again  # given the actor
        self._resources = resources
        self._lane = Lane(objects)
        self._loop = LoopThread(cls.meta.class_name) if cls.meta.is_async else None
        self._limits: dict[str | None, asyncio.Semaphore] = {}
        if group is None:
            resources.hold(holding)

    # -- running -------------------------------------------------------------------------------

    def start(self, call: MethodCall, group: str | None) -> None:
        """Run the call now, or on the actor's loop, or when its arguments are there."""
        groups = self.options.concurrency_groups
        if group and group not in groups:
            call.results.fail(call.failed(unknown_concurrency_group(group, groups)))
            return
        if self._loop is None:
            call.start(self._lane)
            return
        cancel = self._loop.start_call(
            lambda: self._run_async(call, group), lambda: self._cancelled(call)
        )
        if cancel is None:
            call.results.fail(self.death or ActorDiedError(None, self.actor_id))
            return
        for ref in call.results.refs:
            if not ref._entry.done:
                ref._entry.cancel = cancel

    def finish_streams(self) -> None:
        """Run earlier calls to their end, before a later one starts."""
        for stream in self.streams:
            stream.drain()
        self.streams.clear()

    def row(self, driver: Context) -> dict[str, object]:
        """Return what there is to say of it, with the keys of Ray's state API."""
        state = "PENDING_CREATION" if self.instance is None else "ALIVE"
        cause = {"actor_died_error_context": {"error_message": str(self.death)}}
        return {
            "actor_id": self.actor_id,
            "class_name": self.cls.meta.qualified_name,
            "state": "DEAD" if self.death else state,
            "job_id": driver.job_id,
            "name": self.options.name or "",
            "node_id": driver.node_id,
            "pid": os.getpid(),
            "ray_namespace": self.options.namespace or driver.namespace,
            "required_resources": dict(self.holding.amounts),
            "death_cause": cause if self.death else None,
            "is_detached": self.options.detached,
            "num_restarts": self.restarts,
            "repr_name": self.repr(),
        }

    def repr(self) -> str:
        """Return what the user made `repr` say, for errors."""
        if type(self.instance).__repr__ in _PLAIN_REPRS:
            return ""
        try:
            return repr(self.instance)
        except Exception:
            return ""

    async def _run_async(self, call: MethodCall, group: str | None) -> None:
        try:
            async with self._limit(group):
                await self._gather(call.arguments)
                await self._finish(call)
        except asyncio.CancelledError:
            raise  # to whoever started it, which hears of calls that never began, too
        except BaseException as error:
            call.results.fail(call.failed(error))

    def _cancelled(self, call: MethodCall) -> None:
        cancelled = TaskCancelledError(call.context.task_id)
        call.results.fail(self.death or call.failed(cancelled))

    async def _gather(self, arguments: Arguments) -> None:
        pending = [asyncio_future(ref) for ref in arguments.awaited if not ref._entry.done]
        if pending:
            await asyncio.wait(pending)
            for future in pending:
                future.exception()  # it is read again, and raised, with the arguments

    async def _finish(self, call: MethodCall) -> None:
        with call.surroundings():
            value = call.invoke()
            stream = call.results.stream
            if stream is not None and inspect.isasyncgen(value):
                async for item in value:
                    stream.push(item)
                stream.end()
                return
            if inspect.isawaitable(value):
                value = await value
            call.finish(value)

    def exited(self, how: str) -> SkateError:
        """End the actor as the running call has asked for; returns its death."""
        why = f"It ended itself with {how}."
        death = ActorDiedError(why, self.actor_id, "INTENDED_USER_EXIT")
        self._clean_up()
        self.end(death)
        return death

    def crashed(self, why: str) -> SkateError:
        """Begin anew, as far as restarts are left; returns the error of the running call."""
        if not self.may_restart():
            self.end(ActorDiedError(why, self.actor_id))
            assert self.death is not None
            return self.death
        self.restarts += 1
        self.construct_again(self)
        return ActorUnavailableError(f"it is being restarted, because {why}", self.actor_id)

    def may_restart(self) -> bool:
        """Return whether it lives, and may begin anew once more."""
        limit = self.options.max_restarts
        return self.death is None and (limit == -1 or self.restarts < limit)

    def _limit(self, group: str | None) -> asyncio.Semaphore:
        if group not in self._limits:
            groups = self.options.concurrency_groups
            size = groups[group] if group else self.options.max_concurrency or _ASYNC_CONCURRENCY
            self._limits[group] = asyncio.Semaphore(size)
        return self._limits[group]

    # -- ending --------------------------------------------------------------------------------

    def end(self, death: SkateError) -> None:
        """Let every later call fail with `death`."""
        if self.death is None:
            self.death = death
        self.instance = None
        self.release()

    def __del__(self) -> None:
        self._clean_up()
        self.release()

    def _clean_up(self) -> None:
        """Do what the actor wants to do at an end that was asked for."""
        shutdown = getattr(self.instance, "__ray_shutdown__", None)
        if shutdown is not None:
            try:
                shutdown()
            except Exception:
                import traceback

                traceback.print_exc()

    def release(self) -> None:
        """Give back what the actor holds. Runs in destructors too."""
        self._resources.free(self.holding)
        if self._loop is not None:
            self._loop.stop()

    def join(self) -> None:
        if self._loop is not None and self._loop is not threading.current_thread():
            self._loop.join(timeout=1)  # a method that blocks its loop is left to the daemon


class MethodCall(Call):
    """A call of a method of an actor."""

    actor: InlineActor
    method: str

    def run(self) -> None:
        self.actor.finish_streams()
        super().run()
        if self.results.stream is not None:
            self.actor.streams.append(self.results.stream)

    def invoke(self) -> Any:
        if self.actor.death is not None:
            raise KnownError(self.actor.death)
        args, kwargs = self.arguments.load()
        instance = self.actor.instance
        if self.method == "__ray_ready__":
            return True
        if self.method == "__ray_terminate__":
            raise ActorExit(0)
        if self.method == "__ray_call__":
            function, *rest = args
            return function(instance, *rest, **kwargs)
        return method_of(instance, self.method)(*args, **kwargs)

    def finish(self, value: object) -> None:
        if self.context.task_id in self.actor.leaving:
            raise ActorExit(0)  # again: the method has caught the first one
        super().finish(value)

    def failed(self, error: BaseException) -> SkateError:
        if self.context.task_id in self.actor.leaving:
            error = ActorExit(0)
        if isinstance(error, SystemExit):
            return self._exited(error)
        self.actor_repr: str = self.actor.repr()
        return super().failed(error)

    def _exited(self, exit: SystemExit) -> SkateError:
        if isinstance(exit, ActorExit):
            return self.actor.exited("exit_actor()")
        if exit.code is not None and exit.code == 0:
            return self.actor.exited(f"sys.exit({exit.code!r}), exit code 0")
        return self.actor.crashed(f"{self.name} called sys.exit({exit.code!r})")

    def _is_retried(self, error: BaseException) -> bool:
        crashed = type(error) is SystemExit and (error.code is None or error.code != 0)
        if not (crashed and self.retries and self.actor.may_restart()):
            return super()._is_retried(error)
        self.retries: int = self.retries - 1
        self.failed(error)
        return self.actor.death is None


class Construction(MethodCall):
    """The call of a constructor: an error in it is the death of the actor."""

    def invoke(self) -> Any:
        args, kwargs = self.arguments.load()
        cls = self.actor.cls.cls
        if inspect.iscoroutinefunction(cls.__init__):
            return self._construct_later(args, kwargs)
        self.actor.instance = cls(*args, **kwargs)
        return None

    async def _construct_later(self, args: Any, kwargs: Any) -> None:
        made = unfinished(self.actor.cls.cls, args, kwargs)
        await made.__init__(*args, **kwargs)
        self.actor.instance = made

    def failed(self, error: BaseException) -> SkateError:
        death = ActorDiedError(super().failed(error), self.actor.actor_id)
        self.actor.end(death)
        return death


def as_refused_actor(error: SkateError) -> SkateError:
    """Return the error of resources that cannot be had, as actors have it."""
    if isinstance(error, TaskUnschedulableError):
        return ActorUnschedulableError(error.error_message)
    if isinstance(error, TaskPlacementGroupRemoved):
        return ActorPlacementGroupRemoved()
    return error
