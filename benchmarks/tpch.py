"""The 22 queries of TPC-H: skate, with its answers compared to DuckDB's, beside its peers.

    python -m benchmarks.tpch                          scale factor 0.1
    python -m benchmarks.tpch --scale 1                about a gigabyte
    python -m benchmarks.tpch --only 1,21 --no-peers   some queries, skate alone
    python -m benchmarks.tpch --growth growth.svg      all at scale factors 0.1, 1 and 10, drawn

The tables come from `tpchgen-cli` (PyPI), as Parquet files, and are kept in `--folder`. DuckDB
checks the answers and is timed; so are Polars' streaming engine and Daft, where they are installed
and as far as they understand the SQL and answer it rightly. A query is timed after runs that check
its answer and warm up, from its files to a table in memory.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import skate
from benchmarks.data_growth import Curves, draw
from benchmarks.timing import fastest
from benchmarks.tpch_queries import QUERIES
from benchmarks.tpch_sql import SQL
from skate import data

TABLES = "customer lineitem nation orders part partsupp region supplier".split()
SCALES = (0.1, 1, 10)
Answer = Callable[[int], pa.Table]


def made_tables(folder: Path, scale: float) -> Path:
    """Return the folder of the tables at that scale, which are made if they are not there."""
    place = folder / f"sf{scale:g}"
    if not all((place / f"{name}.parquet").exists() for name in TABLES):
        generator = Path(sysconfig.get_path("scripts")) / "tpchgen-cli"
        command = [generator, "parquet", "-s", f"{scale:g}", "-q", "--output-dir", place]
        subprocess.run(list(map(str, command)), check=True)
    return place


# -- systems ------------------------------------------------------------------------------------


def of_skate(place: Path) -> Answer:
    def table(name: str) -> data.Dataset:
        return data.read_parquet(str(place / f"{name}.parquet"))

    def answer(number: int) -> pa.Table:
        blocks = [block for block in QUERIES[number](table)._blocks() if block.num_columns]
        return pa.concat_tables(blocks)

    return answer


def of_duckdb(place: Path) -> Answer:
    import duckdb

    connection = duckdb.connect()
    for name in TABLES:
        connection.sql(f"create view {name} as from '{place / name}.parquet'")
    return lambda number: connection.sql(SQL[number]).to_arrow_table()


def of_polars(place: Path) -> Answer:
    import polars

    frames = {name: polars.scan_parquet(place / f"{name}.parquet") for name in TABLES}
    context = polars.SQLContext(frames)
    return lambda number: context.execute(SQL[number]).collect(engine="streaming").to_arrow()


def of_daft(place: Path) -> Answer:
    import daft

    def answer(number: int) -> pa.Table:
        frames: Any = {name: daft.read_parquet(str(place / f"{name}.parquet")) for name in TABLES}
        return daft.sql(SQL[number], **frames).to_arrow()

    return answer


PEERS: dict[str, Callable[[Path], Answer]] = {
    "duckdb": of_duckdb,
    "polars": of_polars,
    "daft": of_daft,
}


# -- answers ------------------------------------------------------------------------------------


def difference(found: pa.Table, expected: pa.Table) -> str:
    """Return where two answers differ, "" if they do not. Columns go by their places, and numbers
    that were added up in another order may differ in their last digits."""
    shapes = [(table.num_rows, table.num_columns) for table in (found, expected)]
    if shapes[0] != shapes[1]:
        return f"{shapes[0]} rows and columns instead of {shapes[1]}"
    for place, (one, other) in enumerate(zip(found.columns, expected.columns, strict=True)):
        for row, (a, b) in enumerate(zip(one.to_pylist(), other.to_pylist(), strict=True)):
            if not _alike(a, b):
                return f"row {row}, column {found.column_names[place]}: {a!r} instead of {b!r}"
    return ""


def _alike(a: Any, b: Any) -> bool:
    numbers = (int, float, Decimal)
    if isinstance(a, numbers) and isinstance(b, numbers):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6)
    return bool(a == b)


# -- the table ----------------------------------------------------------------------------------


def measured(
    number: int, systems: dict[str, Answer], truth: pa.Table, seconds: float
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the seconds that each system needs, and what is wrong with the answers of others."""
    times, problems = {}, {}
    for name, answer in systems.items():
        try:
            problem = difference(answer(number), truth)
        except Exception as error:
            problem = str(error)
        if problem:
            problems[name] = problem.partition("\n")[0][:120]
        else:
            times[name] = fastest(lambda answer=answer: answer(number), seconds, least=1)  # type: ignore[misc]
    return times, problems


def installed(names: list[str], place: Path) -> dict[str, Answer]:
    found = {}
    for name in names:
        try:
            found[name] = PEERS[name](place)
        except ImportError:
            print(f"{name} is not installed")
    return found


def report_growth(folder: Path, figure: Path) -> None:
    """Draw the seconds of all queries that every system answers alike, by scale factor."""
    curves: Curves = {}
    for scale in SCALES:
        systems = {"skate": of_skate(made_tables(folder, scale))}
        systems |= installed(["duckdb", "polars"], folder / f"sf{scale:g}")
        sums = dict.fromkeys(systems, 0.0)
        for number in QUERIES:
            times, problems = measured(number, systems, systems["duckdb"](number), 0.0)
            if problems:
                print(f"Q{number} is left out at {scale:g}: {problems}")
                continue
            sums = {name: total + times[name] for name, total in sums.items()}
        for name, seconds in sums.items():
            print(f"{name} at scale factor {scale:g}: {seconds:.2f} s", flush=True)
            curves.setdefault(name, []).append((scale, seconds))
    draw({"The queries of TPC-H": ("scale factor", curves)}, figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--growth", type=Path, metavar="FIGURE", help="draw growth with scale")
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "tpch")
    parser.add_argument("--only", help="numbers of queries, with commas between them")
    parser.add_argument("--no-peers", action="store_true", help="check the answers, time skate")
    parser.add_argument("--seconds", type=float, default=0.0, help="for repeats of each query")
    chosen = parser.parse_args()
    if chosen.growth:
        report_growth(chosen.folder, chosen.growth)
        return 0
    place = made_tables(chosen.folder, chosen.scale)
    numbers = [int(text) for text in chosen.only.split(",")] if chosen.only else list(QUERIES)
    skate.init()
    peers = installed(list(PEERS), place)
    truth = peers["duckdb"]
    systems = {"skate": of_skate(place), **({} if chosen.no_peers else peers)}
    print(f"{'':4}" + "".join(f"{name:>10}" for name in systems) + "   seconds")
    totals: dict[str, dict[int, float]] = {name: {} for name in systems}
    wrong = 0
    for number in numbers:
        times, problems = measured(number, systems, truth(number), chosen.seconds)
        wrong += "skate" in problems
        for name, value in times.items():
            totals[name][number] = value
        cells = [f"{times[name]:10.3f}" if name in times else f"{'-':>10}" for name in systems]
        print(f"Q{number:<3}" + "".join(cells), flush=True)
        for name, problem in problems.items():
            print(f"     {name}: {problem}")
    print("sum " + "".join(f"{sum(each.values()):10.3f}" for each in totals.values()))
    for name, each in totals.items():
        both = sum(totals["skate"].get(number, math.nan) for number in each)
        if name != "skate" and each:
            print(f"{both / sum(each.values()):.2f} x {name}, in {len(each)} queries of both")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
