"""Writes that are killed and resumed: `python -m tests.chaos.writes 200` kills 200 times.

A program writes blocks, which take a while, with `resume=True`. It, one of its workers or all of
its processes are killed at random moments, and it is run again until it ends by itself. Then each
row must be there once, in order, and few blocks have been computed twice.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil

import skate
import skate.data
from tests.support import PATIENCE, Program, Tally, handle_signals_as_usual

BLOCKS, ROWS_PER_BLOCK, WORKERS = 30, 50, 2
VICTIMS = ("driver", "worker", "all")
FORMATS = ("parquet", "csv", "json", "numpy", "webdataset")


def write(folder: Path, tally: Tally, format_: str, engine: str) -> None:
    """What the program does: a block at a time, each of which is noted when its work begins."""
    skate.init(engine=engine, num_cpus=WORKERS)

    def slow(batch: Any) -> Any:
        tally.add(batch["id"][0])
        time.sleep(0.03)
        return {"id": batch["id"], "txt": [str(number) for number in batch["id"]]}

    rows = skate.data.range(BLOCKS * ROWS_PER_BLOCK, override_num_blocks=BLOCKS)
    made = rows.map_batches(slow, batch_size=None)
    if format_ == "numpy":
        made.write_numpy(str(folder), column="id", resume=True)
    else:
        getattr(made, f"write_{format_}")(str(folder), resume=True)


def rows_in(folder: Path, format_: str) -> list[int]:
    """The numbers that were written, as they are read."""
    read = getattr(skate.data, f"read_{format_}")(str(folder))
    column = {"numpy": "data", "webdataset": "txt"}.get(format_, "id")
    return [int(row[column]) for row in read.take_all()]


class KilledWrite:
    """A write, the kills that it has survived, and what it has done."""

    def __init__(self, folder: Path, format_: str, chance: random.Random, engine: str) -> None:
        self.folder = folder / "out"
        self.tally = Tally(folder / "tally")
        self.arguments = [str(folder), format_, engine]
        self.format = format_
        self.chance = chance
        self.kills = 0

    def run(self, kills: int) -> None:
        """Run, kill and run again, until it has ended."""
        ended = False
        while not ended:
            with Program(
                [sys.executable, "-m", "tests.chaos.writes", "--write", *self.arguments]
            ) as program:
                while self.kills < kills and self._comes_to_kill(program):
                    self.kills += 1
                    self._kill(program)
                ended = program.wait(2 * PATIENCE) == 0
                assert ended or program.returncode == -signal.SIGKILL

    def _comes_to_kill(self, program: Program) -> bool:
        """Wait until some more blocks have begun; False if it ended before."""
        wanted = len(self.tally) + self.chance.randrange(1, 5)
        deadline = time.monotonic() + 2 * PATIENCE
        while len(self.tally) < wanted and program.poll() is None:
            assert time.monotonic() < deadline, "the write hangs"
            time.sleep(0.001)
        time.sleep(self.chance.uniform(0, 0.05))
        return program.poll() is None

    def _kill(self, program: Program) -> None:
        victim = self.chance.choice(VICTIMS)
        if victim == "all":
            program.kill_group()
        if victim == "driver":
            program.kill()
        if victim == "worker":
            _kill_worker(program.pid, self.chance)
        else:
            program.wait(PATIENCE)

    def check(self) -> None:
        """Raise if a row is missing, twice or elsewhere, or too much was done twice."""
        assert rows_in(self.folder, self.format) == list(range(BLOCKS * ROWS_PER_BLOCK))
        begun = Counter(self.tally.words())
        assert len(begun) == BLOCKS
        again = sum(begun.values()) - BLOCKS
        assert again <= self.kills * WORKERS, f"{again} blocks again after {self.kills} kills"


def _kill_worker(driver: int, chance: random.Random) -> None:
    with contextlib.suppress(psutil.Error):
        below = psutil.Process(driver).children(recursive=True)
        workers = [process for process in below if "Write" in " ".join(process.cmdline())]
        if workers:
            chance.choice(workers).send_signal(signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--writes", action="store_true", help="as scripts/chaos calls it")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 30) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    chance, kills = random.Random(seed), 0
    while kills < arguments.kills:
        folder = Path(tempfile.mkdtemp(prefix="skate-writes-"))
        format_ = chance.choice(FORMATS)
        write_ = KilledWrite(folder, format_, chance, "local")
        write_.run(8)
        write_.check()
        kills += max(1, write_.kills)
        print(f"{format_}: each row once after {write_.kills} kills; {kills} in all", flush=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    handle_signals_as_usual()
    if sys.argv[1:2] == ["--write"]:
        place, format_, engine = sys.argv[2:]
        write(Path(place) / "out", Tally(Path(place) / "tally"), format_, engine)
    else:
        main()
