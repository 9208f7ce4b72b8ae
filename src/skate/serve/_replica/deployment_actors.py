"""Actors that all replicas of a deployment share: `deployment_actors`.

    replica ── starts those that are not there yet ─► actor with a name ◄── other replicas
    controller ── ends them with the last replica of their version ─►

The engine starts one anew that dies, so that handles to it stay good; its state begins anew too.
One that somebody has killed for good a replica starts again when its health is checked; it is
found by its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

import skate
from skate.serve._identity import NAMESPACE, DeploymentID
from skate.serve.config import DeploymentActorConfig
from skate.serve.context import get_replica_context
from skate.serve.exceptions import SkateServeError

_PREFIX = "SERVE_DEPLOYMENT_ACTOR::"


class ActorKey(NamedTuple):
    """Which actor of which version of a deployment."""

    deployment_id: DeploymentID
    version: str
    name: str

    def __str__(self) -> str:
        name, app = self.deployment_id
        return _PREFIX + "::".join(map(_quoted, (app, name, self.version, self.name)))

    @classmethod
    def of(cls, text: str) -> ActorKey | None:
        """Return what the name of an actor says; None if it is another's."""
        if not text.startswith(_PREFIX):
            return None
        app, deployment, version, name = map(unquote, text.removeprefix(_PREFIX).split("::", 3))
        return cls(DeploymentID(deployment, app), version, name)


def _quoted(part: str) -> str:
    """Return a part of a name without the sign between parts."""
    return part.replace("%", "%25").replace(":", "%3A")


class SharedActors:
    """The actors of a deployment, as one of its replicas looks after them."""

    def __init__(
        self, id: DeploymentID, version: str, configs: Iterable[DeploymentActorConfig] = ()
    ) -> None:
        self._configs = {ActorKey(id, version, config.name): config for config in configs}
        self._starting: dict[ActorKey, asyncio.Future[None]] = {}  # those that were gone
        self._failures: dict[ActorKey, BaseException] = {}  # of those that could not start again

    def __bool__(self) -> bool:
        return bool(self._configs)

    async def start(self) -> None:
        """Start those that are not there, and wait until all are."""
        started = [_find_or_start(key, config) for key, config in self._configs.items()]
        for each in started:
            await each.__ray_ready__.remote()

    def look_after(self) -> None:
        """Start those again that are gone, and do not wait for them.

        Raises:
            SkateError: If one that was gone could not start, and has not since.
        """
        for key, config in self._configs.items():
            self._note_start(key)
            if key not in self._starting and (key in self._failures or not _is_there(key)):
                actor = _find_or_start(key, config)
                self._starting[key] = asyncio.ensure_future(_ready(actor))
        for failure in self._failures.values():
            raise failure.with_traceback(None)  # it is raised again and again

    def _note_start(self, key: ActorKey) -> None:
        """Note how the constructor of one has ended that was gone."""
        if key in self._starting and self._starting[key].done():
            failure = self._starting.pop(key).exception()
            self._failures.pop(key, None)
            if failure is not None:
                self._failures[key] = failure


async def _ready(actor: Any) -> None:
    await actor.__ray_ready__.remote()


def _is_there(key: ActorKey) -> bool:
    try:
        skate.get_actor(str(key), namespace=NAMESPACE)
    except ValueError:
        return False
    return True


def _find_or_start(key: ActorKey, config: DeploymentActorConfig) -> Any:
    actor_class: Any = config.get_actor_class()
    options = {"max_restarts": -1, **config.actor_options}
    return actor_class.options(
        **options, name=str(key), namespace=NAMESPACE, lifetime="detached", get_if_exists=True
    ).remote(*config.init_args, **config.init_kwargs)


def find_all() -> Iterator[ActorKey]:
    """Find the actors of all deployments."""
    from skate.util import list_named_actors

    entries: list[Any] = list_named_actors(all_namespaces=True)
    for entry in entries:
        key = ActorKey.of(entry["name"]) if entry["namespace"] == NAMESPACE else None
        if key is not None:
            yield key


def end_version(id: DeploymentID, version: str) -> None:
    """End the actors of a version of a deployment."""
    for key in find_all():
        if (key.deployment_id, key.version) == (id, version):
            try:
                skate.kill(skate.get_actor(str(key), namespace=NAMESPACE))
            except ValueError:
                pass  # it is gone


def get_deployment_actor(actor_name: str) -> Any:
    """Return the handle to an actor that all replicas of this deployment share.

    Args:
        actor_name: Its name in `deployment_actors`.

    Raises:
        SkateServeError: Outside of a replica.
        ValueError: If the deployment has no such actor.

    Example:
        counter = serve.get_deployment_actor("counter")
    """
    context = get_replica_context()
    id = context.replica_id.deployment_id
    try:
        return skate.get_actor(str(ActorKey(id, context.version, actor_name)), namespace=NAMESPACE)
    except ValueError:
        there = [key.name for key in find_all() if key[:2] == (id, context.version)]
        raise ValueError(
            f"{id} has no actor {actor_name!r} in its deployment_actors; it has "
            f"{', '.join(there) or 'none'}"
        ) from None


@dataclass(frozen=True)
class DeploymentActorContext:
    """The actor of a deployment that runs the calling code.

    Args:
        deployment_id: The deployment.
        actor_name: The actor's name in `deployment_actors`.
        code_version: The version of the deployment that it is of.
    """

    deployment_id: DeploymentID
    actor_name: str
    code_version: str | None = None

    @property
    def app_name(self) -> str:
        """The name of the application."""
        return self.deployment_id.app_name

    @property
    def deployment(self) -> str:
        """The name of the deployment."""
        return self.deployment_id.name


def get_deployment_actor_context() -> DeploymentActorContext:
    """Return which actor of which deployment runs this code.

    Raises:
        SkateServeError: Outside of an actor of a deployment.
    """
    key = ActorKey.of(skate.get_runtime_context().get_actor_name() or "")
    if key is None:
        raise SkateServeError(
            "get_deployment_actor_context() answers inside an actor of `deployment_actors`; this "
            "code runs in none"
        )
    return DeploymentActorContext(key.deployment_id, key.name, key.version)
