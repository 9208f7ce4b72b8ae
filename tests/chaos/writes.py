"""Writes that are killed and resumed: `python -m tests.chaos.writes 200` kills 200 times.

A program writes blocks, which take a while, with `resume=True`. It, one of its workers or all of
its processes are killed at random moments, and it is run again until it ends by itself. Then each
row must be there once, in order, and few blocks have been computed twice.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import skate
import skate.data
from tests.chaos.kills import KilledProgram, kill_many
from tests.support import Tally, handle_signals_as_usual

BLOCKS, ROWS_PER_BLOCK, WORKERS = 30, 50, 2
TRIES = 4  # of a job: one, and the retries of a task
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


class KilledWrite(KilledProgram):
    """A write, the kills that it has survived, and what it has done."""

    def __init__(
        self, folder: Path, format_: str, chance: random.Random, engine: str = "local"
    ) -> None:
        super().__init__(
            ["-m", "tests.chaos.writes", "--write", str(folder), format_, engine],
            Tally(folder / "tally"),
            chance,
            title="Write",
            most_steps=5,
            tries=TRIES,
        )
        self.folder = folder / "out"
        self.format = format_

    def check(self) -> None:
        assert rows_in(self.folder, self.format) == list(range(BLOCKS * ROWS_PER_BLOCK))
        begun = Counter(self.tally.words())
        assert len(begun) == BLOCKS
        again = sum(begun.values()) - BLOCKS
        assert again <= self.kills * WORKERS, f"{again} blocks again after {self.kills} kills"


if __name__ == "__main__":
    handle_signals_as_usual()
    if sys.argv[1:2] == ["--write"]:
        place, format_, engine = sys.argv[2:]
        write(Path(place) / "out", Tally(Path(place) / "tally"), format_, engine)
    else:
        skate.init(engine="inline")  # for what is read at the end: no process is left of that
        kill_many(str(__doc__), "--writes", FORMATS, KilledWrite)
