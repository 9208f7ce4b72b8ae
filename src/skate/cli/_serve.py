"""`skate serve …`: run applications, and ask the instance that runs them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skate._core import notices
from skate._core.optional_imports import try_import
from skate.cli._as_ray import as_ray_option
from skate.cli._reload import Watched, deploy_on_changes
from skate.cli._tables import commands_of, json_option, pair_of

if TYPE_CHECKING:
    from click import Group, Parameter

    from skate.serve._application.specs import ApplicationSpec
    from skate.serve.config import gRPCOptions
    from skate.serve.schema import ServeDeploySchema

Command = tuple[str, str, Callable[..., None], "list[Parameter]"]  # as `commands_of` takes them

_RUN = """Run applications in this process until Ctrl-C.

TARGET is a config file, or the import path of an application or of a function that makes one;
KEY=VALUE are the arguments of such a function. Examples:

\b
    skate serve run translator:app
    skate serve run config.yaml
    skate serve run models:build size=small
    skate serve run --as-ray translator_of_ray:app
"""
_DEPLOY = """Give applications to an instance that runs, and return when they answer.

What config files have named, and this one does not any more, is deleted; applications that a
program runs with serve.run stay.
"""
_ARGUMENT_FORM = "arguments of an application look like KEY=VALUE"
_CONFIG = "Show what the config of each application said."
_BUILD = "Write a config file for the applications at these import paths."


def serve_group(click: ModuleType) -> Group:
    """Make the group of commands."""
    return group_of(click, serve_commands(click))


def group_of(click: ModuleType, rows: Iterable[Command]) -> Group:
    """Make a group of these commands; mistakes of its user are one line."""
    from skate.serve.exceptions import SkateServeError

    # Other errors are those of the applications, whose traceback is wanted.
    mistakes = (ConnectionError, FileNotFoundError, TypeError, ValueError, SkateServeError)
    group: Group = click.Group("serve", help="Serve applications over HTTP.")
    for command in commands_of(click, rows, mistakes):
        group.add_command(command)
    return group


def serve_commands(click: ModuleType, as_ray: bool = False) -> list[Command]:
    """Return what there is; `as_ray`: for applications that say `import ray`."""
    target = click.Argument(["target"])
    arguments = click.Argument(["arguments"], nargs=-1)
    port = click.Option(
        ["--port"], type=int, default=8000, help="Where the instance answers; 8000 unless given."
    )
    place = [
        click.Option(["--host"], help="The address to listen on; by default this machine only."),
        click.Option(["--port"], type=int, help="8000 by default; 0 for any that is free."),
    ]
    application = [
        click.Option(["-d", "--app-dir"], default=".", help="Where the import path begins."),
        click.Option(["--name"], default="default", help="The name of the application."),
        click.Option(["--route-prefix"], default="/", help="Where the application answers."),
        click.Option(["--working-dir"], help="The folder that replicas work in."),
        click.Option(["--runtime-env"], help="A YAML file with the environment of replicas."),
        click.Option(["--runtime-env-json"], help="The same as JSON, in place of a file."),
    ]
    as_ray_flag = as_ray_option(click, always=as_ray)
    what = [as_ray_flag, target, arguments]
    reload = click.Option(
        ["-r", "--reload"],
        is_flag=True,
        help="Deploy again when Python files of --working-dir or --app-dir or the config change.",
    )
    one = click.Option(["-n", "--name"], help="Of this application only.")
    as_json = json_option(click)
    yes = click.Option(["-y", "--yes"], is_flag=True, help="Do not ask, on a terminal.")
    return [
        ("run", _RUN, _run, [*place, *application, reload, *what]),
        ("deploy", _DEPLOY, _deploy, [port, *application, *what]),
        ("status", "Show how the applications are doing.", _status, [port, one, as_json]),
        ("config", _CONFIG, _show_config, [port, one, as_json]),
        ("shutdown", "End an instance.", _shutdown, [port, yes]),
        ("build", _BUILD, _build, [as_ray_flag, *_build_options(click)]),
    ]


def _build_options(click: ModuleType) -> list[Parameter]:
    return [
        click.Option(["-d", "--app-dir"], default=".", help="Where the import paths begin."),
        click.Option(["-o", "--output-path", "output"], help="The file; without it, printed."),
        click.Option(
            ["--grpc-servicer-functions"],
            multiple=True,
            help="The import path of a function that adds a service of gRPC; may be repeated.",
        ),
        click.Option(
            ["--grpc-enable-reflection/--grpc-disable-reflection"],
            help="Whether clients of gRPC can ask which methods there are.",
        ),
        click.Argument(["targets"], nargs=-1, required=True),
    ]


# -- commands -----------------------------------------------------------------------------------


def _run(
    host: str | None,
    port: int | None,
    app_dir: str,
    name: str,
    route_prefix: str,
    target: str,
    arguments: tuple[str, ...],
    reload: bool,
    **environment: str | None,
) -> None:
    import skate
    from skate import serve
    from skate.serve import _client
    from skate.serve._application.config_files import specs_of

    watched = _watched(target, app_dir, **environment) if reload else None
    config = config_of(target, arguments, app_dir, name, route_prefix)
    set_environment(config, **environment)
    given = {"host": host, "port": port}
    chosen = {key: value for key, value in given.items() if value is not None}
    options = config.http_options.options().copy(update=chosen)
    specs = specs_of(config)
    serve.start(http_options=options, grpc_options=config.grpc_options.options())
    controller = _client.connect().controller
    try:
        names = _serve_specs(config, specs)
        print(f"Serving {', '.join(names)} at {serve.http_address()} (Ctrl-C ends it)", flush=True)
        end = controller.until_shut_down.remote()
        if watched is not None:

            def deploy() -> None:
                config = config_of(target, arguments, app_dir, name, route_prefix)
                set_environment(config, **environment)
                _serve_specs(config, specs_of(config, keep_unchanged=False))

            def is_over(seconds: float) -> bool:
                return bool(skate.wait([end], timeout=seconds)[0])

            deploy_on_changes(watched, is_over, deploy)
        with notices.patient():
            skate.get(end)
    except KeyboardInterrupt:
        pass
    finally:
        serve.shutdown()
        skate.shutdown()


def _watched(
    target: str, app_dir: str, working_dir: str | None, runtime_env: str | None, **_: str | None
) -> Watched:
    configs = [target] if is_file(target) else []
    return Watched(working_dir or app_dir, configs + ([runtime_env] if runtime_env else []))


def _serve_specs(config: ServeDeploySchema, specs: list[ApplicationSpec]) -> list[str]:
    """Return the names of the applications, once they run."""
    import skate
    from skate import serve
    from skate.serve import _client

    controller = _client.connect().controller
    skate.get(controller.deploy.remote(specs, [config.target_capacity]))
    names = [spec.name for spec in specs]
    _check_running(skate.get(controller.wait_until_settled.remote(names)), names)
    remember(config, int(serve.http_address().rpartition(":")[2]))
    return names


def _deploy(
    port: int,
    app_dir: str,
    name: str,
    route_prefix: str,
    target: str,
    arguments: tuple[str, ...],
    **environment: str | None,
) -> None:
    from skate.serve._application.config_files import specs_of
    from skate.serve._http.control_socket import ask, pack

    grpc_options = ask(port, "grpc_options")  # nobody's code is imported if nobody answers
    config = config_of(target, arguments, app_dir, name, route_prefix)
    set_environment(config, **environment)
    folder = os.path.abspath(app_dir)
    for app in config.applications:
        app.runtime_env = {"working_dir": folder, **app.runtime_env}
    _check_grpc(config.grpc_options.options(), grpc_options)
    specs = specs_of(config)
    names = [spec.name for spec in specs]
    if is_file(target):
        ask(port, "delete", [name for name in ask(port, "config") if name not in names])
        ask(port, "deploy", pack(specs), [config.target_capacity])
    else:
        ask(port, "deploy", pack(specs))
    _check_running(ask(port, "wait_until_settled", names), names)
    remember(config, port)
    print(f"Deployed {', '.join(names)}")


def _status(port: int, name: str | None, as_json: bool) -> None:
    from skate.serve._http.control_socket import ask

    status = ask(port, "status")
    if name is not None:
        status = _named(status["applications"], name)
    show_facts(status, as_json)


def _show_config(port: int, name: str | None, as_json: bool) -> None:
    from skate.serve._http.control_socket import ask

    found = ask(port, "config")
    several = {"applications": list(found.values())}
    show_facts(several if name is None else _named(found, name), as_json)


def show_facts(facts: object, as_json: bool) -> None:
    """Print what an instance has answered."""
    print(json.dumps(facts, default=str, indent=2) if as_json else yaml_of(facts).rstrip("\n"))


def _shutdown(port: int, yes: bool) -> None:
    from skate.serve._http.control_socket import ask

    if not yes and sys.stdin.isatty():
        question = f"End the instance at port {port}, with all its applications?"
        try_import("click", "cli").confirm(question, abort=True)
    ask(port, "shut_down")


def _build(
    app_dir: str,
    output: str | None,
    targets: tuple[str, ...],
    grpc_servicer_functions: tuple[str, ...],
    grpc_enable_reflection: bool,
) -> None:
    from skate.serve._application.config_files import described
    from skate.serve.config import gRPCOptions

    sys.path.insert(0, os.path.abspath(app_dir))
    config = described(targets)
    if grpc_servicer_functions:
        grpc = gRPCOptions(
            grpc_servicer_functions=list(grpc_servicer_functions),
            enable_reflection=grpc_enable_reflection,
        )
        config["grpc_options"] = grpc.dict(exclude_none=True)
    text = yaml_of(config)
    if output is None:
        print(text, end="")
    else:
        with open(output, "w") as file:
            file.write(text)


# -- parts --------------------------------------------------------------------------------------


def is_file(target: str) -> bool:
    """Return whether this is a config file, and not an import path."""
    return target.endswith((".yaml", ".yml"))


def config_of(
    target: str, arguments: Iterable[str], app_dir: str, name: str, route_prefix: str
) -> ServeDeploySchema:
    """Return the config of a file, or one of a single application."""
    from skate.serve._application.config_files import read
    from skate.serve.schema import ServeDeploySchema

    folder = os.path.abspath(app_dir)
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)
    if is_file(target):
        return read(target)
    app = {
        "name": name,
        "route_prefix": route_prefix,
        "import_path": target,
        "args": dict(pair_of(one, _ARGUMENT_FORM) for one in arguments),
    }
    return ServeDeploySchema.model_validate({"applications": [app]})


def _check_grpc(wanted: gRPCOptions, running: Mapping[str, Any] | None) -> None:
    """Refuse what an instance that runs will not do: gRPC begins with it, or not at all."""
    from skate.serve._start_options import is_same_grpc

    if not wanted.grpc_servicer_functions:
        return
    if running is None or not is_same_grpc(type(wanted)(**running), wanted):
        answers = "answers no gRPC" if running is None else f"was started with {running}"
        raise ValueError(
            f"grpc_options take effect when an instance is started; this one {answers}, got "
            f"{wanted}: end it with `skate serve shutdown`, and start it with `skate serve run`"
        )


def set_environment(
    config: ServeDeploySchema,
    working_dir: str | None,
    runtime_env: str | None,
    runtime_env_json: str | None,
) -> None:
    """Give all applications the environment that the command line says."""
    from skate.serve._application.config_files import read_yaml

    if runtime_env is not None and runtime_env_json is not None:
        raise ValueError("give one of --runtime-env and --runtime-env-json, not both")
    given: object = {}
    if runtime_env is not None:
        given = read_yaml(runtime_env)
    elif runtime_env_json is not None:
        given = json.loads(runtime_env_json)
    if not isinstance(given, dict):
        raise ValueError(f"a runtime environment is a dictionary; got {given!r}")
    if working_dir is not None:
        given["working_dir"] = working_dir
    for app in config.applications if given else ():  # else the config says what it said
        app.runtime_env = {**app.runtime_env, **given}


def _named(found: dict[str, Any], name: str) -> object:
    if name not in found:
        raise ValueError(
            f"there is no application {name!r}; there is {', '.join(found) or 'none'}"
        )
    return found[name]


def remember(config: ServeDeploySchema, port: int) -> None:
    """Have the instance keep what a config said, for `serve config`."""
    from skate.serve._http.control_socket import ask

    apps = {app.name: app.model_dump(exclude_unset=True) for app in config.applications}
    ask(port, "remember", apps)


def _check_running(found: Iterable[tuple[str, str]], names: list[str]) -> None:
    """Raise unless all applications run, by their statuses and messages."""
    for name, (status, message) in zip(names, found, strict=True):
        if status != "RUNNING":
            status = getattr(status, "value", status)
            raise RuntimeError(f"application {name} is {status}: {message}")


def yaml_of(value: object) -> str:
    """Return a config or a status as a file has it."""
    text: str = try_import("yaml", "serve").safe_dump(_plain(value), sort_keys=False)
    return text


def _plain(value: object) -> object:
    """Return enumerations as their values, so that any reader of YAML understands them."""
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return getattr(value, "value", value)
