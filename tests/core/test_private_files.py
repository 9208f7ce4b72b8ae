"""What counts as this user's alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skate._core.private_files import is_own, is_private, is_private_folder, keeps_what_is_own


@pytest.mark.parametrize(
    ("mode", "closed", "readable"),
    [
        (0o700, True, True),
        (0o500, True, True),
        (0o750, False, True),
        (0o705, False, True),
        (0o720, False, False),
        (0o702, False, False),
    ],
)
def test_only_what_is_closed_to_others(
    tmp_path: Path, mode: int, closed: bool, readable: bool
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    assert is_private(os.lstat(folder)) is closed
    assert is_private(os.lstat(folder), others_may_read=True) is readable
    assert is_private_folder(str(folder)) is closed


@pytest.mark.parametrize(
    ("mode", "kept"), [(0o700, True), (0o755, True), (0o775, True), (0o777, False), (0o1777, True)]
)
def test_what_is_own_stays_where_nobody_else_may_rename_it(
    tmp_path: Path, mode: int, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(mode)
    assert keeps_what_is_own(str(folder)) is kept
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert keeps_what_is_own(str(folder)) is (kept and os.getuid() == 0)


def test_what_belongs_to_others_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    owner = os.lstat(tmp_path).st_uid
    assert is_own(os.lstat(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert not is_own(os.lstat(tmp_path))
    assert not is_private(os.lstat(tmp_path), others_may_read=True)
    assert not is_private_folder(str(tmp_path))


def test_links_files_and_nothing_are_no_folders(tmp_path: Path) -> None:
    folder, link, file = tmp_path / "folder", tmp_path / "link", tmp_path / "file"
    folder.mkdir(mode=0o700)
    link.symlink_to(folder)
    file.touch(mode=0o600)
    assert is_private_folder(str(folder))
    assert not is_private_folder(str(link))
    assert not is_private_folder(str(file))
    assert not is_private_folder(str(tmp_path / "missing"))
