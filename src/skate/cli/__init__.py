"""The command `skate`: runs programs, serves, and looks into files, experiments and sessions.

_commands   what there is, as click sees it; a file per group of commands
_program    `run`: a program as the interpreter would run it
_tables     what commands print, and how mistakes of the user are told
"""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> None:
    """Do what the command `skate` and `python -m skate` are for, and end the process."""
    from skate.cli._commands import parse
    from skate.cli._program import Program, run

    outcome = parse(arguments)
    # Run here, outside the parser, so that the program's exceptions are nobody else's.
    sys.exit(run(outcome) if isinstance(outcome, Program) else outcome)
