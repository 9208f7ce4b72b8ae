"""Other users of the machine, who see the names of sessions and put their things beside them."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skate.engine.local import session as session_module
from skate.engine.local.session import SessionFiles, make_private, remove, remove_tree, sweep
from tests.support import Program

STRANGER = 54321  # a user without an account
STARTS = 10

# For each line: under every name of a session that it finds in one place, put a folder or a link
# of its own into the others.
PLANTING = """
umask 0
mkdir trap
while read -r line; do
    for path in tmp/skate-* shm/skate-* spill/skate-*; do
        for place in tmp shm spill; do
            target="$place/${path#*/}"
            if [ -e "$target" ]; then continue; fi
            if [ "$line" = link ]; then ln -s "$PWD/trap" "$target"; else mkdir "$target"; fi
        done
    done 2>/dev/null
    echo done
done
"""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


@pytest.fixture
def shared(monkeypatch: Any) -> Iterator[Path]:
    """Places where everybody may make things, and nobody may rename those of others."""
    root = Path(tempfile.mkdtemp(prefix="shared-"))
    for name in (".", "tmp", "shm", "spill"):
        (root / name).mkdir(exist_ok=True)
        (root / name).chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(root / "tmp"))
    monkeypatch.setattr(session_module, "_SHM", str(root / "shm"))
    yield root
    shutil.rmtree(root)


@pytest.fixture
def stranger(shared: Path) -> Iterator[Callable[[str], None]]:
    """Another user: looks when told to, and plants what it is told."""
    pipe = subprocess.PIPE
    user = Program(
        ["/bin/sh", "-c", PLANTING],
        cwd=shared, stdin=pipe, stdout=pipe, user=STRANGER, group=STRANGER, extra_groups=[],
    )  # fmt: skip

    def plant(what: str) -> None:
        print(what, file=user.stdin, flush=True)
        assert user.stdout is not None
        assert user.stdout.readline() == "done\n"

    yield plant
    user.end()


@needs_root
@pytest.mark.parametrize("what", ["folder", "link"])
def test_nobody_gets_a_folder_of_theirs_into_a_session(
    shared: Path, stranger: Callable[[str], None], monkeypatch: Any, what: str
) -> None:
    """The other user is always fast enough: it acts after each folder that is made."""
    real = os.mkdir

    def make_and_be_seen(path: Any, *more: Any, **options: Any) -> None:
        real(path, *more, **options)
        stranger(what)

    monkeypatch.setattr(session_module.os, "mkdir", make_and_be_seen)
    for _ in range(STARTS):
        made = SessionFiles(str(shared / "spill"))
        for path in (*made.dirs, made.dir, made.shm_dir, made.disk_dir):
            found = os.lstat(path)
            assert stat.S_ISDIR(found.st_mode)
            assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (os.geteuid(), 0o700)
        made.remove()
        assert not any(os.path.lexists(path) for path in made.dirs)
    assert any((shared / "shm").iterdir())  # what was planted, under names seen elsewhere
    assert list((shared / "trap").iterdir()) == []


def test_a_name_that_is_taken_is_not_used(shared: Path, monkeypatch: Any) -> None:
    taken, free = b"\0\0\0\0", b"\1\1\1\1"
    (shared / "tmp" / f"skate-{taken.hex()}").mkdir()
    (shared / "tmp" / f"skate-{free.hex()}x").mkdir()
    answers = iter([taken, taken, free])
    monkeypatch.setattr(session_module.os, "urandom", lambda count: next(answers))
    assert make_private(str(shared / "tmp"), "skate-") == str(shared / "tmp/skate-01010101")


def test_a_place_where_all_names_are_taken_is_an_error(shared: Path, monkeypatch: Any) -> None:
    (shared / "shm" / f"skate-{os.geteuid()}-{os.getpid()}-00000000").symlink_to(shared / "tmp")
    monkeypatch.setattr(session_module.os, "urandom", bytes)
    with pytest.raises(FileExistsError, match="TMPDIR"):
        SessionFiles()


def test_a_folder_that_others_can_read_is_an_error(shared: Path, monkeypatch: Any) -> None:
    """As on file systems that know no modes; nothing of the session stays."""
    real = os.mkdir

    def make_for_all(path: str, mode: int) -> None:
        real(path)
        os.chmod(path, 0o755)

    monkeypatch.setattr(session_module.os, "mkdir", make_for_all)
    with pytest.raises(PermissionError, match=r"mode 0755.*spill_dir"):
        SessionFiles(str(shared / "spill"))
    assert [list((shared / name).iterdir()) for name in ("tmp", "shm", "spill")] == [[], [], []]


@needs_root
def test_a_folder_that_belongs_to_somebody_else_by_now_is_an_error(
    shared: Path, monkeypatch: Any
) -> None:
    real = os.mkdir

    def make_and_lose(path: str, mode: int) -> None:
        real(path, mode)
        os.chown(path, STRANGER, -1)

    monkeypatch.setattr(session_module.os, "mkdir", make_and_lose)
    with pytest.raises(PermissionError, match=f"belongs to user {STRANGER}"):
        make_private(str(shared / "spill"), "skate-")


def test_removing_follows_no_link_to_the_folder_itself(shared: Path) -> None:
    (shared / "precious").mkdir()
    (shared / "precious" / "file").touch()
    (shared / "link").symlink_to(shared / "precious")
    remove_tree(str(shared / "link"))
    assert (shared / "precious" / "file").exists()
    assert (shared / "link").is_symlink()


@needs_root
def test_what_belongs_to_somebody_else_is_not_removed(shared: Path) -> None:
    (shared / "theirs").mkdir()
    (shared / "theirs" / "file").touch()
    os.chown(shared / "theirs", STRANGER, -1)
    remove_tree(str(shared / "theirs"))
    assert (shared / "theirs" / "file").exists()


@pytest.fixture
def precious(shared: Path) -> Path:
    """Folders of the user, with the names that a session has inside."""
    for name in ("objects", "spilled"):
        (shared / "precious" / name).mkdir(parents=True)
        (shared / "precious" / name / "file").touch()
    return shared / "precious"


@pytest.mark.parametrize("which", ["home", "dir", "disk_dir"])
@pytest.mark.parametrize("by", ["remove", "sweep"])
def test_a_link_in_the_place_of_a_dead_session_leads_nowhere(
    shared: Path, precious: Path, which: str, by: str
) -> None:
    """Something else has removed the session's folder, and its name was free for all."""
    dead = SessionFiles(str(shared / "spill"))
    os.close(dead._lock)
    shutil.rmtree(getattr(dead, which))
    os.symlink(precious, getattr(dead, which))
    if by == "remove":
        remove(dead.dirs)
    else:
        sweep(str(shared / "shm"))
    assert len(list(precious.rglob("file"))) == 2
    os.unlink(getattr(dead, which))
    remove(dead.dirs)


@needs_root
def test_what_another_user_has_put_there_keeps_no_session_from_its_end(shared: Path) -> None:
    dead = SessionFiles()
    os.close(dead._lock)
    shutil.rmtree(dead.dir)
    os.symlink("/nowhere", dead.dir)
    os.lchown(dead.dir, STRANGER, -1)
    assert remove(dead.dirs) is True
    assert not os.path.lexists(dead.home)
