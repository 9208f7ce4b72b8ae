"""The command `skate`: `run [--as-ray] program.py …`, `serve …`, `data …`, `tune …`, `doctor`."""

from __future__ import annotations

import sys


def main(arguments: list[str] | None = None) -> None:
    """What the command `skate` and `python -m skate` do. Ends the process."""
    from skate.cli._commands import parse
    from skate.cli._program import Program, run

    outcome = parse(arguments)
    # Run here, outside the parser, so that the program's exceptions are nobody else's.
    sys.exit(run(outcome) if isinstance(outcome, Program) else outcome)
