"""The actor that a worker process is there for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.engine.specs import method_of, unfinished

if TYPE_CHECKING:
    from skate.engine.local.messages import WorkSettings


class HostedActor:
    """The instance and what is known of it. `id` is 0 in a worker that has none."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self.instance: Any = None  # until its construction begins
        self.id: int = 0
        self.label: str = ""
        self.print_label: str = ""  # in front of what it prints
        self.settings: WorkSettings = {}
        self._leave = leave  # ends the actor, for its method `__ray_terminate__`
        self._methods: dict[str, Callable[..., Any]] = {}  # as they are called

    def announce(self, id: int, label: str, settings: WorkSettings) -> None:
        """Say who the actor is that is about to be constructed."""
        self.id = id
        self.label = self.print_label = label
        self.settings = settings

    def construct(self, cls: Any, args: Any, kwargs: Any) -> Any:
        """Make the instance, and return what its `__init__` does: a coroutine if it is async.

        It is in place before `__init__` runs, which may already ask who it is.
        """
        self.instance = made = unfinished(cls, args, kwargs)
        return made.__init__(*args, **kwargs)

    def constructed(self) -> str:
        """Return what the finished actor's own `__repr__` says, or ""."""
        said = own_repr(self.instance)
        self.print_label = said or self.label
        return said

    @property
    def has_cpu(self) -> bool:
        """Return whether it keeps CPUs for itself while it waits."""
        return bool(self.settings.get("resources", {}).get("CPU"))

    def method(self, name: str) -> Callable[..., Any]:
        """Return a method by its name, or what Ray offers under such a name."""
        known = self._methods.get(name)
        if known is not None:
            return known
        if name == "__ray_ready__":
            return lambda: True
        if name == "__ray_terminate__":
            return self._leave
        if name == "__ray_call__":
            return lambda function, *args, **kwargs: function(self.instance, *args, **kwargs)
        method = self._methods[name] = method_of(self.instance, name)
        return method

    def end(self) -> None:
        """Let the actor clean up: `__ray_shutdown__` if it has one, then `__del__`."""
        instance, self.instance = self.instance, None
        self._methods.clear()
        shutdown = getattr(instance, "__ray_shutdown__", None)
        if shutdown is not None:
            try:
                shutdown()
            except Exception:
                import traceback

                traceback.print_exc()


def safe_repr(value: object) -> str:
    """Return a repr for messages: a user's own may fail, before `__init__` is done above all."""
    try:
        return repr(value)
    except Exception:
        return object.__repr__(value)


def own_repr(actor: object) -> str:
    """Return what the user's own `__repr__` says in one line, or nothing."""
    cls: Any = type(actor)
    if cls.__repr__ is object.__repr__:
        return ""
    try:
        said = repr(actor)
    except Exception:
        return ""
    return said if said.isprintable() else ""
