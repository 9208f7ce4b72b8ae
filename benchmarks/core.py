"""skate's core side by side with its peers and with the bare parts underneath.

Every number comes from a process of its own, one after the other, in one run on one machine; so
it is the ratios that count. Writes results/core.json and results/growth.png beside this file.

    scripts/bench                    everything
    scripts/bench --quick            the same with less repetition and smaller sizes
    scripts/bench --only task        the rows whose name contains "task"
    scripts/bench --only growth      how cost grows
    scripts/bench --no-ray           without Ray, which takes most of the time
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if not __package__:  # run as a file rather than as a module
    sys.path.insert(0, str(ROOT))

from benchmarks import growth  # noqa: E402
from benchmarks.processes import MARKER  # noqa: E402
from benchmarks.rows import ROWS, Row, Values  # noqa: E402

TIMEOUT = 600
COLUMNS = ("skate", "ray", "ppe", "loky", "dask", "socket", "memcpy")


def main() -> None:
    options = parse()
    rows = [row for row in ROWS if options.only in row.name]
    measured = {row.name: measure_row(row, options) for row in rows}
    curves = measure_curves(options)
    lines = table(rows, measured) if rows else []
    print("\n".join([*lines, *growth.table(curves)]))
    options.output.mkdir(parents=True, exist_ok=True)
    write_json(options.output / "core.json", rows, measured, curves)
    if curves:
        growth.plot(curves, options.output / "growth.png")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose name contains it")
    parser.add_argument("--systems", default=",".join(COLUMNS), help="columns to measure")
    parser.add_argument("--no-ray", action="store_true", help="leave Ray out")
    parser.add_argument("--quick", action="store_true", help="less repetition, smaller sizes")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results")
    return parser.parse_args()


# -- measuring -----------------------------------------------------------------------------------


def measure_row(row: Row, options: argparse.Namespace) -> dict[str, float]:
    wanted = set(options.systems.split(",")) - ({"ray"} if options.no_ray else set())
    budget = 0.5 if options.quick else 3.0
    values = {}
    for system in ("skate", *row.peers):
        number = measure_alone(system, row.name, budget) if system in wanted else None
        if number is not None:
            values[system] = number
    return values


def measure_curves(options: argparse.Namespace) -> dict[str, growth.Points]:
    share = 0.6 if options.quick else 1.0
    names = [name for name in growth.CURVES if options.only in name]
    if "skate" not in options.systems.split(","):
        return {}
    curves = {name: measure_alone("skate", name, share) for name in names}
    return {name: points for name, points in curves.items() if points}


def measure_alone(system: str, row: str, budget: float) -> Any:
    """The number from a fresh process, or None (with the reason printed) when that fails."""
    command = [sys.executable, "-m", "benchmarks.one", system, row, str(budget)]
    environment = os.environ | {
        MARKER: uuid.uuid4().hex,
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    print(f"  {row}: {system}", file=sys.stderr, flush=True)
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, timeout=TIMEOUT, capture_output=True, text=True
        )
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        print(f"    no result within {TIMEOUT} s", file=sys.stderr)
    except (IndexError, ValueError):
        reason = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        print(f"    failed: {reason[-1]}", file=sys.stderr)
    return None


# -- reporting -----------------------------------------------------------------------------------


def table(rows: list[Row], measured: dict[str, dict[str, float]]) -> list[str]:
    used = [name for name in COLUMNS if any(name in measured[row.name] for row in rows)]
    titles = ["what", "unit", *used, "vs Ray", "goal", "reached"]
    cells = [titles, *(cells_of(row, measured[row.name], used) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(titles))]
    lines = [
        "  ".join(text.ljust(w) for text, w in zip(line, widths, strict=True)) for line in cells
    ]
    return [lines[0], "  ".join("-" * width for width in widths), *lines[1:]]


def cells_of(row: Row, values: Values, used: list[str]) -> list[str]:
    numbers = [short(values[name]) if name in values else "" for name in used]
    advantage = row.advantage(values)
    return [
        row.title,
        row.unit,
        *numbers,
        "" if advantage is None else f"{advantage:.1f} x",
        "; ".join(goal.text for goal in row.goals),
        "; ".join(verdicts(row, values)),
    ]


def verdicts(row: Row, values: Values) -> list[str]:
    """yes, no or ? (not measured) for each goal."""
    known = [{"skate", *goal.needs} <= values.keys() for goal in row.goals]
    return [
        ("yes" if goal.holds(values) else "no") if have else "?"
        for goal, have in zip(row.goals, known, strict=True)
    ]


def short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def write_json(
    path: Path,
    rows: list[Row],
    measured: dict[str, dict[str, float]],
    curves: dict[str, growth.Points],
) -> None:
    report = {
        "machine": {
            "cpus": len(os.sched_getaffinity(0)),
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "rows": {
            row.name: {
                "title": row.title,
                "unit": row.unit,
                "values": measured[row.name],
                "times_ray": row.advantage(measured[row.name]),
                "goals": [goal.text for goal in row.goals],
                "reached": verdicts(row, measured[row.name]),
            }
            for row in rows
        },
        "growth": {
            name: {"points": points, "exponent": growth.exponent(points)}
            for name, points in curves.items()
        },
    }
    path.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
