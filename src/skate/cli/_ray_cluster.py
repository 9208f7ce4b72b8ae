"""`skate ray start|stop|health-check|symmetric-run …`: the life of a cluster that is not there.

Scripts call them around a program; on one machine they have little to do, and succeed.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from types import ModuleType
from typing import Any

from skate.cli import _background
from skate.cli._as_ray import install_as_ray
from skate.cli._tables import commands_of, told

_ELSEWHERE = (
    "joining a cluster needs Ray itself: on this machine programs start what they need, "
    "and `ray start --head` has nothing to do"
)
_DESCRIBES_THE_MACHINE = "RAY_OVERRIDE_RESOURCES"  # to every `init`, whatever it is given
_NO_STATISTICS = "There is nothing to choose: skate gathers no statistics of its use."


def cluster_commands(click: ModuleType) -> list[Any]:
    """Return the commands."""
    head = click.Option(["--head"], is_flag=True, help="The only machine there is.")
    address = click.Option(["--address"], help="Of a cluster: refused.")
    block = click.Option(["--block"], is_flag=True, help="Wait, until Ctrl-C.")
    # Ports, numbers and folders of services that do not exist.
    rest = click.Argument(["rest"], nargs=-1, type=click.UNPROCESSED)
    rows = (
        ("start", "Say that there is nothing to start.", _start, (head, address, block, rest)),
        ("stop", "End what commands of `serve` have started.", _stop, (rest,)),
        ("health-check", "Say that nothing can be ill.", _check_health, _health_options(click)),
        ("disable-usage-stats", _NO_STATISTICS, _choose_nothing, ()),
        ("enable-usage-stats", _NO_STATISTICS, _choose_nothing, ()),
    )
    commands = [*commands_of(click, rows), _symmetric_command(click)]
    for command in commands:
        if command.name in ("start", "stop", "symmetric-run"):
            command.context_settings = {"ignore_unknown_options": True}
    return commands


def _health_options(click: ModuleType) -> tuple[Any, ...]:
    return (
        click.Option(["--address"], help="Without effect: this machine is asked."),
        click.Option(["--component"], help="A service of Ray's: none of them is here."),
        click.Option(["--skip-version-check"], is_flag=True, help="Without effect."),
    )


def _symmetric_command(click: ModuleType) -> Any:
    class SymmetricRun(click.Command):  # type: ignore[name-defined, misc]
        """A command that sees where its options end and those of the command to be run begin."""

        def parse_args(self, context: Any, arguments: list[str]) -> Any:
            end = arguments.index("--") if "--" in arguments else len(arguments)
            return super().parse_args(context, [*arguments[:end], "--", *arguments[end:]])

    return SymmetricRun(
        "symmetric-run",
        help="Run a command for which `import ray` means skate, on the machine that is described: "
        "ray symmetric-run --address 127.0.0.1:6379 --num-cpus 4 -- python train.py",
        callback=told(click, _run_symmetrically),
        params=_symmetric_parameters(click),
    )


def _symmetric_parameters(click: ModuleType) -> list[Any]:
    return [
        click.Option(["--address"], required=True, help="HOST:PORT, which is this machine."),
        click.Option(["--min-nodes"], type=int, default=1, help="At most 1: there is one."),
        click.Option(["--num-cpus"], type=int, help="How many CPUs there are for the command."),
        click.Option(["--num-gpus"], type=int, help="How many GPUs there are for it."),
        click.Option(["--memory"], type=int, help="How many bytes its tasks may reserve."),
        click.Option(["--object-store-memory"], type=int, help="How many its objects may take."),
        click.Option(["--resources"], default="{}", help="What else there is, as JSON."),
        click.Argument(["command"], nargs=-1, type=click.UNPROCESSED),
    ]


def _start(head: bool, address: str | None, block: bool, rest: tuple[str, ...]) -> None:
    if address is not None and not head:
        raise ValueError(f"--address {address}: {_ELSEWHERE}")
    print("Nothing to start: each program starts what it needs on this machine.")
    print('Programs that say ray.init(address="auto") run here.')
    print("For programs that read the address off what is printed: --address='auto'")
    while block:
        time.sleep(3600)


def _stop(rest: tuple[str, ...]) -> None:
    if ended := _background.stop_instances():
        print(f"Ended what `serve` had started: {ended}.")
    else:
        print("Nothing to stop: what a program has started ends with it.")


def _check_health(address: str | None, component: str | None, skip_version_check: bool) -> None:
    if component is not None:
        raise ValueError(f"--component {component}: there is no such service on this machine")
    print("Healthy: each program starts what it needs on this machine.")


def _choose_nothing() -> None:
    print(_NO_STATISTICS)


def _run_symmetrically(
    address: str, min_nodes: int, resources: str, command: tuple[str, ...], **amounts: int | None
) -> None:
    """Run a command as a program that says `import ray`, with the machine that was described."""
    entrypoint = command[command.index("--") + 1 :] if "--" in command else ()
    if not entrypoint:
        raise ValueError("the command to be run comes behind `--`, as in -- python train.py")
    if min_nodes > 1 or not _is_here(address.rpartition(":")[0]):
        raise ValueError(f"--address {address} --min-nodes {min_nodes}: {_ELSEWHERE}")
    install_as_ray()
    names = {"num_cpus": "CPU", "num_gpus": "GPU"}
    given = {names.get(key, key): amount for key, amount in amounts.items() if amount is not None}
    if said := {**json.loads(resources), **given}:
        os.environ[_DESCRIBES_THE_MACHINE] = json.dumps(said)
    sys.exit(subprocess.run(entrypoint).returncode)


def _is_here(host: str) -> bool:
    """Return whether a socket could listen at this address, as only this machine's can."""
    found = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)
    family, kind, protocol, _, place = found[0]
    with socket.socket(family, kind, protocol) as tried:
        try:
            tried.bind(place)
        except OSError:
            return False
    return True
