"""The commands, as click sees them."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from skate._core.optional_imports import try_import
from skate.cli._as_ray import install_as_ray
from skate.cli._dashboard import dashboard_command
from skate.cli._data import data_group
from skate.cli._doctor import doctor_command
from skate.cli._job import job_group
from skate.cli._program import Program
from skate.cli._ray import ray_group
from skate.cli._serve import serve_group
from skate.cli._sessions import session_commands
from skate.cli._stack import stack_command
from skate.cli._tune import tune_group

_HELP = """Run a Python program on skate: a script, or with -m a module.

What follows the program's name is its own. Examples:

\b
    skate run --as-ray train.py --epochs 3
    skate run --as-ray -m pytest tests
    skate run --engine inline -m pdb train.py
"""


def parse(arguments: list[str] | None) -> Program | int | None:
    """Return the program to run, or the exit code where there is none."""
    click = try_import("click", "cli")
    try:
        outcome: Program | int | None = _command(click).main(
            args=arguments, prog_name="skate", standalone_mode=False
        )
    except click.ClickException as error:
        error.show()
        return int(error.exit_code)
    except click.Abort:  # Ctrl-C once more, while a command was ending
        click.echo("Aborted!", err=True)
        return 1
    return outcome


def _command(click: ModuleType) -> Any:
    import skate

    group = click.Group("skate", help="Ray's API as an embedded library.")
    click.version_option(skate.__version__, package_name="skate")(group)
    group.add_command(_run_command(click))
    group.add_command(serve_group(click))
    group.add_command(data_group(click))
    group.add_command(job_group(click))
    group.add_command(ray_group(click))
    group.add_command(tune_group(click))
    group.add_command(doctor_command(click))
    group.add_command(dashboard_command(click))
    for command in (*session_commands(click), stack_command(click)):
        group.add_command(command)
    return group


def _run_command(click: ModuleType) -> Any:
    return click.Command(
        "run",
        help=_HELP,
        callback=_prepare,
        # After the program's name, options are the program's own.
        context_settings={"allow_interspersed_args": False},
        params=[
            click.Option(["--as-ray"], is_flag=True, help="`import ray` means skate."),
            click.Option(
                ["--engine"],
                type=click.Choice(["local", "inline"]),
                help="Where tasks run: in processes, or all in this one.",
            ),
            click.Option(["-m", "is_module"], is_flag=True, help="PROGRAM is a module."),
            click.Argument(["program"]),
            click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED),
        ],
    )


def _prepare(
    as_ray: bool, engine: str | None, is_module: bool, program: str, arguments: tuple[str, ...]
) -> Program:
    if engine is not None:
        os.environ["SKATE_ENGINE"] = engine
    if as_ray:
        install_as_ray()
    else:
        os.environ["SKATE_RUN"] = "1"  # a training loop in it may report without a trainer
    return Program(program, arguments, is_module)
