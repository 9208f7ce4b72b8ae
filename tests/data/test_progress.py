"""Progress on a terminal."""

import io
import os
import pty
import select
import sys
import time

from rich.console import Console

import skate
import skate.data
from skate.data._execution.progress import FIRST, Progress
from skate.data._execution.stats import ExecutionStats
from tests.support import Program

SLOW = """
import time
import skate, skate.data
skate.init(engine="inline")
skate.data.DataContext.get_current().enable_progress_bars = {enabled}
dataset = skate.data.range(40, override_num_blocks=40)
for _ in dataset.map_batches(lambda b: (time.sleep(0.03), b)[1]).iter_batches(batch_size=1):
    pass
print("done")
"""


def on_a_terminal(program):
    """What a program writes to a terminal of 120 columns."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    process = Program(
        [sys.executable, "-c", program], stdout=follower, stderr=follower, env=environment
    )
    os.close(follower)
    written = b""
    while process.poll() is None or select.select([leader], [], [], 0)[0]:
        if select.select([leader], [], [], 0.1)[0]:
            try:
                written += os.read(leader, 65536)
            except OSError:
                break
    os.close(leader)
    assert process.wait() == 0
    return written.decode()


def some_stats():
    stats = ExecutionStats(started=time.perf_counter() - 2 * FIRST)
    stats.stage("ReadParquet->Map(f)", "tasks").add(1000, 5 << 20, 0.5)
    stats.stage("Sort", "driver").add(1000, 5 << 20, 1.5)
    stats.rows = 1000
    return stats


def share_of(dataset):
    """How much of the input is done, at each batch."""
    from skate._core.live_rows import live_rows

    shares = []
    for _ in dataset.iter_batches(batch_size=1, prefetch_batches=0):
        rows = [row for row in live_rows("datasets") if row["state"] == "RUNNING"]
        shares.append([(row["pieces_done"], row["pieces"]) for row in rows if row["pieces"]])
    return shares


class TestShareDone:
    def test_of_a_source_and_of_blocks_that_were_kept(self):
        with skate.init(engine="inline"):
            source = skate.data.range(10, override_num_blocks=10)
            same = source.map(lambda row: row)
            for dataset in (same, source.materialize().map(lambda row: row)):
                found = [one for (one,) in filter(None, share_of(dataset))]
                assert {pieces for _, pieces in found} == {10}
                done = [one for one, _ in found]
                assert done == sorted(done)
                assert done[0] < 10
                assert done[-1] >= 8

    def test_in_words(self):
        stats = ExecutionStats()
        assert stats.remaining(10.0) == ""
        stage = stats.stage("ReadParquet", "tasks")
        stats.stage("Sort", "driver")
        stage.pieces, stage.pieces_done = 200, 1
        assert stats.remaining(10.0) == "0% of the input"
        stage.pieces_done = 50
        assert stats.remaining(0.5) == "25% of the input"
        assert stats.remaining(10.0) == "25% of the input, about 30 s left"
        assert stats.remaining(100.0) == "25% of the input, about 5 min left"
        stage.pieces_done = 201  # a block was cut in two
        assert stats.remaining(10.0) == "100% of the input, about 0 s left"


class TestProgress:
    def test_on_a_terminal_one_line_that_goes_away(self):
        written = on_a_terminal(SLOW.format(enabled=True))
        assert "rows/s" in written
        assert "ReadRange->MapBatches(<lambda>)" in written
        assert "% of the input" in written
        assert written.replace("\x1b[2K", "").rstrip().endswith("done")

    def test_one_switch(self):
        assert on_a_terminal(SLOW.format(enabled=False)).strip() == "done"

    def test_rows_rate_memory_and_each_operator(self):
        buffer = io.StringIO()
        console = Console(file=buffer, force_terminal=True, width=150)
        progress = Progress(some_stats(), console)
        progress.update()
        progress.close()
        line = buffer.getvalue()
        for part in ("1,000 rows", "rows/s", "MB", "ReadParquet->Map(f) 25% 1,000 rows"):
            assert part in line
        assert line.index("Sort 75%") < line.index("ReadParquet")  # the busiest first

    def test_a_narrow_terminal_gets_one_line_as_well(self):
        buffer = io.StringIO()
        progress = Progress(some_stats(), Console(file=buffer, force_terminal=True, width=40))
        progress.update()
        shown = buffer.getvalue()
        progress.close()
        assert "\n" not in shown.strip()
        assert "…" in shown

    def test_nothing_where_there_is_no_terminal(self):
        buffer = io.StringIO()
        progress = Progress(some_stats(), Console(file=buffer))
        progress.update()
        progress.close()
        assert buffer.getvalue() == ""

    def test_the_last_one_that_is_shown_has_all_rows(self):
        buffer = io.StringIO()
        stats = some_stats()
        progress = Progress(stats, Console(file=buffer, force_terminal=True, width=150))
        progress.update()
        stats.rows = 2345
        progress.close()
        assert "2,345 rows" in buffer.getvalue()

    def test_a_second_one_waits_for_the_first(self):
        console = Console(file=io.StringIO(), force_terminal=True)
        first, second = Progress(some_stats(), console), Progress(some_stats(), console)
        first.update()
        second.update()
        assert second._live is None
        second.close()
        first.close()
