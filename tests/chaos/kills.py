"""Programs that are killed at random moments, and run again until they end by themselves.

The driver, one of its processes or all of them are killed, each time after a few more steps of the
program, which notes each step in a tally. Whoever subclasses this says what must be true then.
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
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.leftovers import Picture, leftovers_since
from tests.support import PATIENCE, Program, Tally, eventually

KILLS_PER_PROGRAM = 8


class KilledProgram(ABC):
    """A program, the kills that it has survived, and what it has done.

    Args:
        arguments: Of Python: the module that is run, and what it is told.
        tally: Where it notes its steps.
        chance: Decides who is killed, and when.
        title: What the title of those of its processes contains that may be killed alone.
        most_steps: How many steps there are between two kills, at the most.
        tries: How many of its processes a run may lose before it may end with an error, and is
            run again; None if it must not.
    """

    def __init__(
        self,
        arguments: list[str],
        tally: Tally,
        chance: random.Random,
        *,
        title: str,
        most_steps: int,
        tries: int | None = None,
    ) -> None:
        self.tally = tally
        self.kills = 0
        self._command = [sys.executable, *arguments]
        self._chance = chance
        self._title = title
        self._most_steps = most_steps
        self._tries = tries

    def run(self, kills: int) -> None:
        """Run, kill and run again, until it has ended."""
        while not self.run_once(kills):
            pass

    def run_once(self, kills: int) -> bool:
        """Run until it is killed or has ended; whether it has ended."""
        lost = 0
        with Program(self._command) as program:
            while self.kills < kills and self._comes_to_kill(program):
                self.kills += 1
                lost += self._kill(program) == "one"
            ended = program.wait(2 * PATIENCE) == 0
            may_fail = self._tries is not None and lost >= self._tries
            killed = program.returncode == -signal.SIGKILL
            assert ended or killed or may_fail, program.returncode
        return ended

    @abstractmethod
    def check(self) -> None:
        """Raise if something is missing, twice, otherwise, or half done at the end."""

    def _comes_to_kill(self, program: Program) -> bool:
        """Wait until some more steps have begun; False if it ended before."""
        wanted = len(self.tally) + self._chance.randrange(1, self._most_steps)
        deadline = time.monotonic() + 2 * PATIENCE
        while len(self.tally) < wanted and program.poll() is None:
            assert time.monotonic() < deadline, "the program hangs"
            time.sleep(0.001)
        time.sleep(self._chance.uniform(0, 0.05))
        return program.poll() is None

    def _kill(self, program: Program) -> str:
        victim = self._chance.choice(("driver", "one", "all"))
        if victim == "one":
            self._kill_one_below(program.pid)
            return victim
        if victim == "all":
            program.kill_group()
        else:
            program.kill()
        program.wait(PATIENCE)
        return victim

    def _kill_one_below(self, driver: int) -> None:
        with contextlib.suppress(psutil.Error):
            below = psutil.Process(driver).children(recursive=True)
            found = [process for process in below if self._title in " ".join(process.cmdline())]
            if found:
                self._chance.choice(found).send_signal(signal.SIGKILL)


def kill_many(
    description: str,
    option: str,
    kinds: tuple[str, ...],
    make: Callable[[Path, str, random.Random], KilledProgram],
) -> None:
    """Be the command that kills programs, one after the other, so many times in all.

    Args:
        description: What `--help` says.
        option: What scripts/chaos calls it by.
        kinds: The kinds of programs, of which chance chooses.
        make: Makes the program of a kind, in a new folder.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("kills", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kind", choices=kinds, default=None)
    parser.add_argument(option, action="store_true", help="as scripts/chaos calls it")
    arguments = parser.parse_args()
    seed = random.randrange(1 << 30) if arguments.seed is None else arguments.seed
    print(f"seed {seed}", flush=True)
    chance, kills = random.Random(seed), 0
    while kills < arguments.kills:
        before = Picture.take()
        folder = Path(tempfile.mkdtemp(prefix="skate-kills-"))
        kind = arguments.kind or chance.choice(kinds)
        killed = make(folder, kind, chance)
        killed.run(KILLS_PER_PROGRAM)
        killed.check()
        kills += max(1, killed.kills)
        print(f"{kind}: nothing lost after {killed.kills} kills; {kills} in all", flush=True)
        shutil.rmtree(folder)
        eventually(lambda picture=before: not leftovers_since(picture))
