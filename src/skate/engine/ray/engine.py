"""The ray engine: a skate call becomes a Ray call.

Nothing is scheduled, stored or counted here. What this package adds to Ray is skate's way of
pickling (`carrying`), skate's references around Ray's (`references`), hosts for the objects of
actors (`hosts`), and the translation of options and errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import ray
from ray._private import profiling
from ray.util.placement_group import (
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

from skate._core.labels import Selector
from skate._core.refs import ObjectRef, ObjectRefGenerator
from skate.engine.base import Engine
from skate.engine.ray import streams
from skate.engine.ray.arguments import carried_arguments, inner_references
from skate.engine.ray.carrying import arrived_reference, carried, copying
from skate.engine.ray.context import build_context
from skate.engine.ray.errors import translated, translating
from skate.engine.ray.functions import remote_function
from skate.engine.ray.hosts import caller, host_class, publish_meta, published_meta
from skate.engine.ray.options import actor_options
from skate.engine.ray.references import References
from skate.engine.specs import (
    ActorMeta,
    ActorOptions,
    CallOptions,
    ClassSpec,
    Context,
    FunctionSpec,
    TaskOptions,
)

_LONG = 10**6  # seconds; Ray's own clock overflows with more


class RayEngine(Engine):
    """Runs everything on the Ray cluster that this process is connected to."""

    name = "ray"

    def __init__(self, disconnect: Callable[[], None] | None = None) -> None:
        self.references: References = References(self)
        self._disconnect = disconnect
        self._closing = streams.Closing()
        self._pinned: set[ObjectRef[Any]] = set()

    # -- objects -------------------------------------------------------------------------------

    def put(self, value: object) -> ObjectRef[Any]:
        content = carried(value, "value")
        with translating:
            return self.references.new(ray.put(content))

    def put_error(self, error: BaseException, name: str) -> ObjectRef[Any]:
        """Make a reference whose value is an error."""
        theirs = ray.exceptions.RayTaskError(name, str(error), error)
        return self.references.new(ray.put(theirs))

    def get(
        self, refs: Sequence[ObjectRef[object]], timeout: float | None, copy: bool = False
    ) -> list[Any]:
        arrived = None if copy else self._arrived(refs)
        if arrived is not None:
            return arrived
        if not copy:
            return self._get(refs, timeout)
        with copying():
            return self._get(refs, timeout)

    def _get(self, refs: Sequence[ObjectRef[object]], timeout: float | None) -> list[Any]:
        wanted = [self.references.ray_ref(ref) for ref in refs]
        with translating:
            found: list[Any] = ray.get(wanted, timeout=_limited(timeout))
        return found

    def _arrived(self, refs: Sequence[ObjectRef[object]]) -> list[Any] | None:
        """Take the value that a callback has just brought: asking Ray again would block a loop."""
        if len(refs) != 1 or refs[0]._home is not self.references:
            return None
        try:
            value = refs[0]._entry.arrived.pop()
        except IndexError:
            return None
        if isinstance(value, ray.exceptions.RayError):
            raise translated(value)
        return [value]

    def wait(
        self, refs: Sequence[ObjectRef[object]], num_returns: int, timeout: float | None
    ) -> tuple[list[ObjectRef[Any]], list[ObjectRef[Any]]]:
        wanted = {self.references.ray_ref(ref): ref for ref in refs}
        return self._wait(wanted, num_returns, timeout)

    def wait_mixed(
        self, waitables: Sequence[object], num_returns: int, timeout: float | None
    ) -> tuple[list[Any], list[Any]]:
        return self._wait({self._waitable(w): w for w in waitables}, num_returns, timeout)

    def _waitable(self, waitable: Any) -> Any:
        if isinstance(waitable, ObjectRefGenerator):
            return waitable._generator_ref._entry.generator
        return self.references.ray_ref(waitable)

    def _wait(
        self, wanted: dict[Any, Any], num_returns: int, timeout: float | None
    ) -> tuple[list[Any], list[Any]]:
        limit = _limited(timeout)
        with translating:
            ready, others = ray.wait(list(wanted), num_returns=num_returns, timeout=limit)
            chosen = set(ready)
            if others and ready:
                chosen = self._first_ready(list(wanted), chosen)
        return (
            [wanted[one] for one in wanted if one in chosen],
            [wanted[one] for one in wanted if one not in chosen],
        )

    def _first_ready(self, wanted: list[Any], chosen: set[Any]) -> set[Any]:
        """Choose as many of the ready ones, but the first: Ray picks any."""
        last = max(index for index, one in enumerate(wanted) if one in chosen)
        passed_over = [one for one in wanted[:last] if one not in chosen]
        if not passed_over:
            return chosen
        ready, _ = ray.wait(passed_over, num_returns=len(passed_over), timeout=0)
        candidates = chosen.union(ready)
        return set([one for one in wanted if one in candidates][: len(chosen)])

    def add_done_callback(self, ref: ObjectRef[object], callback: Callable[[], None]) -> None:
        entry = ref._entry

        def done(value: object) -> None:
            entry.arrived[:] = [value]
            callback()

        self.references.ray_ref(ref)._on_completed(done)

    def adopt(self, id: int) -> ObjectRef[Any]:
        return self.references.of_id(id)

    def pin(self, ref: ObjectRef[object]) -> None:
        self._pinned.add(ref)

    def reduce(self, ref: ObjectRef[object]) -> Any:
        carrier = ref._entry.carrier()
        if carrier is None:
            return super().reduce(ref)
        self.pin(ref)
        return arrived_reference, (carrier,)

    # -- tasks ---------------------------------------------------------------------------------

    def submit(
        self,
        function: FunctionSpec,
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Any:
        remote = remote_function(function, options, self)
        positional, named = carried_arguments(args, kwargs, self.references)
        with translating:
            made = remote.remote(*positional, **named)
        return self._returned(made, options.num_returns)

    def _returned(self, made: Any, num_returns: int | str) -> Any:
        """Make what `.remote()` gives of what Ray gave."""
        if num_returns == 1 or num_returns == "dynamic":
            return self.references.new(made)
        if num_returns == "streaming":
            self._closing.watch()
            return ObjectRefGenerator(self.references.new_stream(made))
        return None if made is None else [self.references.new(ref) for ref in made]

    def cancel(self, ref: ObjectRef[object], force: bool, recursive: bool) -> None:
        with translating:
            ray.cancel(self.references.ray_ref(ref), force=force, recursive=recursive)

    def stream_next(
        self, generator: ObjectRef[object], index: int, timeout: float | None
    ) -> ObjectRef[Any] | None:
        return streams.take(generator._entry, index, timeout, self.references)

    def stream_ready(self, generator: ObjectRef[object], index: int) -> bool:
        return streams.is_ready(generator._entry)

    def stream_finished(self, generator: ObjectRef[object], index: int) -> bool:
        return streams.is_finished(generator._entry)

    def stream_close(self, generator: ObjectRef[object], index: int) -> None:
        self._closing.close(generator._entry)

    def stream_abandoned(self, generator: ObjectRef[object], index: int) -> None:
        self._closing.close(generator._entry)

    def add_stream_callback(
        self, generator: ObjectRef[object], index: int, callback: Callable[[], None]
    ) -> None:
        streams.when_ready(generator._entry, callback)

    # -- actors --------------------------------------------------------------------------------

    def create_actor(
        self,
        cls: ClassSpec,
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        options: ActorOptions,
    ) -> tuple[ObjectRef[Any], ActorMeta]:
        positional, named = carried_arguments(args, kwargs, self.references)
        host = host_class(cls, options, self)
        if options.name is not None:
            publish_meta(host, cls.meta)
        with translating:
            handle = host.options(**actor_options(options)).remote(*positional, **named)
        ref = self.references.of_actor(handle)
        if options.get_if_exists:
            return ref, published_meta(handle)
        ref._entry.groups = options.concurrency_groups
        ref._entry.kept = inner_references(positional, named) if options.max_restarts else None
        return ref, cls.meta

    def call_actor(
        self,
        actor: ObjectRef[object],
        method: str,
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        options: CallOptions,
    ) -> Any:
        entry = self.references.actor(actor)
        key = (method, options)
        remote = entry.methods.get(key)
        if remote is None:
            remote = entry.methods[key] = caller(entry, method, options)
        positional, named = carried_arguments(args, kwargs, self.references)
        with translating:
            made = remote(positional, named)
        return self._returned(made, options.num_returns)

    def kill(self, actor: ObjectRef[object], no_restart: bool) -> None:
        with translating:
            ray.kill(self.references.actor(actor).handle, no_restart=no_restart)

    def get_actor(self, name: str, namespace: str | None) -> tuple[ObjectRef[Any], ActorMeta]:
        try:
            handle = ray.get_actor(name, namespace)
        except ValueError as error:
            names = ", ".join(sorted(repr(n) for _, n in self.list_named_actors(False)))
            raise ValueError(
                f"Failed to look up actor with name {name!r}: there are: {names or 'none'}"
            ) from error
        return self.references.of_actor(handle), published_meta(handle)

    def list_named_actors(self, all_namespaces: bool) -> list[tuple[str, str]]:
        found = ray.util.list_named_actors(all_namespaces=True)
        here = ray.get_runtime_context().namespace
        pairs = [(row["namespace"], row["name"]) for row in found]
        return [pair for pair in pairs if all_namespaces or pair[0] == here]

    def exit_actor(self) -> None:
        ray.actor.exit_actor()

    # -- resources and surroundings ------------------------------------------------------------

    def cluster_resources(self) -> dict[str, float]:
        return dict(ray.cluster_resources())

    def available_resources(self) -> dict[str, float]:
        return dict(ray.available_resources())

    def nodes(self) -> list[dict[str, Any]]:
        return list(ray.nodes())

    def context(self) -> Context:
        return build_context(self.references)

    def state(self, kind: str) -> list[dict[str, Any]]:
        from ray.util import state

        rows = getattr(state, f"list_{kind}")(detail=True, limit=10_000)
        return [row if isinstance(row, dict) else row.asdict() for row in rows]

    def printed(self, since: int) -> list[dict[str, Any]]:
        raise NotImplementedError(
            "what was printed on a cluster is asked for by ray.util.state.list_logs() and "
            "get_log(), or `ray logs`"
        )

    @property
    def address(self) -> str:
        return str(ray.get_runtime_context().gcs_address)

    def locations(
        self, refs: Sequence[ObjectRef[object]], timeout_ms: int
    ) -> dict[ObjectRef[Any], dict[str, Any]]:
        theirs = {self.references.ray_ref(ref): ref for ref in refs}
        with translating:
            found = ray.experimental.get_object_locations([*theirs], timeout_ms)
        return {theirs[ref]: place for ref, place in found.items()}

    def timeline(self) -> list[dict[str, Any]]:
        return list(ray.timeline() or ())

    def profile(self, name: str, extra: Mapping[str, object]) -> AbstractContextManager[None]:
        texts = {key: str(value) for key, value in extra.items()}
        # The name of an event of Ray's is one of few; what is shown may be anything.
        span: AbstractContextManager[None] = profiling.profile("span", {"name": name, **texts})
        return span

    # -- placement groups ----------------------------------------------------------------------

    def create_placement_group(
        self,
        bundles: Sequence[Mapping[str, float]],
        strategy: str,
        name: str,
        detached: bool,
        selectors: Sequence[Selector],
    ) -> ObjectRef[Any]:
        with translating:
            group = placement_group(
                [dict(bundle) for bundle in bundles],
                strategy=strategy,
                name=name,
                lifetime="detached" if detached else None,
                bundle_label_selector=[dict(selector) for selector in selectors] or None,
            )
        return self.references.of_group(group)

    def remove_placement_group(self, group: ObjectRef[object]) -> None:
        remove_placement_group(group._entry.group)
        group._entry.forget_ready()

    def get_placement_group(self, name: str) -> tuple[ObjectRef[Any], list[dict[str, float]]]:
        try:
            group = get_placement_group(name)
        except ValueError as error:
            raise ValueError(f"Failed to look up placement group with name {name!r}") from error
        return self.references.of_group(group), [dict(b) for b in group.bundle_specs]

    def placement_group_table(self) -> dict[str, dict[str, Any]]:
        return dict(placement_group_table())

    # -- life ----------------------------------------------------------------------------------

    def shutdown(self) -> None:
        self._pinned.clear()
        self._closing.end()
        disconnect, self._disconnect = self._disconnect, None
        if disconnect is not None:
            disconnect()


def _limited(timeout: float | None) -> float | None:
    return None if timeout is None or timeout > _LONG else timeout
