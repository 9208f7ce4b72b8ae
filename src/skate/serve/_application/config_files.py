"""From a config file, or an import path, to applications that the controller can run."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate.serve._application.capacity import at_capacity
from skate.serve._application.import_paths import import_attribute
from skate.serve._application.options import DeploymentOptions, GivenOptions
from skate.serve._application.specs import ApplicationSpec, DeploymentSpec, build
from skate.serve._deployment import Application
from skate.serve._start_options import refuse_external_scaler

if TYPE_CHECKING:
    from skate.serve.schema import ServeApplicationSchema, ServeDeploySchema

Config = dict[str, Any]  # as a file has it

_SHOWN = (
    "max_ongoing_requests", "max_queued_requests", "user_config", "health_check_period_s",
    "health_check_timeout_s", "graceful_shutdown_wait_loop_s", "graceful_shutdown_timeout_s",
)  # fmt: skip


def read_yaml(path: str) -> Any:
    """Return what is in a YAML file.

    Raises:
        ValueError: If it is none; says where.
    """
    yaml = try_import("yaml", "serve")
    try:
        return yaml.safe_load(Path(path).read_text())
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        where = path if mark is None else f"{path}, line {mark.line + 1}"
        raise ValueError(f"{where}: {problem or error}; it is to be YAML") from None


def read(path: str) -> ServeDeploySchema:
    """Return the config in a YAML file."""
    from skate.serve.schema import ServeDeploySchema

    content = read_yaml(path)
    if not isinstance(content, dict) or "applications" not in content:
        raise ValueError(
            f"{path} has no list `applications`, each with an import_path; `skate serve build "
            "module:app` writes such a file"
        )
    return ServeDeploySchema.model_validate(content)


def specs_of(config: ServeDeploySchema, *, keep_unchanged: bool = True) -> list[ApplicationSpec]:
    """Return the applications of a config, imported, with its overrides and at its capacity.

    Args:
        config: The config.
        keep_unchanged: Whether replicas of the same code and arguments are to stay.
    """
    return [spec_of(app, config, keep_unchanged) for app in config.applications]


def specs_and_failures(
    config: ServeDeploySchema,
) -> tuple[list[ApplicationSpec], dict[str, str]]:
    """Return the applications of a config, and why others could not be made, by name."""
    specs, failures = [], {}
    for app in config.applications:
        try:
            specs.append(spec_of(app, config))
        except Exception:
            failures[app.name] = f"Deploying app {app.name!r} failed:\n{traceback.format_exc()}"
    return specs, failures


def spec_of(
    app: ServeApplicationSchema, config: ServeDeploySchema, keep_unchanged: bool = True
) -> ApplicationSpec:
    """Return one of them."""
    spec = _spec(app, keep_unchanged).with_logging(app.logging_config or config.logging_config)
    return at_capacity(spec, config.target_capacity)


def _spec(schema: ServeApplicationSchema, keep_unchanged: bool) -> ApplicationSpec:
    refuse_external_scaler(schema.external_scaler_enabled)
    app = application(schema.import_path, schema.args)
    overrides = {each.name: each.options() for each in schema.deployments}
    spec = build(
        app,
        schema.name,
        schema.route_prefix,
        overrides,
        schema.runtime_env,
        keep_unchanged=keep_unchanged,
    )
    return spec._replace(autoscaling_policy=schema.autoscaling_policy)


def application(import_path: str, arguments: GivenOptions) -> Application:
    """Return the application at an import path, or what a builder there makes of the arguments."""
    return built(import_attribute(import_path), arguments, import_path)


def built(found: object, arguments: GivenOptions, name: str = "this") -> Application:
    """Return an application, or what a builder makes of the arguments; errors call it `name`."""
    if isinstance(found, Application):
        if arguments:
            raise ValueError(
                "Arguments can only be passed to an application builder function; "
                f"{name} is an application, and takes none; got {dict(arguments)}"
            )
        return found
    if not inspect.isfunction(found):
        raise TypeError(
            "Expected a built Serve application or an application builder function; "
            f"{name} is neither deployment.bind(...) nor a function that returns it: {found!r}"
        )
    made = found(_argument(found, name, arguments))
    if not isinstance(made, Application):
        raise TypeError(
            "Application builder functions must return an application, deployment.bind(...); "
            f"{name} returned {made!r}"
        )
    return made


def _argument(builder: Any, name: str, arguments: GivenOptions) -> Any:
    """Return a dictionary, or the pydantic model that the builder is annotated with."""
    parameters = list(inspect.signature(builder).parameters.values())
    if len(parameters) != 1:
        raise TypeError(
            "Application builder functions should take exactly one parameter, the arguments as a "
            f"dictionary or a pydantic model; {name} takes {len(parameters)}"
        )
    try:
        wanted = inspect.get_annotations(builder, eval_str=True).get(parameters[0].name)
    except NameError:  # of something that exists for type checkers only
        wanted = None
    # The second is that of pydantic 1, which is a part of pydantic.
    validate = getattr(wanted, "model_validate", None) or getattr(wanted, "parse_obj", None)
    return dict(arguments) if validate is None else validate(dict(arguments))


def described(import_paths: Iterable[str]) -> Config:
    """Return a config for the applications at these paths, with what their deployments say."""
    paths = list(import_paths)
    apps: list[dict[str, Any]] = []
    for number, path in enumerate(paths, start=1):
        alone = len(paths) == 1
        spec = build(application(path, {}), f"app{number}", "/" if alone else f"/app{number}")
        deployments = [_described(each) for each in spec.deployments]
        apps.append(
            {
                "name": spec.name,
                "route_prefix": spec.route_prefix,
                "import_path": path,
                "runtime_env": {},
                "deployments": deployments,
            }
        )
    http = {"host": "127.0.0.1", "port": 8000}
    return {"proxy_location": "EveryNode", "http_options": http, "applications": apps}


def _described(spec: DeploymentSpec) -> Config:
    """Return the options of a deployment that its author chose."""
    deployment: dict[str, Any] = {"name": spec.id.name}
    defaults = DeploymentOptions()
    options = spec.options
    if options.autoscaling is not None:
        deployment["autoscaling_config"] = _plain(options.autoscaling.dict())
    else:
        deployment["num_replicas"] = options.num_replicas
    for name in _SHOWN:
        if getattr(options, name) != getattr(defaults, name):
            deployment[name] = getattr(options, name)
    if options.actor_options:
        deployment["ray_actor_options"] = dict(options.actor_options)
    return deployment


def _plain(fields: GivenOptions) -> Config:
    kinds = (int, float, str, bool)
    return {name: value for name, value in fields.items() if isinstance(value, kinds)}
