"""Writes with `resume=True`: another run goes on where the one before was cut short."""

import json
import os
import random
from typing import Any

import numpy as np
import pytest
from pyarrow.fs import LocalFileSystem

import skate
import skate.data
from skate.data import ActorPoolStrategy, Datasink, FileShuffleConfig
from skate.data._io.write_log import WriteLog
from skate.data.exceptions import (
    NotRepeatableError,
    PlanChangedError,
    ResumeError,
    WriteUnderWayError,
)
from skate.data.expressions import col, uuid
from skate.data.expressions import random as random_numbers
from tests.chaos.writes import KilledWrite
from tests.support import local_only

pytestmark = [local_only, pytest.mark.usefixtures("engine")]

FACTOR = 2
UNDER_WAY = 2  # blocks that other workers may be at when one fails


class BoomError(Exception):
    pass


def failing_once(tally, at=70):
    """A function of batches that notes where each begins, and fails the first time at a row."""

    def double(batch):
        tally.add(batch["id"][0])
        if at in batch["id"] and tally.words().count(str(batch["id"][0])) == 1:
            raise BoomError
        return {"id": batch["id"] * FACTOR}

    return double


def ten_blocks(function):
    blocks = skate.data.range(100, override_num_blocks=10)
    return blocks.map_batches(function, batch_size=None)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "out"


def ids(folder):
    return [row["id"] for row in skate.data.read_parquet(str(folder)).take_all()]


def visible(folder):
    return sorted(name for name in os.listdir(folder) if name[0] != "_")


def cut_short(dataset, folder, **options):
    with pytest.raises(BoomError):
        dataset.write_parquet(str(folder), resume=True, **options)


def test_a_second_run_computes_only_what_is_missing(folder, tally):
    dataset = ten_blocks(failing_once(tally))
    cut_short(dataset, folder)
    assert visible(folder) == []
    dataset.write_parquet(str(folder), resume=True)
    assert ids(folder) == list(range(0, 200, 2))
    assert len(tally) <= 10 + 1 + UNDER_WAY
    assert sorted(os.listdir(folder / "_resume")) == ["complete.json", "plan.json"]


def test_a_folder_that_another_write_has_is_an_error_at_once(folder):
    folder.mkdir()
    with WriteLog(LocalFileSystem(), str(folder)).locked():
        with pytest.raises(WriteUnderWayError, match=r"to '.*out' has not ended. Wait"):
            skate.data.range(10).write_parquet(str(folder), resume=True)
        assert os.listdir(folder) == []
    skate.data.range(10).write_parquet(str(folder), resume=True)
    assert ids(folder) == list(range(10))


@pytest.mark.parametrize("mode", ["error", "ignore"])
def test_modes_that_spare_a_folder_write_one_that_is_not_there(folder, mode):
    skate.data.range(10).write_parquet(str(folder), resume=True, mode=mode)
    assert ids(folder) == list(range(10))


def test_a_run_after_the_last_does_nothing(folder, tally):
    dataset = ten_blocks(failing_once(tally, at=-1))
    dataset.write_parquet(str(folder), resume=True)
    names = visible(folder)
    assert len(names) == 10
    dataset.write_parquet(str(folder), resume=True)
    assert (len(tally), visible(folder)) == (10, names)
    os.remove(folder / names[3])
    with pytest.raises(PlanChangedError, match=rf"{names[3]}.* is gone"):
        dataset.write_parquet(str(folder), resume=True)


@pytest.mark.parametrize("format_", ["csv", "json", "numpy", "webdataset", "orc", "tfrecords"])
def test_formats(tmp_path, tally, format_):
    """Each goes on after a failure, and has the rows that a write without `resume` has."""
    dataset = skate.data.range(20, override_num_blocks=4).map_batches(failing_once(tally, at=12))
    arguments = {"column": "id"} if format_ == "numpy" else {}
    if format_ == "webdataset":
        dataset = dataset.rename_columns({"id": "json"})

    def write(name, **options):
        getattr(dataset, f"write_{format_}")(str(tmp_path / name), **arguments, **options)

    with pytest.raises(BoomError):
        write("resumed", resume=True)
    write("resumed", resume=True)
    write("plain")
    read = getattr(skate.data, f"read_{format_}")

    def rows(name):
        found = read(str(tmp_path / name)).take_all()
        return [{key: v for key, v in row.items() if key[0] != "_"} for row in found]

    assert len(rows("resumed")) == 20
    assert rows("resumed") == rows("plain")


