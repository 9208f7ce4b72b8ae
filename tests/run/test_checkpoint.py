"""Checkpoint: one class, whatever it was made from and wherever it is."""

from __future__ import annotations

import errno
import io
import os
import pickle
import shutil
import signal
import tarfile
import tempfile
from pathlib import Path

import fsspec
import pyarrow.fs as pafs
import pytest

import skate
import skate.air
import skate.train
from skate._run.checkpoint import Checkpoint
from skate._run.folders import TemporaryFolder
from skate.data.preprocessors import StandardScaler
from skate.exceptions import OutsideLinkError
from skate.train.torch import TorchCheckpoint


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "made"
    (place / "inner").mkdir(parents=True)
    (place / "weights.bin").write_bytes(b"\x00\x01")
    (place / "inner" / "note.txt").write_text("hello")
    return place


def content(place):
    place = Path(place)
    return {
        p.relative_to(place).as_posix(): p.read_bytes() for p in place.rglob("*") if p.is_file()
    }


def test_all_libraries_have_the_same_class():
    assert skate.train.Checkpoint is skate.air.Checkpoint is Checkpoint


def test_a_folder_is_used_where_it_is(folder):
    checkpoint = Checkpoint.from_directory(folder)
    assert checkpoint.path == str(folder) == checkpoint.value
    assert checkpoint.filesystem == pafs.LocalFileSystem()
    with checkpoint.as_directory() as place:
        assert place == str(folder)
    assert folder.exists()


def test_to_directory_copies(folder, tmp_path):
    copy = Checkpoint(folder).to_directory(tmp_path / "copy")
    assert content(copy) == content(folder)


def test_a_dict_keeps_its_values(tmp_path):
    checkpoint = Checkpoint.from_dict({"epoch": 3, "function": lambda x: x + 1})
    assert checkpoint.to_dict()["epoch"] == 3
    again = Checkpoint.from_directory(checkpoint.to_directory(tmp_path / "written"))
    assert again.to_dict()["function"](1) == 2
    assert set(again.to_dict()) == {"epoch", "function"}


def test_a_dict_has_no_place_before_it_is_written():
    with pytest.raises(ValueError, match=r"to_directory\(\)"):
        _ = Checkpoint.from_dict({"a": 1}).path


def test_a_folder_survives_as_a_dict_and_as_bytes(folder, tmp_path):
    as_dict = Checkpoint.from_dict(Checkpoint(folder).to_dict())
    assert content(as_dict.to_directory(tmp_path / "from_dict")) == content(folder)
    as_bytes = Checkpoint.from_bytes(Checkpoint(folder).to_bytes())
    assert content(as_bytes.to_directory(tmp_path / "from_bytes")) == content(folder)


@pytest.mark.parametrize("kind", ["uri", "arrow", "fsspec"])
def test_any_file_system(folder, tmp_path, kind):
    if kind == "uri":
        uri = Checkpoint(folder).to_uri(f"memory://bucket/{tmp_path.name}")
        far = Checkpoint.from_uri(uri)
        assert far.uri == uri
    else:
        system = fsspec.filesystem("memory")
        system.put(str(folder), f"/there/{tmp_path.name}", recursive=True)
        arrow = pafs.PyFileSystem(pafs.FSSpecHandler(system))
        far = Checkpoint(f"/there/{tmp_path.name}", arrow if kind == "arrow" else system)
    assert content(far.to_directory(tmp_path / "back")) == content(folder)
    with far.as_directory() as place:
        assert content(place) == content(folder)
    assert not Path(place).exists()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":', "[1]", "\xff"])
