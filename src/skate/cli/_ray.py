"""`skate ray …`: what the command `ray` does, as far as one machine has a meaning for it.

Programs that run with `skate run --as-ray` find it on their PATH as `ray`.
"""

from __future__ import annotations

import tempfile
import time
from types import ModuleType
from typing import Any

from skate.cli import _background
from skate.cli._job import job_group
from skate.cli._ray_state import ray_state_commands, session_above
from skate.cli._serve_on_ray import serve_group_of_ray
from skate.cli._sessions import save_timeline, session_commands, timeline_of
from skate.cli._stack import stack_command
from skate.cli._tables import commands_of
from skate.cli._tune_on_ray import tune_group_of_ray
from skate.compat.ray import RAY_VERSION

_HELP = "What Ray's own command does, for the sessions of this machine."
_ELSEWHERE = (
    "joining a cluster needs Ray itself: on this machine programs start what they need, "
    "and `ray start --head` has nothing to do"
)


def ray_group(click: ModuleType) -> Any:
    """Return the group of commands."""
    start = (
        click.Option(["--head"], is_flag=True, help="The only machine there is."),
        click.Option(["--address"], help="Of a cluster: refused."),
        click.Option(["--block"], is_flag=True, help="Wait, until Ctrl-C."),
        # Ports, numbers and folders of services that do not exist.
        click.Argument(["rest"], nargs=-1, type=click.UNPROCESSED),
    )
    rest = click.Argument(["rest"], nargs=-1, type=click.UNPROCESSED)
    timeline = click.Option(["--address"], help="Without effect: this machine is asked.")
    rows = (
        ("start", "Say that there is nothing to start.", _start, start),
        (
            "stop",
            "End what commands of `serve` have started.",
            _stop,
            (rest,),
        ),
        ("timeline", "Write what ran when to a file.", _timeline, (timeline,)),
    )
    commands = commands_of(click, rows)
    for command in commands[:2]:
        command.context_settings = {"ignore_unknown_options": True}
    kept = [one for one in session_commands(click) if one.name in ("status", "memory")]
    for command in kept:
        for option in command.params:
            if option.name == "session":
                option.default = session_above
        command.params.append(
            click.Option(["--address"], expose_value=False, help="Without effect.")
        )
    commands += [*kept, stack_command(click), job_group(click), serve_group_of_ray(click)]
    commands += [tune_group_of_ray(click), *ray_state_commands(click)]
    group = click.Group("ray", help=_HELP, commands=commands)
    click.version_option(RAY_VERSION, prog_name="ray", package_name="skate")(group)
    return group


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


def _timeline(address: str | None) -> None:
    events = timeline_of(session_above())
    # With a name that nobody can foresee: others may put links into a folder for all.
    prefix = f"ray-timeline-{time.strftime('%Y-%m-%d_%H-%M-%S')}-"
    with tempfile.NamedTemporaryFile("w", prefix=prefix, suffix=".json", delete=False) as opened:
        save_timeline(events, opened)
