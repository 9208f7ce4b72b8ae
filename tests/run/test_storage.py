"""A run's folder: nothing is ever half there."""

from __future__ import annotations

import os
import pickle
import resource
import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from skate._run.checkpoint import Checkpoint
from skate._run.folders import LocalFolder, append_whole
from skate._run.ledger import RESULT_FILE, Ledger
from skate._run.loggers.csv_file import _columns_of as read_columns
from skate._run.storage import Storage, drop_cut_line


@pytest.fixture(params=["local", "elsewhere"])
def storage(request, tmp_path):
    if request.param == "local":
        return Storage(tmp_path, "run")
    return Storage(f"memory://storage/{tmp_path.name}", "run")


def test_lines_come_back(storage):
    for number in range(3):
        storage.append("log.json", {"n": number})
    assert storage.lines("log.json") == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert storage.lines("other.json") == []


def test_a_cut_at_any_byte_loses_at_most_the_last_line(tmp_path):
    storage = Storage(tmp_path, "run")
    records = [{"n": number, "text": "äöü"} for number in range(3)]
    for record in records:
        storage.append("log.json", record)
    whole = storage.read("log.json")
    for length in range(len(whole) + 1):
        storage.write("log.json", whole[:length])
        complete = whole[:length].count(b"\n")
        assert Storage.at(storage.path).lines("log.json") == records[:complete]
        Storage.at(storage.path).append("log.json", {"n": "next"})
        assert storage.lines("log.json") == [*records[:complete], {"n": "next"}]


def test_lines_of_several_threads_all_arrive(storage):
    def write(writer):
        for number in range(50):
            storage.append("log.json", {"writer": writer, "n": number})

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, range(2)))
    found = {(line["writer"], line["n"]) for line in storage.lines("log.json")}
    assert found == {(writer, number) for writer in range(2) for number in range(50)}


def test_a_line_that_the_disk_has_no_room_for_is_an_error_and_leaves_nothing(tmp_path):
    storage = Storage(tmp_path, "run")
    storage.append("log.json", {"n": 0})
    room, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, most))
    try:
        with pytest.raises(OSError, match=r"too large: .*run/log\.json"):
            storage.append("log.json", {"n": "x" * 50})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
    storage.append("log.json", {"n": 1})
    assert storage.lines("log.json") == [{"n": 0}, {"n": 1}]


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_somebody_has_put_in_the_place_of_a_history_is_not_written_to(tmp_path, kind):
    """Folders of others may have links to files that only this user can write to."""
    own, place = tmp_path / "own.txt", tmp_path / "run" / "log.json"
    own.write_text("mine\nand the last line")
    place.parent.mkdir()
    if kind == "link":
        place.symlink_to(own)
    else:
        os.mkfifo(place)
    for write in (partial(append_whole, data=b"more"), drop_cut_line, read_columns):
        with pytest.raises(OSError, match=r"run/log\.json"):
            write(str(place))
    assert own.read_text() == "mine\nand the last line"


def test_a_new_file_is_there_or_not_and_one_that_was_there_is_replaced(tmp_path):
    folder = LocalFolder(tmp_path / "trial")
    folder.create("params.json", b"first")
    folder.create("params.json", b"second")
    assert folder.read("params.json") == b"second"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        for name in ("params.json", "params.pkl"):
            with pytest.raises(OSError, match=f"too large: .*trial/{name}"):
                folder.create(name, b"more than there is room for")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert folder.names() == ["params.json"]
    assert folder.read("params.json") == b"second"


def test_a_damaged_line_is_passed_over(tmp_path):
    storage = Storage(tmp_path, "run")
    storage.write(RESULT_FILE, b'{"n": 0}\n{"n": "xx{"n": 1}\n7\n{"n": 2}\n{"n": 3}\n')
    rows = storage.lines(RESULT_FILE)
    assert rows == [{"n": 0}, {"n": 2}, {"n": 3}]
    Ledger(storage).keep_results(rows[:2])
    assert storage.read(RESULT_FILE) == b'{"n": 0}\n{"n": 2}\n'


def test_a_checkpoint_appears_as_a_whole(storage):
    draft = storage.draft("checkpoint_000000")
    draft.write("part", b"1")
    checkpoint = storage.finish("checkpoint_000000")
    assert storage.names() == ["checkpoint_000000"]
    with checkpoint.as_directory() as folder:
        assert os.listdir(folder) == ["part"]


