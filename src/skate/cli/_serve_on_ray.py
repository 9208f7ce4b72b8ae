"""`serve …` of programs that run by --as-ray: the same commands, for who expects what Ray's do.

There, a cluster serves nothing or something, whatever a command says: what cannot be imported, or
does not start, is told by `status`, and `deploy` needs no instance.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skate.cli import _background
from skate.cli._serve import (
    Command,
    config_of,
    group_of,
    is_file,
    remember,
    serve_commands,
    set_environment,
    show_facts,
    yaml_of,
)

if TYPE_CHECKING:
    from click import Group, Parameter

    from skate.serve.schema import ServeDeploySchema

_THIS_MACHINE = ("", "auto", "local", "localhost", "127.0.0.1", "0.0.0.0")
_NOTHING_SERVED: dict[str, Any] = {"proxies": {}, "applications": {}, "target_capacity": None}
_START = "Start serving, without an application yet, until `serve shutdown` or the program's end."


def serve_group_of_ray(click: ModuleType) -> Group:
    """Make the group of commands."""
    group = group_of(click, [*_commands(click), ("start", _START, _start, _start_options(click))])
    for command in group.commands.values():
        if command.name != "build":
            command.params.append(_address_option(click))
        if command.name == "run":
            command.params.append(_blocking_option(click))
    return group


def _commands(click: ModuleType) -> list[Command]:
    instead: dict[str, Callable[[Callable[..., None]], Callable[..., None]]] = {
        "run": _shows_failure,
        "deploy": lambda command: _deploy,
        "status": _is_content_with_nothing,
        "config": lambda command: _show_config,
        "shutdown": _is_content_with_nothing,
    }
    return [
        (name, text, instead.get(name, _as_it_is)(command), parameters)
        for name, text, command, parameters in serve_commands(click, as_ray=True)
    ]


def _as_it_is(command: Callable[..., None]) -> Callable[..., None]:
    return command


def _shows_failure(command: Callable[..., None]) -> Callable[..., None]:
    """Return `run` for applications that may not start: it shows why, and succeeds."""

    def run(**options: Any) -> None:
        try:
            command(**options)
        except RuntimeError:
            traceback.print_exc()

    return run


def _is_content_with_nothing(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that finds the program's instance, and does without any."""

    def run(port: int, **options: Any) -> None:
        try:
            command(port=_background.port_of_instance(port), **options)
        except ConnectionError as error:
            print(error, file=sys.stderr)
            if "as_json" in options and options["name"] is None:
                show_facts(_NOTHING_SERVED, options["as_json"])

    return run


# -- options ------------------------------------------------------------------------------------


def _address_option(click: ModuleType) -> Parameter:
    """Make the option of Ray's commands that says where the cluster is: here."""

    def check(context: object, parameter: object, address: str | None) -> None:
        host = (address or "").rpartition("//")[2].partition(":")[0]
        if host not in _THIS_MACHINE:
            raise click.BadParameter(f"{address!r} is another machine; skate serves on this one")

    help = "This machine, as Ray's commands call it; --port says where an instance answers."
    option: Parameter = click.Option(
        ["-a", "--address"], callback=check, expose_value=False, help=help
    )
    return option


def _blocking_option(click: ModuleType) -> Parameter:
    def check(context: object, parameter: object, is_blocking: bool) -> None:
        if not is_blocking:
            raise click.BadParameter(
                "--non-blocking: applications end with the command that runs them; leave it out, "
                "and let the shell put the command into the background"
            )

    option: Parameter = click.Option(
        ["--blocking/--non-blocking"],
        default=True,
        callback=check,
        expose_value=False,
        help="Blocking, as skate always is.",
    )
    return option


def _start_options(click: ModuleType) -> list[Parameter]:
    everywhere = "Without effect, except that Disabled means: without HTTP."
    return [
        click.Option(["--http-host"], default="127.0.0.1", help="The address to listen on."),
        click.Option(["--http-port"], type=int, default=8000, help="8000 unless given."),
        click.Option(["--proxy-location"], default="EveryNode", help=everywhere),
        click.Option(["--grpc-port"], type=int, default=9000, help="9000 unless given."),
        click.Option(
            ["--grpc-servicer-functions"],
            multiple=True,
            help="The import path of a function that adds a service of gRPC; may be repeated.",
        ),
        click.Option(
            ["--grpc-enable-reflection/--grpc-disable-reflection"],
            default=False,
            help="Whether clients of gRPC can ask which methods there are.",
        ),
    ]


# -- commands -----------------------------------------------------------------------------------


def _start(
    http_host: str,
    http_port: int,
    proxy_location: str,
    grpc_port: int,
    grpc_servicer_functions: tuple[str, ...],
    grpc_enable_reflection: bool,
) -> None:
    _check_program_above(http_port)
    if http_port in _background.own_ports():
        return
    http = {"host": http_host, "port": http_port}
    if proxy_location == "Disabled":
        http["location"] = "NoServer"
    grpc = {
        "port": grpc_port,
        "grpc_servicer_functions": list(grpc_servicer_functions),
        "enable_reflection": grpc_enable_reflection,
    }
    _background.start_instance(http, grpc)


def _deploy(
    port: int,
    app_dir: str,
    name: str,
    route_prefix: str,
    target: str,
    arguments: tuple[str, ...],
    **environment: str | None,
) -> None:
    """Have an instance, started here if there is none, run what a config says, and do not wait."""
    from skate.serve._application.config_files import specs_and_failures
    from skate.serve._http.control_socket import ask, known_ports, pack

    port = _background.port_of_instance(port)
    if port not in known_ports():
        _check_program_above(port)
    config = config_of(target, arguments, app_dir, name, route_prefix)
    set_environment(config, **environment)
    said = config.model_copy(deep=True)
    for app in config.applications:
        app.runtime_env = {"working_dir": os.path.abspath(app_dir), **app.runtime_env}
    specs, failures = specs_and_failures(config)
    if port not in known_ports():
        port = _start_for(config)
    if is_file(target):
        wanted = [app.name for app in config.applications]
        ask(port, "delete", [name for name in ask(port, "config") if name not in wanted])
    ask(port, "deploy", pack(specs), [config.target_capacity])
    ask(port, "fail", failures)
    remember(said, port)
    print("Sent deploy request successfully. `serve status` shows what comes of it.")


def _start_for(config: ServeDeploySchema) -> int:
    """Start an instance as a config wants it, and return its port."""
    http = config.http_options.model_dump(exclude_unset=True)
    grpc = config.grpc_options.model_dump(exclude_unset=True)
    _background.start_instance(http, grpc)
    return config.http_options.options().port


def _check_program_above(port: int) -> None:
    """Let nothing go on for ever: what is started needs a program whose end it shares."""
    from skate.serve._http.control_socket import nobody_answers

    if _background.program_above() is None:
        raise nobody_answers(port)


def _show_config(port: int, name: str | None, as_json: bool) -> None:
    from skate.serve._http.control_socket import ask

    try:
        found = ask(_background.port_of_instance(port), "config")
    except ConnectionError as error:
        print(error, file=sys.stderr)
        found = {}
    if name is not None and name not in found:
        print(f"No config has been deployed for application {name!r}.")
    elif not found:
        print("No configuration was found.")
    elif as_json:
        show_facts({"applications": list(found.values())} if name is None else found[name], True)
    else:
        shown = [found[name]] if name is not None else found.values()
        print("\n---\n\n".join(map(yaml_of, shown)), end="")
