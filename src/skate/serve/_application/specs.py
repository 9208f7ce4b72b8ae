"""From bound deployments to what the controller is told: plain records, one per deployment."""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import inspect
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import cloudpickle

from skate._core import notices
from skate._core.serialization import Packed, dumps
from skate.serve._application.options import DeploymentOptions, GivenOptions, check, resolve
from skate.serve._deployment import Application, Deployment
from skate.serve._identity import DeploymentID, new_tag
from skate.serve._routing.user_routing import plan_of
from skate.serve.config import AutoscalingPolicy

_RUN = "+"  # in a version, between the fingerprint and what makes each run a new one


class DeploymentSpec(NamedTuple):
    """A deployment as the controller keeps it. `code`: class or function, its arguments, and the
    actors that its replicas share."""

    id: DeploymentID
    code: Packed
    version: str  # of whatever needs new replicas when it changes
    options: DeploymentOptions
    is_ingress: bool = False
    has_actors: bool = False

    def following(self, last: DeploymentSpec | None) -> DeploymentSpec:
        """Return the same, with the version before if only the run is another: replicas stay."""
        runs_again = _RUN in self.version
        if last is None or runs_again or last.version.partition(_RUN)[0] != self.version:
            return self
        return self._replace(version=last.version)


class ApplicationSpec(NamedTuple):
    name: str
    route_prefix: str | None
    ingress: str
    deployments: tuple[DeploymentSpec, ...]
    autoscaling_policy: AutoscalingPolicy | None = None  # for all that scale; before their own

    def with_logging(self, config: object) -> ApplicationSpec:
        """Return the same, where deployments that say nothing themselves log as `config` says."""
        if config is None:
            return self
        logging = resolve(check({"logging_config": config})).logging
        deployments = tuple(
            each._replace(options=each.options._replace(logging=each.options.logging or logging))
            for each in self.deployments
        )
        return self._replace(deployments=deployments)


class _Builder:
    """Gives each bound deployment of a graph its name; pickling finds them, however nested."""

    def __init__(
        self,
        app_name: str,
        overrides: Mapping[str, GivenOptions] | None = None,
        runtime_env: GivenOptions | None = None,
        keep_unchanged: bool = False,
    ) -> None:
        self.app_name = app_name
        self.keep_unchanged = keep_unchanged
        self.overrides = overrides or {}
        self.runtime_env = runtime_env or {}
        self.names: dict[int, str] = {}
        self.found: list[Application] = []

    def name_of(self, app: Application) -> str:
        if id(app) not in self.names:
            self.names[id(app)] = self._free_name(app._bound_deployment.name)
            self.found.append(app)
        return self.names[id(app)]

    def _free_name(self, name: str) -> str:
        taken = set(self.names.values())
        candidates = (f"{name}_{number}" if number else name for number in range(len(taken) + 1))
        return next(candidate for candidate in candidates if candidate not in taken)


_builder: contextvars.ContextVar[_Builder | None] = contextvars.ContextVar("builder", default=None)


def reduce_application(app: Application) -> tuple[object, ...]:
    """Return how to pickle a bound deployment: in a graph that is being built, as its handle."""
    builder = _builder.get()
    if builder is None:
        return Application, (app._bound_deployment,)
    from skate.serve.handle import DeploymentHandle

    return DeploymentHandle, (builder.name_of(app), builder.app_name)


def build(
    app: Application,
    name: str,
    route_prefix: str | None,
    overrides: Mapping[str, GivenOptions] | None = None,
    runtime_env: GivenOptions | None = None,
    *,
    keep_unchanged: bool = False,
) -> ApplicationSpec:
    """Return all deployments that an application consists of.

    Args:
        app: The application.
        name: Its name.
        route_prefix: Where it answers HTTP; None for nowhere. Before "/" goes what the deployment
            in front says of itself.
        overrides: Options by the name of a deployment.
        runtime_env: The environment of all of them.
        keep_unchanged: Whether replicas of the same code and arguments are to stay.

    Raises:
        TypeError: If `overrides` names a deployment that there is not.
    """
    if route_prefix == "/":  # nothing else was said
        route_prefix = app._bound_deployment._given.get("route_prefix", "/")
    builder = _Builder(name, overrides, runtime_env, keep_unchanged)
    specs = []
    with _building(builder):
        ingress = builder.name_of(app)
        for part in builder.found:  # which grows while the parts are pickled
            specs.append(_spec(builder, part, part is app))
    wrong = sorted(set(builder.overrides) - set(builder.names.values()))
    if wrong:
        raise ValueError(
            f"Deployment {wrong[0]!r} does not exist. Application {name!r} has "
            f"{sorted(builder.names.values())}"
        )
    return ApplicationSpec(name, route_prefix, ingress, tuple(specs))


