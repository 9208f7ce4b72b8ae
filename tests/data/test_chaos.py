"""Workers and actors die in the middle: their blocks are computed again."""

import os
import random
import signal
import sys
from dataclasses import dataclass

import pytest

import skate
import skate.data
from skate.data import ActorPoolStrategy, iterator
from skate.data._execution.dividing import Division
from skate.data._execution.exchange import Sort
from skate.exceptions import WorkerCrashedError
from tests.chaos import pipelines
from tests.support import Program, eventually, local_only

pytestmark = [local_only, pytest.mark.usefixtures("engine")]


def test_a_killed_worker(tally):
    def die_once(row):
        if row["id"] == 50 and tally.add() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return row

    dataset = skate.data.range(100, override_num_blocks=10).map(die_once)
    assert [row["id"] for row in dataset.take_all()] == list(range(100))
    assert len(tally.words()) == 2


def test_killed_workers_of_an_exchange(tally, context):
    """One while it divides rows, one while it finishes a part."""
    context.partition_min_bytes, context.sort_memory_bytes = 0, 2000

    @dataclass(frozen=True)
    class DiesOnce(Division):
        inner: Division
        parts: range

        def pieces(self, table):
            if 500 in table["id"].to_pylist() and tally.add("divide") == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return self.inner.pieces(table)

    @dataclass(frozen=True, eq=False)
    class DividedByWorkersThatDie(Sort):
        def divisions(self, sides, parts):
            made = super().divisions(sides, parts)
            (divisions,) = made.of_inputs
            return made._replace(of_inputs=[[DiesOnce(each, each.parts) for each in divisions]])

    def die_once(row):
        if row["id"] == 50 and tally.add("finish") == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return row

    rows = skate.data.range(1000, override_num_blocks=10)
    ordered = rows._with(DividedByWorkersThatDie((rows._plan,), (("id", "descending"),)))
    found = [row["id"] for row in ordered.map(die_once).take_all()]
    assert found == list(range(999, -1, -1))
    assert tally.words() == ["divide", "divide", "finish", "finish"]


def test_a_killed_actor_of_a_pool(tally):
    class DiesOnce:
        def __call__(self, batch):
            if 50 in batch["id"] and tally.add() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return batch

    dataset = skate.data.range(100, override_num_blocks=10).map_batches(
        DiesOnce, compute=ActorPoolStrategy(size=2)
    )
    assert [row["id"] for row in dataset.take_all()] == list(range(100))
    assert len(tally.words()) == 2


def test_a_function_that_always_kills_is_an_error():
    def die(row):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(skate.exceptions.WorkerCrashedError):
        skate.data.range(2, override_num_blocks=1).map(die).take_all()


def test_a_class_that_always_kills_is_an_error_that_names_it_and_its_tries():
    class Deadly:
        def __call__(self, batch):
            os.kill(os.getpid(), signal.SIGKILL)

    deadly = skate.data.range(2, override_num_blocks=1).map_batches(Deadly, concurrency=1)
    told = r"MapBatches\(Deadly\)\) is being restarted, because .*SIGKILL.* tried 4 times"
    with pytest.raises(skate.exceptions.ActorUnavailableError, match=told):
        deadly.take_all()


def test_a_killed_worker_of_a_stream_of_blocks(tally, tmp_path):
    import torch

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(5000))

    def die_once(row):
        if row["item"] == 3000 and tally.add() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return row

    dataset = skate.data.from_torch(Stream()).map(die_once)
    assert [row["item"] for row in dataset.take_all()] == list(range(5000))


def test_twelve_stages_whose_workers_are_killed():
    chance, kills, rows = random.Random(0), 0, []
    for row in pipelines.piped(blocks=30):
        rows.append(row)
        if len(rows) % 50 == 0:
            kills += pipelines.kill_a_stage(chance)
    pipelines.check(rows)
    assert len(rows) == 30 * pipelines.ROWS_PER_BLOCK
    assert kills


def _rows_read(part, dies=lambda: False):
    rows = 0
    for batch in part.iter_batches(batch_size=7):
        rows += len(batch["id"])
        if rows > 20 and dies():
            os.kill(os.getpid(), signal.SIGKILL)
    return rows


def test_the_others_learn_that_a_consumer_of_a_split_was_killed(monkeypatch):
    monkeypatch.setattr(iterator, "PATIENCE", 0.5)
    monkeypatch.setattr(iterator, "BYTES_AHEAD", 0)  # else it has all rows before it has to wait
    read = skate.remote(max_retries=0)(_rows_read)
    first, second = skate.data.range(1000, override_num_blocks=50).streaming_split(2, equal=True)
    killed, other = read.remote(first, lambda: True), read.remote(second)
    with pytest.raises(WorkerCrashedError, match="SIGKILL"):
        skate.get(killed, timeout=60)
    with pytest.raises(WorkerCrashedError, match="which read part 0 of a split in 2, has died"):
        skate.get(other, timeout=60)


def test_a_retry_reads_the_part_of_a_killed_consumer_on(tally):
    read = skate.remote(max_retries=1)(_rows_read)
    first, second = skate.data.range(1000, override_num_blocks=50).streaming_split(2, equal=True)
    rest, whole = skate.get(
        [read.remote(first, lambda: tally.add() == 1), read.remote(second)], timeout=60
    )
    assert 0 < rest < whole == 500


def test_a_consumer_that_stops_stops_the_work(tally):
    def count(batch):
        tally.add()
        return batch

    dataset = skate.data.range(1000, override_num_blocks=100).map_batches(count)
    batches = iter(dataset.iter_batches(batch_size=10))
    next(batches)
    batches.close()
    assert len(tally.words()) <= 10


HALF_A_FILE = """
import pathlib, sys, threading
import skate.data
from skate.data.datasource import BlockBasedFileDatasink

folder = pathlib.Path(sys.argv[1])

class Half(BlockBasedFileDatasink):
    def write_block_to_file(self, block, file):
        file.write(b"half")
        file.flush()
        (folder.parent / "begun").touch()
        threading.Event().wait()

skate.init(engine="inline")
skate.data.range(4).write_datasink(Half(str(folder), file_format="txt"))
"""


def test_a_program_that_is_killed_while_it_writes_leaves_no_half_file(tmp_path):
    folder = tmp_path / "out"
    program = Program([sys.executable, "-c", HALF_A_FILE, str(folder)])
    eventually((tmp_path / "begun").exists)
    program.kill()
    program.wait()
    assert list(folder.iterdir())
    assert not [file for file in folder.iterdir() if not file.name.startswith("_")]
