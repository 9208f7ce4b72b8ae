"""Deployments: a class or function with options, and their binding into applications."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from skate.serve import _options
from skate.serve._options import DeploymentOptions


class Application:
    """A deployment with the arguments of its constructor; what `serve.run` takes.

    Arguments may be, or contain, other applications: the constructor gets their handles.
    """

    def __init__(self, bound_deployment: Deployment) -> None:
        self._bound_deployment = bound_deployment

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_bound_deployment" not in self.__dict__:
            raise AttributeError(name)
        raise AttributeError(
            f"'Application' object has no attribute {name!r}: it is run by serve.run(app), which "
            "returns a handle; methods are called on handles"
        )

    def __reduce__(self) -> Any:
        from skate.serve._application import reduce_application

        return reduce_application(self)

    def __repr__(self) -> str:
        return f"Application({self._bound_deployment.name!r})"


class Deployment:
    """A class or function to be served by replicas; made by `@serve.deployment`."""

    def __init__(
        self,
        name: str,
        target: Callable[..., Any],
        given: Mapping[str, Any],
        init_args: tuple[Any, ...] = (),
        init_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        if not callable(target):
            raise TypeError(f"@serve.deployment takes a class or a function; got {target!r}")
        if not isinstance(name, str):
            raise TypeError(f"the name of a deployment is a string; got {name!r}")
        self._name = name
        self._target = target
        self._given = dict(given)
        self._options = _options.resolve(self._given)
        self._init_args = init_args
        self._init_kwargs = dict(init_kwargs or {})
        self.__doc__ = target.__doc__

    # -- what was given ------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._name

    @property
    def func_or_class(self) -> Callable[..., Any]:
        return self._target

    @property
    def init_args(self) -> tuple[Any, ...]:
        return self._init_args

    @property
    def init_kwargs(self) -> dict[str, Any]:
        return self._init_kwargs

    @property
    def num_replicas(self) -> int | None:
        """None where the load decides."""
        return None if self._options.autoscaling else self._options.num_replicas

    @property
    def user_config(self) -> Any:
        return self._options.user_config

    @property
    def max_ongoing_requests(self) -> int:
        return self._options.max_ongoing_requests

    @property
    def max_concurrent_queries(self) -> int:
        return self._options.max_ongoing_requests

    @property
    def max_queued_requests(self) -> int:
        return self._options.max_queued_requests

    @property
    def autoscaling_config(self) -> Any:
        return self._options.autoscaling

    @property
    def ray_actor_options(self) -> dict[str, Any]:
        return dict(self._options.actor_options)

    @property
    def backpressure_config(self) -> Any:
        return self._options.backpressure

    @property
    def logging_config(self) -> Any:
        """As it was given; logging is the program's."""
        return self._given.get("logging_config")

    @property
    def version(self) -> str | None:
        """What stands for the code, where it was given."""
        return self._given.get("version")

    def check_router(self) -> None:
        """Refuse a way to choose among replicas that there is not."""
        router = self._given.get("request_router_config")
        if router is not None:
            router.check_supported()

    @property
    def deployment_options(self) -> DeploymentOptions:
        """All options, with their defaults."""
        return self._options

    # -- use -----------------------------------------------------------------------------------

    def bind(self, /, *args: Any, **kwargs: Any) -> Application:
        """An application of this deployment and the arguments of its constructor."""
        if not inspect.isclass(self._target) and (args or kwargs):
            raise TypeError(
                f"deployment {self._name!r} is a function and has no constructor that could take "
                f"bound arguments; got {args!r}, {kwargs!r}: make it a class, or give them to the "
                "call"
            )
        return Application(Deployment(self._name, self._target, self._given, args, kwargs))

    def options(
        self,
        func_or_class: Callable[..., Any] | None = None,
        *,
        name: str | None = None,
        **options: Any,
    ) -> Deployment:
        """The same deployment with some options changed."""
        options.pop("_internal", None)
        changed = {**self._given, **_options.check(options)}
        if options.get("num_replicas") is not None and "autoscaling_config" not in options:
            changed["autoscaling_config"] = (
                None
                if options["num_replicas"] != "auto"
                else (self._given.get("autoscaling_config"))
            )
        if options.get("autoscaling_config") is not None and "num_replicas" not in options:
            changed["num_replicas"] = None
        target = func_or_class or self._target
        return Deployment(
            self._name if name is None else name,
            target,
            changed,
            self._init_args,
            self._init_kwargs,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"deployment {self._name!r} cannot be called or constructed directly: use "
            f"serve.run({self._name}.bind(...)) and the handle that it returns, or "
            f"{self._name}.func_or_class(...) for a plain object"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_target" not in self.__dict__:
            raise AttributeError(name)
        from skate.serve._former import of_deployment

        raise AttributeError(of_deployment(self._name, name))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Deployment) and (
            (self._name, self._target, self._options, self._init_args, self._init_kwargs)
            == (other._name, other._target, other._options, other._init_args, other._init_kwargs)
        )

    def __hash__(self) -> int:
        return hash((self._name, self._target))

    def __repr__(self) -> str:
        return f"Deployment(name={self._name!r})"

    def __reduce__(self) -> Any:
        state = (self._name, self._target, self._given, self._init_args, self._init_kwargs)
        return Deployment, state


def deployment(
    _func_or_class: Callable[..., Any] | str | None = None, name: str | None = None, **options: Any
) -> Any:
    """Make a class or function a deployment: `@serve.deployment` or `@serve.deployment(...)`.

    Options: `num_replicas` (a number or "auto"), `max_ongoing_requests` (5, per replica),
    `max_queued_requests` (-1: no limit, per handle), `user_config` (given to the class's
    `reconfigure`), `autoscaling_config`, `health_check_period_s`, `health_check_timeout_s`,
    `graceful_shutdown_wait_loop_s`, `graceful_shutdown_timeout_s`, `ray_actor_options`
    (`num_cpus`, `num_gpus`, `resources`, `runtime_env` … of each replica) and others of Ray's.
    With a `version`, replicas are replaced when that changes, and not when the code does.
    `logging_config` has no effect: logging is the program's. Neither have
    `max_replicas_per_node` and `placement_group_bundle_label_selector`: there is one machine.
    """
    if isinstance(_func_or_class, str):
        _func_or_class, name = None, name or _func_or_class
    checked = _options.check(options)

    def decorate(target: Callable[..., Any]) -> Deployment:
        return Deployment(
            getattr(target, "__name__", "") if name is None else name, target, checked
        )

    if _func_or_class is None:
        _options.resolve(checked)
        return decorate
    return decorate(_func_or_class)
