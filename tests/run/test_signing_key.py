"""The secret that pickles are signed with: one per user, and nobody else's."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from skate._run import signing_key as module
from skate._run.signing_key import KEY_BYTES, KEY_FILE, adopt_signing_key, signing_key


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, no secret in memory, and a folder of its own for what is temporary."""
    monkeypatch.setattr(module, "_key", None)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(module.tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    return tmp_path / "state" / "skate"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_key", None)


def test_the_next_process_has_the_same(home, monkeypatch):
    first = signing_key()
    assert len(first) == KEY_BYTES
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / KEY_FILE).stat().st_mode) == 0o600
    assert os.listdir(home) == [KEY_FILE]
    forget(monkeypatch)
    assert signing_key() == first


def test_others_may_see_the_folder(home):
    home.mkdir(parents=True)
    home.chmod(0o755)
    assert signing_key() == (home / KEY_FILE).read_bytes()


def open_folder(home: Path) -> None:
    home.mkdir(parents=True)
    home.chmod(0o775)


def open_file(home: Path) -> None:
    home.mkdir(parents=True, mode=0o700)
    (home / KEY_FILE).write_bytes(b"k" * KEY_BYTES)
    (home / KEY_FILE).chmod(0o640)


def link_to_a_folder(home: Path) -> None:
    (home.parent / "elsewhere").mkdir(parents=True, mode=0o700)
    home.symlink_to(home.parent / "elsewhere")


def link_to_a_file(home: Path) -> None:
    home.mkdir(parents=True, mode=0o700)
    (home.parent / "key").write_bytes(b"k" * KEY_BYTES)
    (home.parent / "key").chmod(0o600)
    (home / KEY_FILE).symlink_to(home.parent / "key")


def of_somebody_else(home: Path) -> None:
    home.mkdir(parents=True, mode=0o700)
    (home / KEY_FILE).write_bytes(b"k" * KEY_BYTES)
    (home / KEY_FILE).chmod(0o600)
    os.chown(home / KEY_FILE, 65534, 65534)


def cut_short(home: Path) -> None:
    home.mkdir(parents=True, mode=0o700)
    (home / KEY_FILE).write_bytes(b"k" * 5)
    (home / KEY_FILE).chmod(0o600)


def a_file_in_its_place(home: Path) -> None:
    home.parent.mkdir(parents=True)
    home.write_text("")


MADE = [
    open_folder, open_file, link_to_a_folder, link_to_a_file, cut_short, a_file_in_its_place,
    *([of_somebody_else] if os.geteuid() == 0 else []),
]  # fmt: skip


@pytest.mark.parametrize("make", MADE)
def test_a_place_that_others_may_know_is_not_used(make, home, tmp_path, monkeypatch):
    make(home)
    key = signing_key()
    assert key not in (b"k" * KEY_BYTES, b"k" * 5)
    other = tmp_path / "tmp" / f"skate-key-{os.geteuid()}"
    assert (other / KEY_FILE).read_bytes() == key
    forget(monkeypatch)
    assert signing_key() == key


def test_without_any_place_it_lives_in_memory(home, tmp_path, monkeypatch):
    open_folder(home)
    open_folder(tmp_path / "tmp" / f"skate-key-{os.geteuid()}")
    key = signing_key()
    assert signing_key() == key
    forget(monkeypatch)
    assert signing_key() != key


def test_many_processes_agree_on_one(home):
    keys: list[bytes] = []
    start = threading.Barrier(16)

    def make() -> None:
        start.wait()
        keys.append(module._key_in(str(home)))

    threads = [threading.Thread(target=make) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 16
    assert len(set(keys)) == 1
    assert os.listdir(home) == [KEY_FILE]


def test_a_worker_has_that_of_its_program(home):
    adopt_signing_key(b"p" * KEY_BYTES)
    assert signing_key() == b"p" * KEY_BYTES
    assert not home.exists()