def test_images_have_a_file_each(tmp_path):
    images = [{"image": np.full((2, 2), number, np.uint8)} for number in range(6)]
    dataset = skate.data.from_items(images, override_num_blocks=3)
    dataset.write_images(str(tmp_path), column="image", resume=True)
    read = skate.data.read_images(str(tmp_path)).take_all()
    assert [row["image"][0, 0] for row in read] == list(range(6))


def test_folders_by_value_and_files_of_few_rows(folder, tally):
    dataset = ten_blocks(failing_once(tally)).with_column("part", col("id") % 3)
    cut_short(dataset, folder, partition_cols=["part"], max_rows_per_file=2)
    dataset.write_parquet(str(folder), partition_cols=["part"], max_rows_per_file=2, resume=True)
    rows = skate.data.read_parquet(str(folder)).take_all()
    assert sorted(row["id"] for row in rows) == list(range(0, 200, 2))
    assert all(row["id"] % 3 == int(row["part"]) for row in rows)


def test_old_files_are_replaced_at_the_end(folder, tally):
    skate.data.range(3).write_parquet(str(folder))
    old = visible(folder)
    dataset = ten_blocks(failing_once(tally))
    cut_short(dataset, folder, mode="overwrite")
    assert visible(folder) == old
    dataset.write_parquet(str(folder), mode="overwrite", resume=True)
    assert ids(folder) == list(range(0, 200, 2))


