"""`skate ray …`: what the command `ray` does, as far as one machine has a meaning for it.

Programs that run with `skate run --as-ray` find it on their PATH as `ray`.
"""

from __future__ import annotations

import tempfile
import time
from types import ModuleType
from typing import Any

from skate.cli._job import job_group
from skate.cli._ray_cluster import cluster_commands
from skate.cli._ray_state import ray_state_commands, session_above
from skate.cli._serve_on_ray import serve_group_of_ray
from skate.cli._sessions import save_timeline, session_commands, timeline_of
from skate.cli._stack import stack_command
from skate.cli._tables import commands_of
from skate.cli._tune_on_ray import tune_group_of_ray
from skate.compat.ray import RAY_VERSION

_HELP = "What Ray's own command does, for the sessions of this machine."


def ray_group(click: ModuleType) -> Any:
    """Return the group of commands."""
    timeline = click.Option(["--address"], help="Without effect: this machine is asked.")
    rows = (("timeline", "Write what ran when to a file.", _timeline, (timeline,)),)
    sessions = [one for one in session_commands(click) if one.name in ("status", "memory")]
    for command in sessions:
        for option in command.params:
            if option.name == "session":
                option.default = session_above
            elif option.name == "limit":
                option.opts += ["--num-entries", "--n"]
        command.params += _options_of_ray(click, command.name)
    jobs = job_group(click)
    for command in jobs.commands.values():
        command.params += _options_of_ray(click, "job")
    commands = [*cluster_commands(click), *commands_of(click, rows), *sessions, jobs]
    commands += [stack_command(click), serve_group_of_ray(click), tune_group_of_ray(click)]
    commands += ray_state_commands(click)
    group = click.Group("ray", help=_HELP, commands=commands)
    click.version_option(RAY_VERSION, prog_name="ray", package_name="skate")(group)
    return group


def _options_of_ray(click: ModuleType, command: str) -> list[Any]:
    """Return those options of a command that change nothing here: what it prints has one form."""
    address, verbose = ["--address"], ["-v", "--verbose"]
    names, flags = {
        "status": ([address], [verbose]),
        "memory": (
            [address, ["--group-by"], ["--sort-by"], ["--units"]],
            [["--no-format"], ["--stats-only"]],
        ),
        "job": ([["--log-style"], ["--log-color"]], [verbose]),
    }[command]
    return [
        click.Option(name, is_flag=is_flag, expose_value=False, help="Without effect.")
        for is_flag, some in ((False, names), (True, flags))
        for name in some
    ]


def _timeline(address: str | None) -> None:
    events = timeline_of(session_above())
    # With a name that nobody can foresee: others may put links into a folder for all.
    prefix = f"ray-timeline-{time.strftime('%Y-%m-%d_%H-%M-%S')}-"
    with tempfile.NamedTemporaryFile("w", prefix=prefix, suffix=".json", delete=False) as opened:
        save_timeline(events, opened)
