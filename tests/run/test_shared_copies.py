"""Copies of checkpoints that processes of one machine share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

import skate
from skate._run.shared_copies import kept_copy, reader_file, reader_files
from skate.train import Checkpoint


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@pytest.fixture
def elsewhere(tmp_path):
    (tmp_path / "store" / "one").mkdir(parents=True)
    (tmp_path / "store" / "one" / "weights").write_text("1 2 3")
    return Checkpoint("one", SubTreeFileSystem(str(tmp_path / "store"), LocalFileSystem()))


def test_processes_get_the_same_copy(skate_local, elsewhere, temporary):
    @skate.remote
    def copied(checkpoint, folder):
        import tempfile

        tempfile.tempdir = folder
        return checkpoint.to_directory()

    places = skate.get([copied.remote(elsewhere, str(temporary)) for _ in range(4)])
    assert set(places) == {elsewhere.to_directory()}
    assert Path(places[0], "weights").read_text() == "1 2 3"
    assert len(list(temporary.iterdir())) == 1


def test_a_copy_ends_with_its_last_reader(elsewhere, temporary, monkeypatch):
    with elsewhere.as_directory() as first, elsewhere.as_directory() as second:
        assert first == second
        monkeypatch.setattr(os, "getpid", lambda: 1)
        with elsewhere.as_directory() as third:
            assert third == first
            assert len(reader_files(first)) == 2
            assert os.path.exists(reader_file(first))
        monkeypatch.undo()
        assert Path(first, "weights").exists()
    with pytest.raises(RuntimeError, match="while it is read"), elsewhere.as_directory():
        raise RuntimeError("while it is read")


def test_nothing_is_left_of_readers(elsewhere, temporary):
    with elsewhere.as_directory():
        pass
    assert not list(temporary.iterdir())


def test_a_copy_that_was_deleted_is_made_again(elsewhere):
    copy = Path(elsewhere.to_directory())
    (copy / "weights").unlink()
    copy.rmdir()
    assert Path(elsewhere.to_directory(), "weights").exists()


def test_what_is_noted_later_is_in_the_next_copy(elsewhere):
    before = elsewhere.to_directory()
    elsewhere.set_metadata({"epoch": 3})
    after = elsewhere.to_directory()
    assert before != after
    assert Checkpoint(after).get_metadata() == {"epoch": 3}


def test_a_copy_that_fails_is_not_there(temporary):
    def fails(folder):
        Path(folder, "half").write_text("")
        raise OSError("the store does not answer")

    with pytest.raises(OSError, match="does not answer"):
        kept_copy("some", fails)
    assert not list(temporary.glob("*/*"))
    assert os.listdir(kept_copy("some", lambda folder: Path(folder, "whole").touch())) == ["whole"]


def test_a_folder_of_another_user_is_refused(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: -1)
    with pytest.raises(PermissionError, match="another user"):
        kept_copy("some", lambda folder: None)


def test_links_of_others_are_not_followed(elsewhere, tmp_path):
    with elsewhere.as_directory() as copy:
        place = copy
    target = tmp_path / "of-somebody"
    os.symlink(target, reader_file(place))
    with pytest.raises(OSError, match="reader"), elsewhere.as_directory():
        pass
    assert not target.exists()
    os.remove(reader_file(place))
    with elsewhere.as_directory():
        pass
    assert not os.path.exists(place)
