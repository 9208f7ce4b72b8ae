"""What archives in the place of folders become."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import skate
from tests.support import local_only

pytestmark = local_only


def test_an_archive_of_the_session_may_be_removed_after_init(start: Any, tmp_path: Path) -> None:
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("note.txt", "hello")
    start(num_cpus=1, runtime_env={"working_dir": str(archive)})
    archive.unlink()

    @skate.remote
    def read() -> str:
        return Path("note.txt").read_text()

    assert skate.get(read.remote()) == "hello"
