"""Rows whose numbers come from a process each: `python -m benchmarks.X --one SYSTEM ROW`."""

from __future__ import annotations

import compileall
import functools
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.rows import Goal, Row

LONGEST_SECONDS = 1800  # that one number may take
ROOT = Path(__file__).resolve().parents[1]


@functools.cache
def compile_modules() -> None:
    """Compile skate's modules, as those of an installed package are. Where an environment forbids
    that (`PYTHONDONTWRITEBYTECODE`), compiling takes most of the time in which a process starts,
    and would be measured."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compileall.compile_dir(ROOT / "src", quiet=2)


def report(module: str, row: Row, no_ray: bool) -> None:
    """Measure the row in all systems and print it with its goals."""
    compile_modules()
    systems = [s for s in ("skate", *row.peers) if not (no_ray and s == "ray")]
    found = {system: alone(module, system, row.name) for system in systems}
    known = {system: number for system, number in found.items() if number is not None}
    numbers = "  ".join(f"{system} {number:,.4g}" for system, number in known.items())
    print(f"{row.title} ({row.unit}): {numbers}  {'; '.join(say(g, known) for g in row.goals)}")


def say(goal: Goal, known: dict[str, float]) -> str:
    if not {"skate", *goal.needs} <= known.keys():
        return f"{goal.text}: ?"
    return f"{goal.text}: {'yes' if goal.holds(known) else 'no'}"


def alone(module: str, system: str, name: str) -> float | None:
    """One number, from a process of its own."""
    command = [sys.executable, "-m", f"benchmarks.{module}", "--one", system, name]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ,
            capture_output=True,
            text=True,
            timeout=LONGEST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        print(f"  {name}, {system}: no answer in {LONGEST_SECONDS} s", file=sys.stderr)
        return None
    if done.returncode:
        print(f"  {name}, {system}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    return float(json.loads(done.stdout.splitlines()[-1]))
