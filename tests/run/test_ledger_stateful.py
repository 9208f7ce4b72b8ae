"""The ledger against a model: reports, kills between any two changes, and going back, in random
order."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from skate._run.checkpoint import Checkpoint
from skate._run.ledger import Ledger, NewCheckpoint, results_until
from skate._run.storage import Storage, write_into
from tests.local.machines import BOUNDED
from tests.run.test_ledger import Killed, Kills, opened, void

NAMES = ("a", "b", "last")


class LedgerMachine(RuleBasedStateMachine):
    """One program at a time writes; others look at what is there.

    The model is a list of what was acknowledged: a number and the name of its checkpoint, each.
    """

    @initialize()
    def begin(self) -> None:
        self.patch = pytest.MonkeyPatch()
        self.kills = Kills(self.patch)
        self.place = Path(tempfile.mkdtemp())
        self.number = 0
        self.rows: list[tuple[int, str | None]] = []
        self.content: dict[str, int] = {}  # of the folder of each name
        self.take_up()

    def take_up(self) -> None:
        self.folder, self.ledger = opened(self.place)

    def report_now(self, name: str | None) -> None:
        line = {"training_iteration": self.number}
        if name is None:
            self.ledger.record(line)
            return
        write_into(self.folder.draft(name), Checkpoint.from_dict({"n": self.number}))
        place = lambda: void(self.folder.put_into_place(name))  # noqa: E731
        new = NewCheckpoint(name, self.folder.checkpoint(name), place)
        self.ledger.record({**line, "checkpoint_dir_name": name}, new)

    @rule(name=st.sampled_from([None, *NAMES]))
    def report(self, name: str | None) -> None:
        self.number += 1
        self.report_now(name)
        self.has_happened(name)

    def has_happened(self, name: str | None) -> None:
        self.rows.append((self.number, name))
        if name is not None:
            self.content[name] = self.number

    @rule(name=st.sampled_from([None, *NAMES]), at=st.integers(0, 25), torn=st.booleans())
    def report_and_be_killed(self, name: str | None, at: int, torn: bool) -> None:
        self.number += 1
        self.kills.at(at, torn)
        try:
            self.report_now(name)
            self.has_happened(name)
        except Killed:
            self.kills.at(-1, False)
            happened = [row["training_iteration"] for row in self.seen().results()]
            if self.number in happened:  # its line is whole: it counts, acknowledged or not
                self.has_happened(name)
            self.check()
        finally:
            self.kills.at(-1, False)
        self.take_up()

    @rule()
    def end_and_go_on(self) -> None:
        self.ledger.close()
        self.take_up()

    @precondition(lambda self: self.rows)
    @rule(name=st.sampled_from(NAMES))
    def go_back(self, name: str) -> None:
        """To the last result that came with a checkpoint of this name, if it is still there."""
        if name in self.checkpoints():
            kept = results_until(self.ledger.results(), name)
            self.ledger.keep_results(kept)
            self.rows = self.rows[: len(kept)]

    @rule()
    def begin_anew(self) -> None:
        self.ledger.begin_anew()
        for name in NAMES:
            self.folder.delete(name)
        self.rows, self.content = [], {}

    def seen(self) -> Ledger:
        """As somebody who only looks."""
        return Ledger(Storage(self.place, "run"))

    def checkpoints(self) -> dict[str, int]:
        """The model's: of each name that a result has, what its folder contains."""
        return {name: self.content[name] for _, name in self.rows if name is not None}

    @invariant()
    def check(self) -> None:
        ledger = self.seen()
        rows = ledger.results()
        assert [
            (row["training_iteration"], row.get("checkpoint_dir_name")) for row in rows
        ] == self.rows
        found = {
            str(row.metrics["checkpoint_dir_name"]): row.checkpoint.to_dict()["n"]
            for row in ledger.checkpoints()
        }
        assert found == self.checkpoints()

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.place)


TestLedger = LedgerMachine.TestCase
TestLedger.settings = BOUNDED