def test_damaged_metadata_is_named(folder, text):
    (folder / ".metadata.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=rf"\.metadata\.json of the checkpoint {folder}"):
        Checkpoint.from_directory(folder).get_metadata()


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_has_no_end_is_not_copied(folder, kind, tmp_path):
    """Checkpoints of others may have links to anything."""
    message = "a pipe or a device"
    if kind == "pipe":
        os.mkfifo(folder / "inner" / "endless")
    else:
        (folder / "inner" / "endless").symlink_to("/dev/zero")
        message = "leads out of the folder"
    for copy in (lambda c: c.to_directory(tmp_path / "copy"), lambda c: c.to_uri("memory://copy")):
        with pytest.raises((OSError, OutsideLinkError), match=message):
            copy(Checkpoint.from_directory(folder))


@pytest.fixture
def secret(tmp_path):
    """A file of the user's that is none of the business of whoever makes checkpoints."""
    place = tmp_path / "home" / "id_rsa"
    place.parent.mkdir()
    place.write_text("my secret")
    return place


LINKS_OUT = {
    "absolute": lambda secret: secret,
    "relative": lambda secret: "../../home/id_rsa",
    "to a folder": lambda secret: secret.parent,
    "by a detour": lambda secret: "../inner/../../home/id_rsa",
    "to nothing yet": lambda secret: secret.parent / "later",
}
COPIES = {
    "to_directory": lambda checkpoint, place: checkpoint.to_directory(place),
    "shared": lambda checkpoint, place: checkpoint.to_directory(),
    "to_uri": lambda checkpoint, place: checkpoint.to_uri(f"file://{place}"),
    "elsewhere": lambda checkpoint, place: checkpoint.to_uri("memory://linked"),
}


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("target", LINKS_OUT.values(), ids=LINKS_OUT)
def test_links_out_of_a_checkpoint_are_not_followed(folder, secret, tmp_path, target, copy):
    """Whoever made the checkpoint must not get other files of the user's into its copies."""
    link = folder / "inner" / "weights"
    link.symlink_to(target(secret))
    with pytest.raises(OutsideLinkError, match=r"leads out .*nothing was copied") as e:
        copy(Checkpoint.from_directory(folder), tmp_path / "copy")
    assert e.value.place == str(link)
    assert not (tmp_path / "copy").exists()
    assert "my secret" not in str(Checkpoint.from_directory(folder).to_dict())


def test_links_inside_of_a_checkpoint_are_followed(folder, tmp_path):
    (folder / "last").symlink_to("inner")
    (folder / "best.bin").symlink_to(folder / "weights.bin")
    copy = Path(Checkpoint.from_directory(folder).to_directory(tmp_path / "copy"))
    assert (copy / "last" / "note.txt").read_text() == "hello"
    assert (copy / "best.bin").read_bytes() == b"\x00\x01"
    (tmp_path / "by another name").symlink_to(folder)
    again = Checkpoint.from_directory(tmp_path / "by another name")
    assert content(again.to_directory(tmp_path / "again")) == content(copy)


def test_a_link_to_a_folder_that_it_is_in_is_refused(folder, tmp_path):
    (folder / "inner" / "up").symlink_to("..")
    with pytest.raises(OutsideLinkError, match=r"inner/up.*to a folder that it is in itself"):
        Checkpoint.from_directory(folder).to_directory(tmp_path / "copy")


def test_names_of_a_store_do_not_lead_out_of_the_copy(tmp_path):
    store = fsspec.filesystem("memory")
    store.pipe(f"/{tmp_path.name}/made/weights", b"1")

    class Listing(type(store)):
        """One in which somebody has given an object an unusual name, as object stores allow."""

        cachable = False

        def find(self, path, **more):
            found = super().find(path, **more)
            name = f"/{tmp_path.name}/made/../../../planted"
            return {**found, name: {"name": name, "size": 1, "type": "file"}}

        def isfile(self, path):
            return True

        def _open(self, path, mode="rb", **more):
            return io.BytesIO(b"planted")

    checkpoint = Checkpoint(f"/{tmp_path.name}/made", Listing())
    with pytest.raises(ValueError, match=r"planted.*leads out of the folder"):
        checkpoint.to_directory(tmp_path / "a" / "b" / "copy")
    assert not list(tmp_path.rglob("planted"))


def test_metadata(folder):
    checkpoint = Checkpoint(folder)
    assert checkpoint.get_metadata() == {}
    checkpoint.set_metadata({"a": 1})
    checkpoint.update_metadata({"b": [2]})
    assert Checkpoint(folder).get_metadata() == {"a": 1, "b": [2]}


@pytest.mark.parametrize("kind", ["folder", "dict"])
def test_a_preprocessor_travels_inside(folder, tmp_path, kind):
    checkpoint = Checkpoint(folder) if kind == "folder" else Checkpoint.from_dict({"a": 1})
    assert checkpoint.get_preprocessor() is None
    checkpoint.set_preprocessor(StandardScaler(["x"]))
    written = Checkpoint(checkpoint.to_directory(tmp_path / "written"))
    assert written.get_preprocessor().columns == ["x"]


@pytest.mark.parametrize("how", ["dict", "bytes"])
def test_notes_travel_beside_the_files(folder, tmp_path, how):
    checkpoint = Checkpoint(folder)
    checkpoint.set_metadata({"a": 1})
    checkpoint.set_preprocessor("scaler")
    if how == "dict":
        copy = Checkpoint.from_dict(checkpoint.to_dict())
    else:
        copy = Checkpoint.from_bytes(checkpoint.to_bytes())
    assert copy.get_metadata() == {"a": 1}
    assert copy.get_preprocessor() == "scaler"
    copy.set_preprocessor("another")
    written = Checkpoint(copy.to_directory(tmp_path / "copy"))
    assert written.get_preprocessor() == "another"
    assert written.get_metadata() == {"a": 1}
    assert "_files" in written.to_dict()
    assert not (tmp_path / "copy" / "dict_checkpoint.pkl").exists()


def test_notes_are_not_among_the_values(tmp_path):
    checkpoint = Checkpoint.from_dict({"a": 1})
    checkpoint.set_metadata({"by": "me"})
    written = Checkpoint(checkpoint.to_directory(tmp_path))
    assert checkpoint.to_dict() == written.to_dict() == {"a": 1}
    assert written.get_metadata() == {"by": "me"}
    assert Checkpoint.from_bytes(written.to_bytes()).get_metadata() == {"by": "me"}


def test_a_checkpoint_in_the_object_store(folder, tmp_path):
    with skate.init(engine="inline"):
        ref = Checkpoint(folder).to_object_ref()
        copy = Checkpoint.from_object_ref(ref).to_directory(tmp_path / "copy")
    assert content(copy) == content(folder)


@pytest.mark.parametrize(
    ("make", "given", "message"),
    [
        (Checkpoint, None, "path or the URI of a folder; got NoneType"),
        (Checkpoint, 5, "got int: 5"),
        (Checkpoint.from_dict, [1], "dict of values by name; got list"),
        (Checkpoint.from_bytes, b"junk", r"to_bytes\(\) gave; got bytes: b'junk'"),
        (Checkpoint.from_bytes, None, "got NoneType"),
        (Checkpoint.from_dict({}).set_metadata, {"a": {1}}, "what JSON can express; got {'a'"),
    ],
)
def test_what_is_no_checkpoint(make, given, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make(given)


def test_early_versions_of_python_3_10_unpack_too(folder, tmp_path, monkeypatch):
    packed = Checkpoint(folder).to_dict()
    plain = tarfile.TarFile.extractall

    def extractall(self, path):
        plain(self, path, filter="data")

    monkeypatch.delattr(tarfile, "data_filter")
    monkeypatch.setattr(tarfile.TarFile, "extractall", extractall)
    target = tmp_path / "there"
    assert content(Checkpoint.from_dict(packed).to_directory(target)) == content(folder)


def test_equal_to_another_of_the_same_place(folder, tmp_path):
    assert Checkpoint(folder) == Checkpoint(str(folder))
    assert Checkpoint(folder) != Checkpoint(tmp_path)
    assert Checkpoint.from_dict({"a": 1}) != Checkpoint.from_dict({"a": 1})
    assert len({Checkpoint(folder), Checkpoint(folder)}) == 1


def test_pickles_as_its_place(folder):
    data = pickle.dumps(Checkpoint(folder))
    assert len(data) < 400
    assert pickle.loads(data) == Checkpoint(folder)


def test_is_a_path_where_it_is_a_folder_of_this_machine(folder):
    assert Path(Checkpoint(folder)) == Path(folder)
    with pytest.raises(TypeError, match="as_directory"):
        Path(Checkpoint.from_dict({"epoch": 1}))


def test_a_checkpoint_that_is_gone_says_so(tmp_path):
    missing = Checkpoint(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="none"), missing.as_directory():
        pass


def test_a_temporary_folder_ends_with_the_last_checkpoint_in_it():
    first = Checkpoint._in_temporary(TemporaryFolder("checkpoint_"))
    Path(first.path, "weights.bin").touch()
    second = TorchCheckpoint.from_checkpoint(first)
    del first
    assert content(second.path) == {"weights.bin": b""}
    place = Path(second.path)
    del second
    assert not place.exists()


def test_a_temporary_folder_stays_for_a_checkpoint_that_travels(tmp_path):
    checkpoint = Checkpoint._in_temporary(TemporaryFolder("checkpoint_"))
    there = pickle.loads(pickle.dumps(checkpoint))
    del checkpoint
    with there.as_directory() as folder:
        assert content(folder) == {}
    Path(folder).rmdir()


@pytest.fixture
def workers():
    skate.init(num_cpus=1, engine="local", log_to_driver=False)
    yield
    skate.shutdown()


def written(name):
    folder = TemporaryFolder("checkpoint_")
    Path(folder.path, name).touch()
    return folder


@pytest.mark.parametrize("across_file_systems", [False, True])
def test_nobody_can_take_the_place_of_a_temporary_folder_that_outlives_its_session(
    workers, across_file_systems
):
    """Whoever finds the name free for a moment makes a folder there, and puts something in it."""

    @skate.remote
    def give_up():
        real = os.rmdir

        def remove_and_lose(path, **more):
            real(path, **more)
            if os.path.dirname(path) == tempfile.gettempdir():
                os.mkdir(path)
                Path(path, "theirs").touch()

        def refuse(old, new):
            raise OSError(errno.EXDEV, "on another file system")

        folder = written("weights.bin")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "rmdir", remove_and_lose)
            if across_file_systems:
                patch.setattr(os, "rename", refuse)
            return folder.give_up()

    place = skate.get(give_up.remote(), timeout=60)
    assert not place.startswith(skate.get_runtime_context().get_temp_dir())
    assert content(place) == {"weights.bin": b""}
    assert os.stat(place).st_mode & 0o777 == 0o700
    shutil.rmtree(place)


def test_what_a_killed_worker_has_in_temporary_folders_goes_with_the_session(workers, tmp_path):
    @skate.remote(max_retries=0)
    def die(told):
        folder = written("weights.bin")
        told.write_text(folder.path)
        os.kill(os.getpid(), signal.SIGKILL)

    told = tmp_path / "told"
    with pytest.raises(skate.exceptions.WorkerCrashedError):
        skate.get(die.remote(told), timeout=60)
    place = told.read_text()
    assert Path(place, "weights.bin").exists()
    skate.shutdown()
    assert not os.path.lexists(place)


def test_a_temporary_folder_that_travels_outlives_the_session(workers):
    @skate.remote
    def make():
        folder = written("weights.bin")
        checkpoint = Checkpoint._in_temporary(folder)
        before = checkpoint.path
        pickle.dumps(checkpoint)
        return checkpoint, before, content(before), checkpoint.path

    checkpoint, before, found, after = skate.get(make.remote(), timeout=60)
    assert found == {"weights.bin": b""}
    skate.shutdown()
    assert not os.path.lexists(before)
    assert checkpoint.path == after
    assert content(after) == {"weights.bin": b""}
    shutil.rmtree(after)


def test_files_that_were_added_to_a_dict_travel_with_it(tmp_path):
    place = Path(Checkpoint.from_dict({"n": 1}).to_directory(tmp_path / "made"))
    (place / "note.txt").write_text("hello")
    (place / "inner").mkdir()
    (place / "inner" / "more.txt").write_text("more")
    data = Checkpoint(place).to_dict()
    assert data["n"] == 1
    data["added"] = 2
    for checkpoint in (
        Checkpoint.from_dict(data),
        Checkpoint.from_bytes(Checkpoint(place).to_bytes()),
    ):
        copy = Path(checkpoint.to_directory(tmp_path / f"copy of {len(checkpoint._data)}"))
        assert (copy / "note.txt").read_text() == "hello"
        assert (copy / "inner" / "more.txt").read_text() == "more"
        assert Checkpoint(copy).to_dict()["n"] == 1
    assert Checkpoint.from_dict(data).to_dict()["added"] == 2


def test_nothing_is_no_checkpoint_of_another_class():
    with pytest.raises(TypeError, match=r"there is no checkpoint to read.*got None"):
        TorchCheckpoint.from_checkpoint(None)