@contextlib.contextmanager
def _building(builder: _Builder) -> Iterator[None]:
    token = _builder.set(builder)
    try:
        yield
    finally:
        _builder.reset(token)


def _spec(builder: _Builder, app: Application, is_ingress: bool) -> DeploymentSpec:
    name = builder.name_of(app)
    deployment = _overridden(builder, name, app._bound_deployment)
    actors = deployment.deployment_actors
    parts = (deployment.func_or_class, deployment.init_args, deployment.init_kwargs, actors)
    code = dumps(parts, f"the deployment {name}").packed()
    options = deployment.deployment_options._replace(router=plan_of(deployment.router_config))
    _check_batches(deployment, options)
    version = _fingerprint(code, deployment, options)
    if deployment.version is None and not builder.keep_unchanged:
        version = f"{version}{_RUN}{new_tag()}"
    id = DeploymentID(name, builder.app_name)
    return DeploymentSpec(id, code, version, options, is_ingress, bool(actors))


def _check_batches(deployment: Deployment, options: DeploymentOptions) -> None:
    """Say which batches can never be full, because a replica does not take so many requests."""
    for method in dir(deployment.func_or_class):
        value = inspect.getattr_static(deployment.func_or_class, method, None)
        counts_items = inspect.isfunction(value) and getattr(value, "_counts_items", False)
        if counts_items and (size := value._get_max_batch_size()) > options.max_ongoing_requests:
            notices.once(
                f"batches of {deployment.name}.{method}",
                f"batches of {deployment.name}.{method} have at most "
                f"{options.max_ongoing_requests} items, not max_batch_size={size}: that many "
                f"requests does a replica take at a time; @serve.deployment("
                f"max_ongoing_requests={size}) takes more",
            )


def _overridden(builder: _Builder, name: str, deployment: Deployment) -> Deployment:
    """Return the deployment with what a config file says of it."""
    options = dict(builder.overrides.get(name, {}))
    actor = {**deployment.ray_actor_options, **options.get("ray_actor_options", {})}
    if builder.runtime_env:
        actor["runtime_env"] = {**builder.runtime_env, **actor.get("runtime_env", {})}
    if actor:
        options["ray_actor_options"] = actor
    return deployment.options(**options) if options else deployment


def _fingerprint(code: Packed, deployment: Deployment, options: DeploymentOptions) -> str:
    digest = hashlib.sha1(usedforsecurity=False)
    if deployment.version is not None:  # the user says when the code is another one
        digest.update(deployment.version.encode())
    else:
        _digest_code(digest, code, deployment)
    restarting = (dict(options.actor_options), options.bundles, options.bundle_strategy)
    digest.update(repr(restarting).encode())
    if options.gangs is not None:
        digest.update(repr(options.gangs).encode())
    return digest.hexdigest()


def _digest_code(digest: hashlib._Hash, code: Packed, deployment: Deployment) -> None:
    payload, *buffers = (code,) if isinstance(code, bytes) else code
    digest.update(_without_random_names(payload))
    for buffer in buffers:
        digest.update(buffer)
    digest.update(_source(deployment).encode())


def _without_random_names(payload: bytes) -> bytes:
    """Remove the random names that cloudpickle gives to classes that it pickles by value: the same
    class defined again, or in another program, would look new."""
    trackers = getattr(cloudpickle.cloudpickle, "_DYNAMIC_CLASS_TRACKER_BY_CLASS", {})
    for name in list(trackers.values()):
        payload = payload.replace(name.encode(), b"")
    return payload


def _source(deployment: Deployment) -> str:
    """Return the text of the class: an importable one is pickled by name, so that nothing else
    shows that it changed."""
    try:
        return inspect.getsource(deployment.func_or_class)
    except (OSError, TypeError, SystemError):  # the last if threads of Python 3.11 ask at once
        return ""
