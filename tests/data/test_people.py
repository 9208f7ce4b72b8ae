"""What people see: progress, statistics, plans, errors."""

import io
import os
import pty
import select
import sys
import time

import pandas as pd
import pytest
from rich.console import Console

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


class TestProgress:
    def test_on_a_terminal_one_line_that_goes_away(self):
        written = on_a_terminal(SLOW.format(enabled=True))
        assert "rows/s" in written
        assert "ReadRange->MapBatches(<lambda>)" in written
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
        for part in ("1,000 rows", "rows/s", "MB", "ReadParquet->Map(f) 1,000 rows", "> Sort"):
            assert part in line

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

    def test_a_second_one_waits_for_the_first(self):
        console = Console(file=io.StringIO(), force_terminal=True)
        first, second = Progress(some_stats(), console), Progress(some_stats(), console)
        first.update()
        second.update()
        assert second._live is None
        second.close()
        first.close()


@pytest.mark.usefixtures("engine")
class TestTexts:
    def test_statistics_say_where_the_time_went(self):
        def slow(batch):
            time.sleep(0.05)
            return batch

        class Fast:
            def __call__(self, batch):
                return batch

        dataset = skate.data.range(10, override_num_blocks=1).map_batches(Fast, concurrency=1)
        dataset = dataset.map_batches(slow)
        dataset.materialize()
        _, second = dataset.get_stats_summary().stages
        assert second.busy_seconds >= 0.05
        stats = dataset.stats()
        for part in ("2 MapBatches(slow): 1 blocks, 10 rows", "% of the work", "rows/s"):
            assert part in stats

    def test_an_operator_is_not_charged_for_its_input(self):
        def slow(batch):
            time.sleep(0.2)
            return batch

        dataset = skate.data.range(10, override_num_blocks=1).map_batches(slow).sort("id")
        start = time.perf_counter()
        dataset.materialize()
        elapsed = time.perf_counter() - start
        *_, sort = dataset.get_stats_summary().stages
        assert sort.busy_seconds <= elapsed - 0.2

    def test_a_plan_of_several_inputs(self):
        left = skate.data.range(3).map(lambda row: row)
        assert repr(left.zip(skate.data.range(3)).random_shuffle()) == (
            "RandomShuffle\n"
            "+- Zip\n"
            "   +- Map(<lambda>)\n"
            "      +- Dataset(num_rows=3, schema={id: int64})\n"
            "   +- Dataset(num_rows=3, schema={id: int64})"
        )

    def test_html(self):
        page = skate.data.from_items([{"<a>": 1}])._repr_html_()
        assert "&lt;a&gt;" in page
        assert "<table>" in page


@pytest.mark.usefixtures("engine")
class TestErrors:
    @pytest.fixture
    def files(self, tmp_path):
        for number in range(3):
            pd.DataFrame({"a": [number]}).to_csv(tmp_path / f"{number}.csv", index=False)
        (tmp_path / "1.csv").write_text('a,b\n1,2,3\n"')
        return tmp_path

    def text_of(self, error):
        return "\n".join([str(error), *getattr(error, "__notes__", [])])

    def test_a_bad_file_names_itself(self, files):
        with pytest.raises(Exception, match=r"CSV|column|Expected") as caught:
            skate.data.read_csv(str(files)).take_all()
        assert "1.csv" in self.text_of(caught.value)

    def test_a_function_that_fails_names_file_row_and_operator(self, files):
        (files / "1.csv").write_text("a\n1\n")

        def broken(row):
            return {"x": 1 // (row["a"] - 1)}

        with pytest.raises(ZeroDivisionError) as caught:
            skate.data.read_csv(str(files)).map(broken).take_all()
        text = self.text_of(caught.value)
        for part in ("1.csv", "Map(broken)", "{'a': 1}"):
            assert part in text

    def test_bad_files_may_be_left_out(self, files):
        read = skate.data.read_csv
        assert len(read(str(files), on_bad_files="skip").take_all()) == 2
        with pytest.warns(UserWarning, match=r"1\.csv is left out"):
            assert len(read(str(files), on_bad_files="warn").take_all()) == 2
        with pytest.raises(ValueError, match=r"on_bad_files takes.*'ignore'"):
            read(str(files), on_bad_files="ignore")

    def test_missing_files_may_be_ignored(self, files):
        paths = [str(files / "0.csv"), str(files / "9.csv")]
        with pytest.raises(FileNotFoundError, match=r"9\.csv"):
            skate.data.read_csv(paths)
        assert skate.data.read_csv(paths, ignore_missing_paths=True).count() == 1

    def test_a_block_may_fail(self):
        dataset = skate.data.range(4, override_num_blocks=4).map(lambda r: {"x": 1 // r["id"]})
        dataset.context.max_errored_blocks = 2
        with pytest.warns(UserWarning, match="left out"):
            assert dataset.count() == 3

    @pytest.mark.parametrize(
        "use",
        [
            lambda ds: ds.drop_columns(["idd"]).take(),
            lambda ds: ds.sort("idd").take(),
            lambda ds: ds.groupby("idd").count().take(),
            lambda ds: ds.sum("idd"),
            lambda ds: ds.filter(expr="idd > 3").take(),
            lambda ds: ds.rename_columns({"idd": "x"}).take(),
            lambda ds: ds.unique("idd"),
        ],
    )
    def test_a_wrong_column_lists_those_there_are(self, use):
        with pytest.raises(KeyError, match=r"'idd'; the columns are \['id'\]; did you mean 'id'"):
            use(skate.data.range(3))

    @pytest.mark.parametrize(
        ("use", "message"),
        [
            (lambda ds, _: ds.mapbatches, "'mapbatches'; did you mean 'map_batches'"),
            (lambda ds, _: skate.data.read_cvs, "'read_cvs'; did you mean 'read_csv'"),
            (lambda ds, _: ds.map_batches(len, batchsize=3), "'batchsize': did you mean 'batch_s"),
            (lambda ds, path: ds.write_images(path, "id"), "column 'id' .* no png image"),
            (lambda ds, path: ds.write_csv(path / "file" / "x"), "Cannot create directory"),
        ],
    )
    def test_what_was_meant(self, use, message, tmp_path):
        (tmp_path / "file").touch()
        with pytest.raises((AttributeError, ValueError, TypeError, OSError), match=message):
            use(skate.data.range(3), tmp_path)