def test_a_crash_while_saving_leaves_no_checkpoint(tmp_path):
    class Unwritable:
        def __reduce__(self):
            raise RuntimeError("crash")

    storage = Storage(tmp_path, "run")
    storage.persist(Checkpoint.from_dict({"n": 0}), "checkpoint_000000")
    with pytest.raises(RuntimeError, match="crash"):
        storage.persist(Checkpoint.from_dict({"n": Unwritable()}), "checkpoint_000001")
    storage.tidy_after_crash()
    assert storage.names() == ["checkpoint_000000"]


def test_a_crash_between_two_names_puts_the_old_checkpoint_back(tmp_path):
    storage = Storage(tmp_path, "run")
    storage.persist(Checkpoint.from_dict({"n": 0}), "last")
    storage.folder.rename("last", "last.replaced")
    storage.tidy_after_crash()
    assert storage.checkpoint("last").to_dict() == {"n": 0}
    storage.persist(Checkpoint.from_dict({"n": 1}), "last")
    assert storage.names() == ["last"]
    assert storage.checkpoint("last").to_dict() == {"n": 1}


def test_a_file_is_copied_as_a_whole(tmp_path, monkeypatch):
    def dying(source, target):
        with open(target, "w") as file:
            file.write("ha")
        raise OSError("no space left")

    old, new = tmp_path / "old", tmp_path / "new"
    for place in (old, new):
        place.mkdir()
        (place / "file").write_text(place.name)
    monkeypatch.setattr(shutil, "copy2", dying)
    with pytest.raises(OSError, match="no space"):
        Checkpoint(new).to_directory(old)
    assert os.listdir(old) == ["file"]
    assert (old / "file").read_text() == "old"


def test_a_moved_folder_still_works(tmp_path):
    storage = Storage(tmp_path, "run")
    storage.persist(Checkpoint.from_dict({"n": 1}), "checkpoint_000000")
    shutil.move(storage.path, tmp_path / "elsewhere")
    moved = Storage.at(tmp_path / "elsewhere")
    assert moved.checkpoint("checkpoint_000000").to_dict() == {"n": 1}


def test_what_loggers_write_arrives_elsewhere(tmp_path):
    storage = Storage(f"memory://logs/{tmp_path.name}", "run")
    with open(os.path.join(storage.local_path, "progress.csv"), "w") as file:
        file.write("a\n1\n")
    staging = storage.local_path
    storage.close()
    assert storage.read("progress.csv") == b"a\n1\n"
    assert not os.path.exists(staging)


def test_travels(storage):
    assert pickle.loads(pickle.dumps(storage)).path == storage.path


@pytest.mark.parametrize("place", [".", "..", "../..", "link"])
def test_a_checkpoint_that_contains_the_run_is_refused_before_the_first_byte(tmp_path, place):
    storage = Storage(tmp_path / "a" / "runs", "run")
    storage.write("result.json", b"{}\n")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    folder = tmp_path / "link" if place == "link" else os.path.join(storage.path, place)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="inside of it: it would contain itself"):
        storage.persist(Checkpoint(folder), "checkpoint_000000")
    with pytest.raises(ValueError, match="inside of it"):
        Checkpoint(folder).to_directory(os.path.join(storage.path, "copy"))
    assert sorted(tmp_path.rglob("*")) == before


def test_a_checkpoint_inside_the_run_is_copied(tmp_path):
    storage = Storage(tmp_path, "run")
    storage.write("mine/model", b"weights")
    kept = storage.persist(Checkpoint(f"{storage.path}/mine"), "checkpoint_000000")
    assert os.listdir(kept.path) == ["model"]
    assert Checkpoint(kept.path).to_directory(kept.path) == kept.path


def test_the_names_of_a_trial_s_folders(tmp_path):
    trial = Storage(tmp_path, "experiment").sub("trial")
    for storage in (trial, pickle.loads(pickle.dumps(trial))):
        assert storage.trial_fs_path == storage.path == str(tmp_path / "experiment" / "trial")
        assert storage.trial_working_directory == storage.trial_driver_staging_path == trial.path
        assert storage.trial_dir_name == "trial"
        assert storage.experiment_fs_path == str(tmp_path / "experiment")
        assert storage.experiment_dir_name == "experiment"
        assert storage.storage_fs_path == str(tmp_path)
    run = Storage.at(tmp_path / "run")
    assert run.experiment_fs_path == run.trial_fs_path == str(tmp_path / "run")
