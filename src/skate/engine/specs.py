"""What engines are asked to run, in the façade's words: options, functions, classes.

And in theirs, where code runs: `Context`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from skate._core.refs import ObjectRef
    from skate._core.signature import Arity

# Named tuples: made in a third of the time that frozen data classes take, which every start of a
# process pays.

_NONE: Mapping[str, Any] = {}


class TaskOptions(NamedTuple):
    """Validated options of a task. `None` for a number of CPUs means "the default"."""

    num_returns: int | str = 1  # n, "dynamic" or "streaming"
    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: int | None = None
    resources: Mapping[str, float] | None = None
    max_retries: int = 3  # -1: for ever
    retry_exceptions: bool | tuple[type[BaseException], ...] = False
    max_calls: int | None = None  # None: 1 with GPUs, otherwise no limit
    name: str | None = None
    runtime_env: Mapping[str, Any] | None = None
    placement_group: Any = None  # PlacementGroup; None: the one around it; False: none
    bundle_index: int = -1
    capture_child_tasks: bool = False
    strategy: Any = None  # "SPREAD" or where else among several machines; nothing on one
    label_selectors: tuple[Mapping[str, str], ...] = ()  # of machines, the best first; (): any
    backpressure: int | None = None  # unconsumed items after which a streaming task pauses
    listed: bool = True  # by the state API and the timeline


class ActorOptions(NamedTuple):
    """Validated options of an actor. Without num_cpus an actor takes no CPU once it runs."""

    num_cpus: float | None = None
    num_gpus: float | None = None
    memory: int | None = None
    resources: Mapping[str, float] | None = None
    max_restarts: int = 0  # -1: for ever
    max_task_retries: int = 0  # -1: for ever
    max_pending_calls: int = -1
    max_concurrency: int | None = None  # None: 1, or 1000 for a class with async methods
    concurrency_groups: Mapping[str, int] = _NONE
    name: str | None = None
    namespace: str | None = None
    get_if_exists: bool = False
    detached: bool = False
    runtime_env: Mapping[str, Any] | None = None
    placement_group: Any = None
    bundle_index: int = -1
    capture_child_tasks: bool = False
    strategy: Any = None
    label_selectors: tuple[Mapping[str, str], ...] = ()
    listed: bool = True


class CallOptions(NamedTuple):
    """Validated options of one actor method call."""

    num_returns: int | str = 1
    max_task_retries: int | None = None  # None: the actor's
    retry_exceptions: bool | tuple[type[BaseException], ...] = False
    concurrency_group: str | None = None
    name: str | None = None
    backpressure: int | None = None
    listed: bool | None = None  # None: as the actor's construction


class FunctionSpec:
    """A remote function as engines see it: made once per `@remote`, exported once per worker."""

    __slots__ = ("__weakref__", "exported", "function", "name")

    def __init__(self, function: Callable[..., object], name: str) -> None:
        self.function: Callable[..., Any] = function
        self.name: str = name
        self.exported: Any = None  # the engine's own record of what it has sent


class MethodMeta(NamedTuple):
    """What a handle must know of one method without having the class."""

    name: str
    options: CallOptions = CallOptions()
    is_async: bool = False
    is_generator: bool = False
    signature: Arity | None = None  # without self, for errors at the call site
    invocation: Any = None  # a decorator of calls, as the façade's `decorated` uses it
    is_traced: bool = False  # whether it takes the context of a trace, as `CallTracer` adds it


class ActorMeta(NamedTuple):
    """Travels with every handle, so that a handle works where the class is not importable."""

    class_name: str
    module: str
    methods: Mapping[str, MethodMeta]
    is_async: bool = False
    qualified_name: str = ""  # as the state API has it: with the functions around the class


class ClassSpec:
    """A remote class as engines see it."""

    __slots__ = ("__weakref__", "cls", "exported", "meta")

    def __init__(self, cls: type[object], meta: ActorMeta) -> None:
        self.cls: type[Any] = cls
        self.meta: ActorMeta = meta
        self.exported: Any = None


def unfinished(cls: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return a new instance of an actor's class, before its `__init__`, which may be async."""
    has_own_new = getattr(cls, "__new__", None) is not object.__new__
    return cls.__new__(cls, *args, **kwargs) if has_own_new else cls.__new__(cls)


def method_name(cls: type[object], class_name: str, method: str, *, is_async: bool) -> str:
    """Return the method's name with its module; of async actors, as coroutines have it,
    qualified."""
    short = f"{class_name}.{method}"
    name = getattr(getattr(cls, method, None), "__qualname__", short) if is_async else short
    return f"{cls.__module__}.{name}"


def method_of(instance: object, name: str) -> Callable[..., object]:
    """Bind what its class defines: a method may share its name with an attribute of the
    instance."""
    cls = type(instance)
    defined = next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
    bound: Callable[..., Any] = defined.__get__(instance, cls)
    return bound


class Context(NamedTuple):
    """Where the calling code runs; the source of `get_runtime_context()`. Ids are hex strings."""

    job_id: str
    node_id: str
    worker_id: str
    namespace: str
    task_id: str | None = None
    task_name: str | None = None
    function_name: str | None = None
    actor_id: str | None = None
    actor_name: str | None = None
    actor: tuple[ObjectRef[None], ActorMeta] | None = None  # the actor that runs this code
    actor_restarted: bool = False
    placement_group: Any = None  # PlacementGroup, or the engine's reference for one
    capture_child_tasks: bool = False
    resources: Mapping[str, float] = _NONE
    gpu_ids: tuple[int | str, ...] = ()
    accelerator_ids: Mapping[str, tuple[int | str, ...]] = _NONE  # by resource, GPUs included
    runtime_env: Mapping[str, Any] = _NONE
    cancelled: bool = False
    session_name: str = ""
    temp_dir: str = ""
    scratch_dir: str = ""  # for files that must not outlive the session; "": wherever they are
