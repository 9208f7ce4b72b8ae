"""Deployments: a class or function with options, and their binding into applications."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

from skate.serve._application import options as options_table
from skate.serve._application.older_spellings import no_such_attribute, takes_older_options
from skate.serve._application.options import (
    NOT_GIVEN,
    DeploymentOptions,
    GivenOptions,
    Options,
    given_options,
)
from skate.serve._settings import SettingTypeError

if TYPE_CHECKING:
    from skate.serve.config import (
        AutoscalingConfig,
        BackpressureConfig,
        DeploymentActorConfig,
        GangSchedulingConfig,
        RequestRouterConfig,
    )
    from skate.serve.deployment_graph import UnboundMethod


Target = Callable[..., object]  # a class or function


class Application:
    """A deployment with the arguments of its constructor; what `serve.run` takes.

    Arguments may be, or contain, other applications: the constructor gets their handles.

    Args:
        bound_deployment: The deployment, with its arguments.
    """

    def __init__(self, bound_deployment: Deployment) -> None:
        self._bound_deployment = bound_deployment

    def __getattr__(self, name: str) -> UnboundMethod:
        if (name.startswith("__") and name != "__call__") or "_bound_deployment" not in vars(self):
            raise AttributeError(name)
        target = self._bound_deployment.func_or_class
        if inspect.isclass(target) and inspect.isroutine(getattr(target, name, None)):
            from skate.serve.deployment_graph import UnboundMethod

            return UnboundMethod(self, name)
        again = " again" if name == "bind" else ""
        raise AttributeError(
            f"'Application' object has no attribute {name!r}: .{name}() cannot be used{again} on "
            "what is bound; it is run by serve.run(app), which returns a handle, and methods are "
            "called on handles"
        )

    def __reduce__(self) -> tuple[object, ...]:
        from skate.serve._application.specs import reduce_application

        return reduce_application(self)

    def __repr__(self) -> str:
        return f"Application({self._bound_deployment.name!r})"


class Deployment:
    """A class or function to be served by replicas; made by `@serve.deployment`.

    Args:
        name: Its name.
        target: The class or function.
        given: Options that have been checked, by name.
        init_args: Arguments of the constructor.
        init_kwargs: Named ones.
    """

    def __init__(
        self,
        name: str,
        target: Target,
        given: GivenOptions,
        init_args: tuple[object, ...] = (),
        init_kwargs: Mapping[str, object] | None = None,
    ) -> None:
        """Make a deployment, as `@serve.deployment` does.

        Args:
            name: Its name.
            target: The class or function.
            given: GivenOptions that have been checked, by name.
            init_args: Arguments of the constructor.
            init_kwargs: Named ones.
        """
        is_object = not name and not hasattr(target, "__name__")
        if is_object or not callable(target):
            raise TypeError(
                f"@serve.deployment takes a class or a function; got {target!r}: give the class "
                "of an object, and its arguments to bind(...)"
            )
        if not isinstance(name, str):
            raise TypeError(f"the name of a deployment is a string; got {name!r}")
        self._name = name
        self._target = target
        self._given = dict(given)
        self._options = options_table.resolve(self._given)
        self._init_args = init_args
        self._init_kwargs = dict(init_kwargs or {})
        self.__doc__ = target.__doc__

    # -- what was given ------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the deployment."""
        return self._name

    @property
    def func_or_class(self) -> Callable[..., object]:
        """The class or function, for a plain object or call."""
        return self._target

    @property
    def init_args(self) -> tuple[object, ...]:
        """The arguments that were bound."""
        return self._init_args

    @property
    def init_kwargs(self) -> dict[str, object]:
        """The named arguments that were bound."""
        return self._init_kwargs

    @property
    def num_replicas(self) -> int | None:
        """How many replicas answer; None where the load decides."""
        return None if self._options.autoscaling else self._options.num_replicas

    @property
    def user_config(self) -> object:
        """What the class's `reconfigure` is given."""
        return self._options.user_config

    @property
    def max_ongoing_requests(self) -> int:
        """How many requests a replica answers at a time."""
        return self._options.max_ongoing_requests

    @property
    def max_concurrent_queries(self) -> int:
        """The name of `max_ongoing_requests` until Ray 2.32."""
        return self._options.max_ongoing_requests

    @property
    def max_queued_requests(self) -> int:
        """How many requests wait in a handle; -1 for no limit."""
        return self._options.max_queued_requests

    @property
    def autoscaling_config(self) -> AutoscalingConfig | None:
        """How the load decides on the number of replicas; None where it does not."""
        return self._options.autoscaling

    @property
    def ray_actor_options(self) -> Options:
        """What each replica takes."""
        return dict(self._options.actor_options)

    @property
    def backpressure_config(self) -> BackpressureConfig:
        """What callers over HTTP are told when too many requests wait."""
        return self._options.backpressure

    @property
    def logging_config(self) -> dict[str, Any] | None:
        """How replicas log; None if nothing was said of it."""
        return None if self._options.logging is None else dict(self._options.logging)

    @property
    def deployment_actors(self) -> tuple[DeploymentActorConfig, ...]:
        """The actors that all replicas share."""
        return self._given.get("deployment_actors") or ()

    @property
    def version(self) -> str | None:
        """What stands for the code, where it was given."""
        return self._given.get("version")

    @property
    def router_config(self) -> RequestRouterConfig | None:
        """How replicas are chosen, where it was given."""
        return self._given.get("request_router_config")

    @property
    def gang_scheduling_config(self) -> GangSchedulingConfig | None:
        """How replicas start and end together; None where each is on its own."""
        return self._options.gangs

    @property
    def deployment_options(self) -> DeploymentOptions:
        """All options, with their defaults."""
        return self._options

    # -- use -----------------------------------------------------------------------------------

    def bind(self, /, *args: object, **kwargs: object) -> Application:
        """Bind arguments of the constructor; those of a function are of a call in a graph.

        Args:
            args: Arguments; applications among them, also inside of lists and dictionaries,
                become handles.
            kwargs: Named ones.

        Returns:
            An application, for `serve.run` or as an argument of another `bind`. Of a function
            with calls or the input of a graph among its arguments, a call in that graph.

        Raises:
            TypeError: If the deployment is a function, which has no constructor; a ValueError too.
        """
        if not inspect.isclass(self._target) and (args or kwargs):
            from skate.serve.deployment_graph import GraphHandle, has_calls

            if has_calls([args, kwargs]):
                # Checkers are told what it is in today's programs.
                return GraphHandle(self.bind(), "__call__", args, kwargs)  # type: ignore[return-value]
            raise SettingTypeError(
                f"deployment {self._name!r} is a function and has no constructor that could take "
                f"bound arguments; got {args!r}, {kwargs!r}: make it a class, or give them to the "
                "call"
            )
        return Application(Deployment(self._name, self._target, self._given, args, kwargs))

    @takes_older_options
    def options(
        self,
        func_or_class: Target | None = None,
        *,
        name: str | None = None,
        num_replicas: int | Literal["auto"] | None = NOT_GIVEN,
        version: str | None = NOT_GIVEN,
        user_config: object = NOT_GIVEN,
        max_ongoing_requests: int = NOT_GIVEN,
        max_queued_requests: int = NOT_GIVEN,
        autoscaling_config: AutoscalingConfig | GivenOptions | None = NOT_GIVEN,
        backpressure_config: BackpressureConfig | GivenOptions | None = NOT_GIVEN,
        graceful_shutdown_wait_loop_s: float = NOT_GIVEN,
        graceful_shutdown_timeout_s: float = NOT_GIVEN,
        health_check_period_s: float = NOT_GIVEN,
        health_check_timeout_s: float = NOT_GIVEN,
        max_constructor_retry_count: int = NOT_GIVEN,
        rolling_update_percentage: float = NOT_GIVEN,
        max_surge_percent: int = NOT_GIVEN,
        ray_actor_options: GivenOptions | None = NOT_GIVEN,
        placement_group_bundles: Sequence[Mapping[str, float]] | None = NOT_GIVEN,
        placement_group_strategy: str | None = NOT_GIVEN,
        placement_group_bundle_label_selector: Sequence[Mapping[str, str]] | None = NOT_GIVEN,
        max_replicas_per_node: int | None = NOT_GIVEN,
        logging_config: object = NOT_GIVEN,
        request_router_config: RequestRouterConfig | GivenOptions | None = NOT_GIVEN,
        gang_scheduling_config: GangSchedulingConfig | Mapping[str, Any] | None = NOT_GIVEN,
        deployment_actors: Sequence[DeploymentActorConfig | GivenOptions] | None = NOT_GIVEN,
        route_prefix: str | None = NOT_GIVEN,
    ) -> Deployment:
        """Return the same deployment with some options changed; this one stays as it is.

        Args:
            func_or_class: Another class or function; by default the same.
            name: Another name; by default the same.
            num_replicas: How many replicas answer, 1 by default; "auto" lets the load decide, up
                to 100.
            version: Stands for the code: replicas are replaced when it changes, and not when the
                code does. Without it, each run replaces them.
            user_config: Given to the class's method `reconfigure`, at the start and whenever it
                changes; replicas stay.
            max_ongoing_requests: How many requests a replica answers at a time; 5 by default.
            max_queued_requests: How many requests wait in a handle until a replica is free;
                beyond that `BackPressureError` is raised. -1, the default, is no limit.
            autoscaling_config: An `AutoscalingConfig` or a dictionary of its fields: the load
                decides on the number of replicas. None, the default: `num_replicas` does.
            backpressure_config: A `BackpressureConfig` or a dictionary of its fields: what
                callers over HTTP are told when too many requests wait.
            graceful_shutdown_wait_loop_s: Checked only: a replica that stops is told at once when
                it is idle.
            graceful_shutdown_timeout_s: Seconds in which a replica that stops may finish what it
                has; 20 by default.
            health_check_period_s: Seconds between calls of the class's `check_health`; 10 by
                default. Three failures in a row replace the replica.
            health_check_timeout_s: Seconds for an answer of `check_health`; 30 by default.
            max_constructor_retry_count: How often a replica may fail to start before the
                deployment has failed; 20 by default, and at most three times per replica.
            rolling_update_percentage: Which share of the replicas is replaced at a time; 0.2 by
                default.
            max_surge_percent: How many replicas, in percent, may be there beyond `num_replicas`
                while they are replaced; 0, the default, is one where none reserves resources.
            ray_actor_options: What each replica takes: `num_cpus`, `num_gpus`, `memory`,
                `resources`, `accelerator_type`, `runtime_env`, `label_selector`,
                `fallback_strategy`. By default nothing is reserved.
            placement_group_bundles: Resources that are reserved for each replica, as a list of
                dictionaries; the replica is in the first, what it starts in the others.
            placement_group_strategy: How the bundles are placed: "PACK" by default.
            placement_group_bundle_label_selector: No effect: there is one machine.
            max_replicas_per_node: Checked only: there is one machine.
            logging_config: How replicas log: a `LoggingConfig`, or a dictionary of its fields.
            request_router_config: How handles choose among replicas: a `RequestRouterConfig`, or a
                dictionary of its fields.
            gang_scheduling_config: Replicas that start and end together: a `GangSchedulingConfig`,
                or a dictionary of its fields.
            deployment_actors: Actors that all replicas share, by `DeploymentActorConfig`.
            route_prefix: Where it answers HTTP in front of an application, unless that says so.

        Returns:
            The changed deployment.

        Raises:
            TypeError: If an option does not exist, or has the wrong type.
            ValueError: If a value is not allowed, or does not go with another.
        """
        options = given_options(locals())
        changed = {**self._given, **options_table.check(options)}
        # The one that is given last decides on the number of replicas.
        if options.get("num_replicas") not in (None, "auto"):
            if "autoscaling_config" not in options:
                changed.pop("autoscaling_config", None)
        elif options.get("autoscaling_config") is not None and "num_replicas" not in options:
            changed.pop("num_replicas", None)
        return Deployment(
            self._name if name is None else name,
            func_or_class or self._target,
            changed,
            self._init_args,
            self._init_kwargs,
        )

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError(
            f"deployment {self._name!r} cannot be called, and cannot be constructed directly: use "
            f"serve.run({self._name}.bind(...)) and the handle that it returns, or "
            f"{self._name}.func_or_class(...) for a plain object"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_target" not in self.__dict__:
            raise AttributeError(name)
        from skate.serve._application.single_deployments import attribute

        try:
            return attribute(self, name)
        except KeyError:
            raise AttributeError(no_such_attribute(self._name, name)) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deployment) and (
            (self._name, self._target, self._options, self._init_args, self._init_kwargs)
            == (other._name, other._target, other._options, other._init_args, other._init_kwargs)
        )

    def __hash__(self) -> int:
        return hash((self._name, self._target))

    def __repr__(self) -> str:
        return f"Deployment(name={self._name!r})"

    def __reduce__(self) -> tuple[object, ...]:
        state = (self._name, self._target, self._given, self._init_args, self._init_kwargs)
        return Deployment, state