def test_a_run_that_ends_while_files_are_moved(folder, monkeypatch):
    dataset = skate.data.range(30, override_num_blocks=3)
    with monkeypatch.context() as patch:
        patch.setattr(WriteLog, "keep_end", lambda self, content: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            dataset.write_parquet(str(folder), resume=True)
    dataset.write_parquet(str(folder), resume=True)
    assert ids(folder) == list(range(30))


# -- plans --------------------------------------------------------------------------------------


def test_rows_of_an_exchange_pass_the_functions_after_it_once(folder, tally):
    rows = skate.data.range(100, override_num_blocks=5).random_shuffle(seed=3).sort("id")
    dataset = rows.repartition(10).map_batches(failing_once(tally), batch_size=None)
    cut_short(dataset, folder)
    dataset.write_parquet(str(folder), resume=True)
    assert ids(folder) == list(range(0, 200, 2))
    assert len(tally) <= 10 + 1 + UNDER_WAY


@pytest.mark.parametrize("partition_min_bytes", [0, None])
def test_functions_before_an_exchange(folder, tally, partition_min_bytes):
    """They run again; what was written is not."""
    rows = skate.data.range(100, override_num_blocks=5).map(lambda row: {"id": 99 - row["id"]})
    rows.context.partition_min_bytes = partition_min_bytes
    together = rows.sort("id").repartition(10)
    dataset = together.map_batches(failing_once(tally), batch_size=None)
    cut_short(dataset, folder)
    dataset.write_parquet(str(folder), resume=True)
    assert ids(folder) == list(range(0, 200, 2))
    assert len(tally) <= 10 + 1 + UNDER_WAY


def test_stages_one_after_the_other(folder, tally):
    """Of a block that became several, all parts are written before it counts."""

    class Add:
        def __call__(self, batch):
            return {"id": batch["id"] + 1}

    def thrice(row):
        return [{"id": 3 * row["id"] + number} for number in range(3)]

    rows = skate.data.range(60, override_num_blocks=6).flat_map(thrice)
    rows.context.target_max_block_size = 80
    made = rows.map_batches(Add, compute=ActorPoolStrategy(size=1), num_cpus=0.5, batch_size=4)
    dataset = made.map_batches(failing_once(tally, at=100), batch_size=None, num_cpus=0.1)
    cut_short(dataset, folder)
    dataset.write_parquet(str(folder), resume=True)
    assert ids(folder) == list(range(2, 362, 2))


def test_more_blocks_than_the_source_has_pieces(tmp_path):
    skate.data.range(40).write_parquet(str(tmp_path / "in"), min_rows_per_file=40)
    dataset = skate.data.read_parquet(str(tmp_path / "in"), override_num_blocks=8)
    dataset.write_parquet(str(tmp_path / "out"), resume=True, concurrency=1)
    assert len(visible(tmp_path / "out")) == 8
    assert ids(tmp_path / "out") == list(range(40))


def test_no_rows(folder):
    skate.data.range(10).filter(col("id") > 20).write_parquet(str(folder), resume=True)
    assert visible(folder) == []


# -- another plan -------------------------------------------------------------------------------


def changed(dataset, folder, words, **options):
    with pytest.raises(PlanChangedError, match=words) as caught:
        dataset.write_parquet(str(folder), resume=True, **options)
    assert caught.value.changed


def test_another_plan_is_refused(folder, tally):
    dataset = ten_blocks(failing_once(tally))
    cut_short(dataset, folder)
    changed(dataset.limit(3), folder, "the plan was Write <- MapBatches")
    changed(
        ten_blocks(failing_once(tally, at=30)), folder, "at that double uses was 70, and is 30"
    )
    changed(dataset, folder, "compression is new", compression="zstd")
    other = skate.data.range(101, override_num_blocks=10)
    changed(
        other.map_batches(failing_once(tally), batch_size=None), folder,
        "length was 100, and is 101",
    )  # fmt: skip
    dataset.write_parquet(str(folder), resume=True)
    assert ids(folder) == list(range(0, 200, 2))


def test_a_function_with_other_code_or_globals_is_refused(folder, tally, monkeypatch):
    dataset = ten_blocks(failing_once(tally))
    cut_short(dataset, folder)

    def double(batch):
        return {"id": batch["id"] * 3}

    changed(ten_blocks(double), folder, "function double has changed")
    monkeypatch.setitem(globals(), "FACTOR", 4)
    changed(dataset, folder, "FACTOR that double uses was 2, and is 4")


def test_other_files_are_refused(tmp_path, tally):
    source, folder = tmp_path / "in", tmp_path / "out"
    skate.data.range(40, override_num_blocks=4).write_parquet(str(source))

    def dataset():
        read = skate.data.read_parquet(str(source))
        return read.map_batches(failing_once(tally, at=30), batch_size=None)

    cut_short(dataset(), folder)
    path = source / visible(source)[0]
    content = path.read_bytes()
    os.utime(path, (1, 1))
    changed(dataset(), folder, f"{path.name} was written again")
    path.unlink()
    changed(dataset(), folder, f"{path.name} is gone")
    (source / "more.parquet").write_bytes(content)
    changed(dataset(), folder, "more.parquet is new")


@pytest.mark.parametrize(
    "make",
    [
        lambda rows: rows.random_shuffle(),
        lambda rows: rows.random_sample(0.5),
        lambda rows: rows.randomize_block_order(),
        lambda rows: rows.with_column("u", uuid()),
        lambda rows: rows.with_column("r", random_numbers()),
    ],
)
def test_plans_that_differ_each_time_are_refused(tmp_path, make):
    with pytest.raises(NotRepeatableError, match="Give a seed"):
        make(skate.data.range(10)).write_parquet(str(tmp_path / "out"), resume=True)
    assert not (tmp_path / "out").exists()


def test_files_in_an_order_that_differs_each_time_are_refused(tmp_path):
    skate.data.range(4).write_parquet(str(tmp_path / "in"))
    for shuffle in ("files", FileShuffleConfig(seed=1)):
        dataset = skate.data.read_parquet(str(tmp_path / "in"), shuffle=shuffle)
        with pytest.raises(NotRepeatableError, match="ReadParquet"):
            dataset.write_parquet(str(tmp_path / "out"), resume=True)


def test_what_cannot_be_resumed_is_refused(tmp_path):
    dataset = skate.data.range(10)
    with pytest.raises(ValueError, match="target_num_rows_per_block"):
        dataset.write_parquet(str(tmp_path), min_rows_per_file=5, resume=True)
    with pytest.raises(ResumeError, match="in the memory of this process"):
        dataset.write_parquet("memory://there", resume=True)
    dataset.write_parquet(str(tmp_path))
    with pytest.raises(ResumeError, match="is read, and in the folder"):
        skate.data.read_parquet(str(tmp_path)).write_parquet(str(tmp_path), resume=True)
    dataset.context.max_errored_blocks = 1
    with pytest.raises(ResumeError, match="max_errored_blocks=1"):
        dataset.write_parquet(str(tmp_path / "out"), resume=True)


# -- sinks --------------------------------------------------------------------------------------


class JSONSink(Datasink[Any]):
    def __init__(self, folder):
        self.folder = str(folder)
        self.result = None

    @property
    def resume_folder(self):
        return self.folder

    def write(self, blocks, ctx):
        place = os.path.join(self.folder, f"{ctx.kwargs['write_uuid']}-{ctx.task_idx:020}.json")
        rows = [row for block in blocks for row in block.to_pylist()]
        with open(place, "w") as file:
            json.dump(rows, file)
        return [place]

    def on_write_complete(self, write_result):
        self.result = write_result


def test_a_sink_that_can(tmp_path, tally):
    dataset = ten_blocks(failing_once(tally))
    sink = JSONSink(tmp_path)
    with pytest.raises(BoomError):
        dataset.write_datasink(sink, resume=True)
    assert sink.result is None
    dataset.write_datasink(sink, resume=True)
    assert sink.result.num_rows == 100
    rows = []
    for (place,) in sink.result.write_returns:
        with open(place) as file:
            rows += json.load(file)
    assert [row["id"] for row in rows] == list(range(0, 200, 2))


def test_a_sink_that_cannot():
    with pytest.raises(ResumeError, match="Datasink cannot resume a write"):
        skate.data.range(3).write_datasink(Datasink(), resume=True)


# -- kills --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("engine_of_program", "kills"), [("local", 5), ("inline", 3)])
def test_each_row_is_written_once_whoever_is_killed(tmp_path, engine_of_program, kills):
    """See tests/chaos/writes.py, which does the same a few hundred times."""
    killed = KilledWrite(tmp_path, "parquet", random.Random(kills), engine_of_program)
    killed.run(kills)
    assert killed.kills == kills
    killed.check()


# -- notes that somebody else has written ---------------------------------------------------------


def made_by_another(folder, tmp_path, written, replaced=()):
    """Notes of a write that is about to end: another user who may write there knows the plan."""
    skate.data.range(10).write_parquet(str(folder), resume=True)
    for name in visible(folder):
        os.unlink(folder / name)
    notes = folder / "_resume"
    os.unlink(notes / "complete.json")
    for name in ("tasks", "units", "files"):
        (notes / name).mkdir()
    plan = json.loads((notes / "plan.json").read_text())
    (notes / "plan.json").write_text(json.dumps({**plan, "replaced": [*map(str, replaced)]}))
    (notes / "written.json").write_text(json.dumps([[str(a), str(b)] for a, b in written]))
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "own").write_text("own")


