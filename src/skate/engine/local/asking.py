"""What both local engines ask of the hub in the same words.

The driver asks `hub.requests` directly, a worker in an `AskHub` message; the answers are the same.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from skate._core import serialization
from skate._core.labels import Selector
from skate._core.refs import ObjectRef
from skate.engine.base import Engine
from skate.engine.local.call_sites import are_noted, with_lines
from skate.engine.local.objects import EngineHome
from skate.engine.spans import Span
from skate.engine.specs import ActorMeta
from skate.exceptions import ActorHandleNotFoundError


class Asking(Engine):
    """The part of the contract that is one question each."""

    home: EngineHome

    @abstractmethod
    def ask(self, method: str, *args: object) -> Any:
        """Call a method of `hub.requests` and return its answer, or raise its error."""

    @abstractmethod
    def given(self, id: int) -> ObjectRef[Any]:
        """Return a reference to an object whose id came in an answer."""

    @abstractmethod
    def new_object(self) -> ObjectRef[Any]:
        """Return a reference to an object that is still to come."""

    # -- actors --------------------------------------------------------------------------------

    def id_of_actor(self, ref: ObjectRef[object]) -> int:
        if ref._home is not self.home:
            raise ActorHandleNotFoundError()
        return ref._id

    def kill(self, actor: ObjectRef[object], no_restart: bool) -> None:
        self.ask("kill", self.id_of_actor(actor), no_restart)

    def get_actor(self, name: str, namespace: str | None) -> tuple[ObjectRef[Any], ActorMeta]:
        id, meta = self.ask("get_actor", name, namespace)
        return self.given(id), serialization.loads(meta)

    def list_named_actors(self, all_namespaces: bool) -> list[tuple[str, str]]:
        return [(namespace, name) for namespace, name in self.ask("named_actors", all_namespaces)]

    # -- resources -----------------------------------------------------------------------------

    def cluster_resources(self) -> dict[str, float]:
        return dict(self.ask("cluster_resources"))

    def add_resources(self, amounts: Mapping[str, float]) -> None:
        self.ask("add_resources", dict(amounts))

    def set_resource(self, name: str, capacity: float) -> None:
        self.ask("set_resource", name, capacity)

    def available_resources(self) -> dict[str, float]:
        return dict(self.ask("available_resources"))

    def nodes(self) -> list[dict[str, Any]]:
        return list(self.ask("nodes"))

    def state(self, kind: str) -> list[dict[str, Any]]:
        rows = list(self.ask("state", kind))
        if kind == "objects" and are_noted():
            from skate.engine.sessions import session_around

            session = session_around()
            return with_lines(rows, {} if session is None else session.call_sites())
        return rows

    def has_begun(self, ref: ObjectRef[object]) -> bool:
        return bool(self.ask("has_begun", ref._id))

    def printed(self, since: int) -> list[dict[str, Any]]:
        return list(self.ask("printed", since))

    def timeline(self) -> list[dict[str, Any]]:
        return list(self.ask("timeline"))

    def profile(self, name: str, extra: Mapping[str, object]) -> Span:
        return Span(name, extra, self.record_span)

    @abstractmethod
    def record_span(
        self, name: str, start: float, micros: int, extra: Mapping[str, object]
    ) -> None:
        """Put a span of this process on the timeline."""

    # -- placement groups ----------------------------------------------------------------------

    def create_placement_group(
        self,
        bundles: Sequence[Mapping[str, float]],
        strategy: str,
        name: str,
        detached: bool,
        selectors: Sequence[Selector],
    ) -> ObjectRef[Any]:
        ref = self.new_object()
        plain = [dict(bundle) for bundle in bundles]
        chosen = [dict(selector) for selector in selectors]
        self.ask("create_group", ref._id, plain, strategy, name, detached, chosen)
        return ref

    def remove_placement_group(self, group: ObjectRef[object]) -> None:
        self.ask("remove_group", group._id)

    def get_placement_group(self, name: str) -> tuple[ObjectRef[Any], list[dict[str, float]]]:
        id, bundles = self.ask("find_group", name)
        return self.given(id), bundles

    def placement_group_table(self) -> dict[str, dict[str, Any]]:
        return dict(self.ask("group_table"))


def described(engine: Engine, ref: ObjectRef[object]) -> str:
    """Return which value it is, in words: of which task, if that is known."""
    task = ref.task_id().hex()
    names = [row["name"] for row in engine.state("tasks") if row["task_id"] == task]
    return f"{f'the result of {names[0]}' if names else 'the value'} ({ref!r})"