@overload
def deployment(_func_or_class: Target, /, name: str | None = None) -> Deployment: ...


@overload
def deployment(
    _func_or_class: str | None = None,
    name: str | None = None,
    *,
    num_replicas: int | Literal["auto"] | None = ...,
    version: str | None = ...,
    user_config: object = ...,
    max_ongoing_requests: int = ...,
    max_queued_requests: int = ...,
    autoscaling_config: AutoscalingConfig | GivenOptions | None = ...,
    backpressure_config: BackpressureConfig | GivenOptions | None = ...,
    graceful_shutdown_wait_loop_s: float = ...,
    graceful_shutdown_timeout_s: float = ...,
    health_check_period_s: float = ...,
    health_check_timeout_s: float = ...,
    max_constructor_retry_count: int = ...,
    rolling_update_percentage: float = ...,
    max_surge_percent: int = ...,
    ray_actor_options: GivenOptions | None = ...,
    placement_group_bundles: Sequence[Mapping[str, float]] | None = ...,
    placement_group_strategy: str | None = ...,
    placement_group_bundle_label_selector: Sequence[Mapping[str, str]] | None = ...,
    max_replicas_per_node: int | None = ...,
    logging_config: object = ...,
    request_router_config: RequestRouterConfig | GivenOptions | None = ...,
    gang_scheduling_config: GangSchedulingConfig | Mapping[str, Any] | None = ...,
    deployment_actors: Sequence[DeploymentActorConfig | GivenOptions] | None = ...,
    route_prefix: str | None = ...,
) -> Callable[[Target], Deployment]: ...