@pytest.mark.parametrize("way", ["over a file", "by dots", "by a link", "taken away", "removed"])
def test_notes_cannot_reach_what_is_outside_of_the_folder(folder, tmp_path, way):
    theirs, own, inside = tmp_path / "theirs", tmp_path / "own", folder / "x.parquet"
    written, replaced = {
        "over a file": ([(own, theirs)], []),
        "by dots": ([(folder / ".." / "own", theirs)], []),
        "by a link": ([(folder / "link" / "own", folder / "_resume" / "x")], []),
        "taken away": ([(inside, own)], []),
        "removed": ([], [own]),
    }[way]
    made_by_another(folder, tmp_path, written, replaced)
    (folder / "link").symlink_to(tmp_path)
    (folder / "_resume" / "x").write_text("theirs")
    with pytest.raises(ResumeError, match="Nothing was moved"):
        skate.data.range(10).write_parquet(str(folder), resume=True)
    assert own.read_text() == "own"
    assert visible(folder) == ["link"]


NO_NOTES = [None, "x", {}, [1], [["a"]], [[1, 2]], {"files": 5}]
NAMES_OF_NOTES = ["plan.json", "written.json", "complete.json", "choice.json"]


@pytest.mark.parametrize("content", NO_NOTES, ids=str)
def test_a_note_that_is_none_is_as_good_as_none(tmp_path, content):
    for name in NAMES_OF_NOTES:
        folder = tmp_path / name
        made_by_another(folder, tmp_path, [])
        os.unlink(folder / "_resume" / "written.json")
        (folder / "_resume" / name).write_text(json.dumps(content))
        for place in ("tasks", "units"):
            (folder / "_resume" / place / "a-b-c-d.json").write_text("{}")
        skate.data.range(10).write_parquet(str(folder), resume=True)
        assert (name, ids(folder)) == (name, list(range(10)))


def test_notes_cannot_set_what_is_no_setting_of_a_write(folder, tmp_path):
    made_by_another(folder, tmp_path, [])
    os.unlink(folder / "_resume" / "written.json")
    plan = json.loads((folder / "_resume" / "plan.json").read_text())
    plan["settings"]["__class__"] = "x"
    (folder / "_resume" / "plan.json").write_text(json.dumps(plan))
    skate.data.range(10).write_parquet(str(folder), resume=True)
    assert ids(folder) == list(range(10))
