"""What people see of a run: a live table on a terminal, lines elsewhere; a summary at its end."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from skate._core.notebooks import NotebookView, in_notebook
from skate._core.optional_imports import is_installed
from skate._core.standard_streams import is_terminal
from skate._run.progress_lines import ProgressLines, seconds_in_words
from skate._run.reporting import AUTOMATIC
from skate._run.types import ResultRow
from skate._run.values import flatten, plain

if TYPE_CHECKING:
    from skate._run.result import Result

FIRST_WORD_SECONDS = 10.0  # of standing still
NEXT_WORD_SECONDS = 60.0


class View:
    """`verbose`: 0 is silent, 1 is live on a terminal and a line now and then elsewhere, 2 a line
    per report there.

    A run that stands still is worth a line for everybody but those who asked for silence.
    """

    def __init__(self, verbose: int | None, name: str) -> None:
        self._verbose = 1 if verbose is None else int(verbose)
        self._name = name
        self._live = self._start_live()
        self._lines = ProgressLines(name)
        self._restarts = 0
        self._checkpoints = 0
        self._started = time.monotonic()
        self._next_word = FIRST_WORD_SECONDS
        self._result: ResultRow = {}
        self._last_checkpoint: Any = None
        self._run: Any = None  # once it has reported

    def _start_live(self) -> Any:
        if not self._verbose or not is_installed("rich"):
            return None
        if in_notebook():
            return NotebookView()
        if not is_terminal(sys.stderr):
            return None
        from rich.console import Console
        from rich.live import Live

        live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
        live.start()
        return live

    # -- what happens ---------------------------------------------------------------------------

    def reported(self, run: Any) -> None:
        self._run = run
        self._look()
        self._next_word = FIRST_WORD_SECONDS
        if self._live is not None:
            self._draw("training")
        elif self._verbose >= 2 or (self._verbose and self._lines.due()):
            self._say(f"{self._numbers()}  {self._facts()}")

    def _look(self) -> None:
        """Take over what is recorded by now: reports are, once their checkpoints are written."""
        self._result = self._run.last_result
        if self._run.checkpoint is not self._last_checkpoint:
            self._last_checkpoint = self._run.checkpoint
            self._checkpoints += 1

    def waiting(self, missing: list[int], found: dict[int, Any], seconds: float) -> None:
        """Show that nothing has come for a while. That some ranks are here and others are not is
        worth a word; that all compute is not."""
        state = f"waiting for {_ranks(missing)}" if found else "training"
        if self._live is not None:
            self._draw(state)
        elif self._verbose and not found and self._lines.due():
            self._say(f"{state}, the last report was {seconds:.0f} s ago  {self._facts()}")
        elif self._verbose and found and seconds >= self._next_word:
            self._next_word = seconds + NEXT_WORD_SECONDS
            self._say(
                f"{_ranks(sorted(found))} reported {seconds:.0f} s ago and is waiting for "
                f"{_ranks(missing)}; all workers must call report equally often, and all must "
                "read their parts of a dataset if one does"
            )

    def restarting(self, number: int, failures: dict[int, BaseException]) -> None:
        self._restarts = number
        if self._live is not None:
            self._draw("restarting")
        elif self._verbose:
            who = ", ".join(f"rank {r}: {type(e).__name__}" for r, e in sorted(failures.items()))
            where = "its last checkpoint" if self._last_checkpoint is not None else "the beginning"
            self._say(f"failed ({who}); restart {number}, from {where}")

    def replacing(self, number: int, failures: dict[int, BaseException]) -> None:
        self._restarts = number
        if self._live is not None:
            self._draw(f"replacing {_ranks(sorted(failures))}")
        elif self._verbose:
            who = ", ".join(f"rank {r}: {type(e).__name__}" for r, e in sorted(failures.items()))
            self._say(f"failed ({who}); replaced, the others go on from their last commit")

    def resized(self, size: int) -> None:
        if self._live is not None:
            self._draw(f"going on with {size} workers")
        elif self._verbose:
            self._say(f"resources have come or gone: going on with {size} workers")

    def goes_on(self, checkpoint: str) -> None:
        """Say that the run goes on, as its folder has a checkpoint already."""
        if self._verbose:
            self._say(
                f"run {self._name!r} goes on from {checkpoint}; give another name to begin anew"
            )

    def finished(self, result: Result) -> None:
        """Say in two lines what has come of it; they stay when the live view is gone."""
        if self._run is not None:
            self._look()
        if self._live is not None:
            self._draw("done")
        self.close()
        if not self._verbose:
            return
        took = seconds_in_words(time.monotonic() - self._started)
        if self._result:
            self._say(f"done in {took}: {self._numbers()}  {self._facts()}")
        elif result.metrics:
            self._say(
                f"done in {took}, and nothing new was reported: metrics and checkpoint are those "
                "that the run had before"
            )
        else:
            self._say(
                f"done in {took}, and train.report() was never called: there are no metrics, and "
                "no checkpoint"
            )
        self._say(f"results in {result.path}")

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    # -- how it looks ---------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self._lines.say(text)

    def _draw(self, state: str) -> None:
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(show_header=False)
        for name, value in [("state", state), *self._rows()]:
            table.add_row(name, value)
        self._live.update(Group(Text(self._name, style="italic"), table), refresh=True)

    def _rows(self) -> list[tuple[str, str]]:
        rows = [(name, _number(value)) for name, value in _own(self._result)]
        rows.append(("iteration", str(self._result.get("training_iteration", 0))))
        rows.append(("time", f"{time.monotonic() - self._started:.0f} s"))
        rows.append(("checkpoints", str(self._checkpoints)))
        return [*rows, ("restarts", str(self._restarts))]

    def _numbers(self) -> str:
        return "  ".join(f"{name} {_number(value)}" for name, value in _own(self._result))

    def _facts(self) -> str:
        iteration = self._result.get("training_iteration", 0)
        seconds = time.monotonic() - self._started
        return f"(iteration {iteration}, {seconds:.1f} s, {self._checkpoints} checkpoints)"


def _own(result: ResultRow) -> list[tuple[str, Any]]:
    shown = {name: value for name, value in result.items() if name not in AUTOMATIC}
    pairs = ((name, plain(value)) for name, value in flatten(shown))
    return [(name, value) for name, value in pairs if isinstance(value, (int, float, str))]


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
