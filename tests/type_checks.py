"""Type checkers, run on `tests/typing` and on the package: `python -m tests.type_checks`.

`scripts/check` runs them.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

from tests.support import run_program

FOLDER = Path(__file__).parent / "typing"
SOURCE = Path(__file__).parents[1] / "src"
LEAST_KNOWN = 0.98  # of the symbols that the package has, those with a type that pyright knows

Place = tuple[str, int]  # the name of a file, and a line

_ERROR = re.compile(r"(\w+\.py):(\d+)(?::\d+)?(?: -|:) error")


def marked() -> set[Place]:
    """Return the lines that have to be refused."""
    lines = (FOLDER / "refused.py").read_text().splitlines()
    return {
        ("refused.py", number)
        for number, line in enumerate(lines, 1)
        if line.endswith("# refused")
    }


def pyright() -> str:
    """Return what pyright, at its strictest, says about the files in `tests/typing`."""
    return _run("pyright", "--pythonpath", sys.executable, "--project", str(FOLDER))


def mypy() -> str:
    """Return what `mypy --strict` says about the same files."""
    files = map(str, sorted(FOLDER.glob("*.py")))
    return _run("mypy", "--config-file", str(FOLDER / "mypy.ini"), *files)


def differences(output: str) -> list[str]:
    """Return where a checker reported something else than the lines that have to be refused."""
    found = {(name, int(line)) for name, line in _ERROR.findall(output)}
    return [
        *(f"{name}:{line} was not refused" for name, line in sorted(marked() - found)),
        *(f"{name}:{line} was refused" for name, line in sorted(found - marked())),
    ]


def known() -> float:
    """Return the share of the package's symbols whose type pyright knows."""
    options = ("--pythonpath", sys.executable, "--ignoreexternal", "--outputjson")
    # pyright looks for the package where Python would, an editable install aside.
    found = {**os.environ, "PYTHONPATH": str(SOURCE)}
    report = json.loads(_run("pyright", *options, "--verifytypes", "skate", env=found))
    return float(report["typeCompleteness"]["completenessScore"])


def _run(checker: str, *arguments: str, env: dict[str, str] | None = None) -> str:
    command = [sys.executable, "-m", checker, *arguments]
    return run_program(command, cwd=FOLDER, env=env, check=False, timeout=1200).stdout


def main() -> None:
    """Print what is wrong, and exit with 1 if anything is."""
    problems = [f"mypy: {line}" for line in differences(mypy())]
    problems += [f"pyright: {line}" for line in differences(pyright())]
    if (share := known()) < LEAST_KNOWN:
        problems.append(f"pyright knows {share:.1%} of the types, and {LEAST_KNOWN:.0%} is wanted")
    print("\n".join(problems) or f"type checks passed; {share:.1%} of the types are known")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
