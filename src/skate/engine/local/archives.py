"""Archives in the place of folders: what a `working_dir` or `py_modules` is unpacked to.

    <session>/unpacked/0/      the content of the first, 1/ of the second, …

Each is unpacked once for a session, and once more when the file has changed since. What was
unpacked outlives its file.
"""

from __future__ import annotations

import os
from typing import Any

_SUFFIXES = (".zip", ".whl")
_URI = "file://"


class Archives:
    """Unpack archives below a folder of the session."""

    def __init__(self, session_dir: str) -> None:
        self._place = os.path.join(session_dir, "unpacked")
        self._folders: dict[tuple[str, int, int], str] = {}
        self._latest: dict[str, str] = {}  # by what was given

    def folder_of(self, given: Any) -> str | None:
        """Return the folder with the content of an archive; None for what is no archive.

        Of an archive by its address (`file://`) that has one folder and nothing else, it is that
        folder, as in Ray.

        Raises:
            ValueError: If the file cannot be unpacked.
        """
        if not isinstance(given, (str, os.PathLike)):
            return None
        text = os.fspath(given)
        path = os.path.abspath(text.removeprefix(_URI))
        if not path.endswith(_SUFFIXES) or not os.path.isfile(path):
            return self._latest.get(text)
        found = os.stat(path)
        key = (text, found.st_mtime_ns, found.st_size)
        if key not in self._folders:
            folder = self._unpack(path)
            self._folders[key] = _only_folder(folder) if text.startswith(_URI) else folder
        self._latest[text] = self._folders[key]
        return self._folders[key]

    def _unpack(self, path: str) -> str:
        import zipfile

        folder = os.path.join(self._place, str(len(self._folders)))
        try:
            with zipfile.ZipFile(path) as archive:
                archive.extractall(folder)
        except Exception as error:  # damaged, encrypted, packed in another way, no room
            raise ValueError(f"{path} cannot be unpacked to {folder}: {error}") from error
        return folder


def _only_folder(folder: str) -> str:
    names = os.listdir(folder)
    inner = os.path.join(folder, names[0]) if len(names) == 1 else folder
    return inner if os.path.isdir(inner) else folder
