"""Directories of sessions, and what the dead ones leave."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from skate.engine.local import session as session_module
from skate.engine.local.session import SessionFiles, remove, remove_tree, sweep
from tests.support import run_program


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: Any) -> None:
    for name in ("tmp", "shm"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(session_module, "_SHM", str(tmp_path / "shm"))


def left(tmp_path: Path) -> list[str]:
    return [str(path) for path in sorted(tmp_path.rglob("*")) if "skate-" in str(path)]


def die(made: SessionFiles) -> None:
    """As when the process is killed: the lock is free, the files stay."""
    os.close(made._lock)


def test_directories_are_private_and_removed(tmp_path: Path) -> None:
    made = SessionFiles()
    assert made.shm_dir.startswith(str(tmp_path / "shm"))
    for path in (*made.dirs, made.shm_dir):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    Path(made.shm_dir, "s0-1").write_bytes(b"x")
    Path(made.disk_dir, "d0-1").write_bytes(b"x")
    made.remove()
    assert left(tmp_path) == []


def test_the_next_start_sweeps_what_the_dead_have_left(tmp_path: Path) -> None:
    dead = SessionFiles()
    Path(dead.shm_dir, "s0-1").write_bytes(b"x")
    Path(dead.disk_dir, "d0-1").write_bytes(b"x")
    die(dead)
    made = SessionFiles()
    assert [os.path.exists(path) for path in dead.dirs] == [False] * 2
    made.remove()
    assert left(tmp_path) == []


def test_spilled_values_of_the_dead_are_swept_wherever_they_are(tmp_path: Path) -> None:
    spill_dir = tmp_path / "elsewhere"
    dead = SessionFiles(str(spill_dir))
    Path(dead.disk_dir, "d0-1").write_bytes(b"x")
    (spill_dir / "of the user").write_bytes(b"y")
    die(dead)
    SessionFiles().remove()
    assert os.listdir(spill_dir) == ["of the user"]


def test_a_session_of_another_temporary_directory_is_swept(
    tmp_path: Path, monkeypatch: Any
) -> None:
    dead = SessionFiles()
    die(dead)
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "other"))
    SessionFiles().remove()
    assert left(tmp_path) == []


def test_the_temporary_directory_of_ray_is_made_and_goes_first(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "not" / "there"))
    made = SessionFiles()
    assert Path(made.dir).parent == tmp_path / "not" / "there"
    made.remove()
    assert list((tmp_path / "not" / "there").iterdir()) == []


@pytest.mark.parametrize("below", ["", "below"])
def test_a_chosen_folder_that_is_a_file_is_named(
    below: str, tmp_path: Path, monkeypatch: Any
) -> None:
    (tmp_path / "file").touch()
    chosen = str(tmp_path / "file" / below)
    monkeypatch.setenv("RAY_TMPDIR", chosen)
    with pytest.raises(OSError, match=r"RAY_TMPDIR takes a folder.* leave it out") as raised:
        SessionFiles()
    assert raised.value.filename == chosen
    monkeypatch.delenv("RAY_TMPDIR")
    with pytest.raises(OSError, match=r"spill_dir takes a folder.* leave it out"):
        SessionFiles(chosen)


@pytest.mark.parametrize("where", ["shm_dir", "disk_dir", "dir"])
def test_what_is_written_while_a_session_is_removed_is_found_by_the_next(
    tmp_path: Path, monkeypatch: Any, where: str
) -> None:
    """By a worker, say, that has not noticed yet that its driver is gone."""
    dead = SessionFiles()
    die(dead)
    real = session_module.remove_tree

    def write_then_remove(path: str, spare: str | None = None) -> None:
        real(path, spare)
        Path(getattr(dead, where)).mkdir(parents=True, exist_ok=True)
        Path(getattr(dead, where), "late").touch()

    monkeypatch.setattr(session_module, "remove_tree", write_then_remove)
    assert remove(dead.dirs) is False
    monkeypatch.setattr(session_module, "remove_tree", real)
    assert left(tmp_path) != []
    SessionFiles().remove()
    assert left(tmp_path) == []


def test_a_session_whose_driver_was_killed_before_it_had_the_lock_is_swept(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(session_module, "_is_alive", lambda pid: pid == os.getpid())
    home = tmp_path / "shm" / f"skate-{os.getuid()}-{os.getpid() + 1}-0123abcd"
    alive = tmp_path / "shm" / f"skate-{os.getuid()}-{os.getpid()}-0123abcd"
    for path in (home, alive):
        path.mkdir()
        (path / "lock.new").touch()
    SessionFiles().remove()
    assert home.exists()  # it may be just about to take it
    for path in (home, alive):
        os.utime(path, (0, 0))
    SessionFiles().remove()
    assert not home.exists()
    assert alive.exists()


def test_a_session_that_began_with_full_shared_memory_is_swept(
    tmp_path: Path, monkeypatch: Any
) -> None:
    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        dead = SessionFiles()
    die(dead)
    SessionFiles().remove()
    assert left(tmp_path) == []


def test_live_sessions_are_left_alone() -> None:
    live = SessionFiles()
    other = SessionFiles()
    assert all(map(os.path.isdir, live.dirs))
    live.remove()
    other.remove()


def test_a_session_is_dead_when_its_process_is(tmp_path: Path) -> None:
    code = (
        "from skate.engine.local import session; import os, sys;"
        f"session._SHM = {session_module._SHM!r};"
        "print(session.SessionFiles().dir, flush=True); os._exit(1)"
    )
    run = run_program([sys.executable, "-c", code])
    assert os.path.isdir(run.stdout.strip()), run.stderr
    sweep(str(tmp_path / "shm"))
    assert left(tmp_path) == []


def test_a_session_that_is_just_being_made_is_left_alone(tmp_path: Path, monkeypatch: Any) -> None:
    """Another start may look at any moment, also before the lock is taken."""
    real = session_module.fcntl.flock
    looks: list[None] = []

    def look_first(fd: int, operation: int) -> None:
        if not looks:
            looks.append(None)
            sweep(str(tmp_path / "shm"))
        real(fd, operation)

    monkeypatch.setattr(session_module.fcntl, "flock", look_first)
    made = SessionFiles()
    assert looks
    assert os.path.isdir(made.dir)
    assert os.path.exists(os.path.join(made.home, "lock"))
    made.remove()


def test_links_and_files_under_our_names_are_left_alone(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "lock").write_text("")
    (victim / "precious").write_text("")
    base = tmp_path / "shm"
    prefix = f"skate-{os.getuid()}-"
    (base / f"{prefix}link").symlink_to(victim)
    (base / f"{prefix}file").write_text("")
    sweep(str(base))
    assert (victim / "precious").exists()
    assert len(left(tmp_path)) == 2


def test_removing_does_not_follow_links(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "precious").write_text("")
    (inside / "link").symlink_to(outside)
    (inside / "deep").mkdir()
    (inside / "deep" / "file").write_text("")
    remove_tree(str(inside))
    assert (outside / "precious").exists()
    assert not (inside / "deep").exists()
    assert not inside.exists()


def test_without_shared_memory_files_do(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(session_module, "_SHM", str(tmp_path / "absent"))
    made = SessionFiles()
    assert made.shm_dir == os.path.join(made.dir, "objects")
    made.remove()
    assert left(tmp_path) == []