@takes_older_options
def deployment(
    _func_or_class: Target | str | None = None,
    name: str | None = None,
    *,
    num_replicas: int | Literal["auto"] | None = NOT_GIVEN,
    version: str | None = NOT_GIVEN,
    user_config: object = NOT_GIVEN,
    max_ongoing_requests: int = NOT_GIVEN,
    max_queued_requests: int = NOT_GIVEN,
    autoscaling_config: AutoscalingConfig | GivenOptions | None = NOT_GIVEN,
    backpressure_config: BackpressureConfig | GivenOptions | None = NOT_GIVEN,
    graceful_shutdown_wait_loop_s: float = NOT_GIVEN,
    graceful_shutdown_timeout_s: float = NOT_GIVEN,
    health_check_period_s: float = NOT_GIVEN,
    health_check_timeout_s: float = NOT_GIVEN,
    max_constructor_retry_count: int = NOT_GIVEN,
    rolling_update_percentage: float = NOT_GIVEN,
    max_surge_percent: int = NOT_GIVEN,
    ray_actor_options: GivenOptions | None = NOT_GIVEN,
    placement_group_bundles: Sequence[Mapping[str, float]] | None = NOT_GIVEN,
    placement_group_strategy: str | None = NOT_GIVEN,
    placement_group_bundle_label_selector: Sequence[Mapping[str, str]] | None = NOT_GIVEN,
    max_replicas_per_node: int | None = NOT_GIVEN,
    logging_config: object = NOT_GIVEN,
    request_router_config: RequestRouterConfig | GivenOptions | None = NOT_GIVEN,
    gang_scheduling_config: GangSchedulingConfig | Mapping[str, Any] | None = NOT_GIVEN,
    deployment_actors: Sequence[DeploymentActorConfig | GivenOptions] | None = NOT_GIVEN,
    route_prefix: str | None = NOT_GIVEN,
) -> Deployment | Callable[[Target], Deployment]:
    """Make a class or function a deployment: `@serve.deployment` or `@serve.deployment(...)`.

    Args:
        _func_or_class: The class or function; without it, the result is a decorator.
        name: The name of the deployment; by default that of the class or function.
        num_replicas: How many replicas answer, 1 by default; "auto" lets the load decide, up
            to 100.
        version: Stands for the code: replicas are replaced when it changes, and not when the
            code does. Without it, each run replaces them.
        user_config: Given to the class's method `reconfigure`, at the start and whenever it
            changes; replicas stay.
        max_ongoing_requests: How many requests a replica answers at a time; 5 by default.
        max_queued_requests: How many requests wait in a handle until a replica is free;
            beyond that `BackPressureError` is raised. -1, the default, is no limit.
        autoscaling_config: An `AutoscalingConfig` or a dictionary of its fields: the load
            decides on the number of replicas. None, the default: `num_replicas` does.
        backpressure_config: A `BackpressureConfig` or a dictionary of its fields: what
            callers over HTTP are told when too many requests wait.
        graceful_shutdown_wait_loop_s: Checked only: a replica that stops is told at once when
            it is idle.
        graceful_shutdown_timeout_s: Seconds in which a replica that stops may finish what it
            has; 20 by default.
        health_check_period_s: Seconds between calls of the class's `check_health`; 10 by
            default. Three failures in a row replace the replica.
        health_check_timeout_s: Seconds for an answer of `check_health`; 30 by default.
        max_constructor_retry_count: How often a replica may fail to start before the
            deployment has failed; 20 by default, and at most three times per replica.
        rolling_update_percentage: Which share of the replicas is replaced at a time; 0.2 by
            default.
        max_surge_percent: How many replicas, in percent, may be there beyond `num_replicas`
            while they are replaced; 0, the default, is one where none reserves resources.
        ray_actor_options: What each replica takes: `num_cpus`, `num_gpus`, `memory`,
            `resources`, `accelerator_type`, `runtime_env`, `label_selector`,
            `fallback_strategy`. By default nothing is reserved.
        placement_group_bundles: Resources that are reserved for each replica, as a list of
            dictionaries; the replica is in the first, what it starts in the others.
        placement_group_strategy: How the bundles are placed: "PACK" by default.
        placement_group_bundle_label_selector: No effect: there is one machine.
        max_replicas_per_node: Checked only: there is one machine.
        logging_config: How replicas log: a `LoggingConfig`, or a dictionary of its fields.
        request_router_config: How handles choose among replicas: a `RequestRouterConfig`, or a
            dictionary of its fields.
        gang_scheduling_config: A `GangSchedulingConfig` or a dictionary of its fields: replicas
            that start and end together.
        deployment_actors: Actors that all replicas share, by `DeploymentActorConfig`.
        route_prefix: Where it answers HTTP in front of an application, unless that says so.

    Returns:
        The deployment, or a decorator that makes one.

    Raises:
        TypeError: If an option does not exist, or has the wrong type.
        ValueError: If a value is not allowed, or does not go with another.

    Example:
        >>> from skate import serve
        >>> @serve.deployment(num_replicas=2)
        ... class Greeter:
        ...     async def __call__(self, name: str) -> str:
        ...         return f"hello {name}"
        >>> Greeter.num_replicas
        2
    """
    checked = options_table.check(given_options(locals()))
    if isinstance(_func_or_class, str):
        _func_or_class, name = None, name or _func_or_class

    def decorate(target: Target) -> Deployment:
        return Deployment(
            getattr(target, "__name__", "") if name is None else name, target, checked
        )

    if _func_or_class is None:
        options_table.resolve(checked)
        return decorate
    return decorate(_func_or_class)
