"""Files of others: what is none is an error, and never waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from skate._core.plain_files import open_plain, read_plain


def test_a_file_and_a_link_to_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_plain(tmp_path / "file") == read_plain(str(tmp_path / "link")) == b"content"
    with pytest.raises(OSError, match="symbolic links"):
        open_plain(tmp_path / "link", follow_links=False)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_file(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to("/dev/zero" if kind == "device" else tmp_path)
    with pytest.raises(OSError, match="no file"):
        read_plain(place)
