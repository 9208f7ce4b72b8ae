"""`ray.air._internal.remote_storage`: folders here and elsewhere, by their address."""

from __future__ import annotations

import os
import shutil
import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from skate._run.folders import StorageFolder, folder_at

__all__ = [
    "delete_at_uri",
    "download_from_uri",
    "get_fs_and_path",
    "is_non_local_path_uri",
    "list_at_uri",
    "read_file_from_uri",
    "upload_to_uri",
]


def is_non_local_path_uri(uri: str) -> bool:
    """Return whether it is the address of something elsewhere."""
    return urlparse(uri).scheme not in ("", "file")


def get_fs_and_path(uri: str) -> tuple[Any, str]:
    """Return the file system, and the path there."""
    folder = folder_at(uri)
    return folder.filesystem, folder.path


def upload_to_uri(local_path: str, uri: str, exclude: list[str] | None = None) -> None:
    """Copy a folder there; `exclude` are patterns of what stays here."""
    if not exclude:
        folder_at(uri).upload(local_path)
        return
    with tempfile.TemporaryDirectory(prefix="upload_") as chosen:
        _copy_without(exclude, Path(local_path), Path(chosen))
        folder_at(uri).upload(chosen)


def _copy_without(patterns: list[str], source: Path, target: Path) -> None:
    for file in source.rglob("*"):
        name = file.relative_to(source)
        if file.is_file() and not any(fnmatch(str(name), pattern) for pattern in patterns):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, target / name)


def download_from_uri(uri: str, local_path: str, filelock: bool = True) -> None:
    """Copy what is there into a folder, which is made; each has a folder of its own, so that
    no lock is needed."""
    os.makedirs(local_path, exist_ok=True)
    folder_at(uri).download(local_path)


def delete_at_uri(uri: str) -> None:
    """Delete a folder and all in it."""
    folder_at(uri).delete()


def list_at_uri(uri: str) -> list[str]:
    """List the names in a folder; none, if it is not there."""
    folder = folder_at(uri)
    return folder.names() if folder.exists() else []


def read_file_from_uri(uri: str) -> bytes:
    parent, name = _split(uri)
    return parent.read(name)


def _split(uri: str) -> tuple[StorageFolder, str]:
    parent, _, name = uri.rstrip("/").rpartition("/")
    return folder_at(parent), name


def _ensure_directory(uri: str) -> None:
    get_fs_and_path(uri)[0].create_dir(get_fs_and_path(uri)[1], recursive=True)
