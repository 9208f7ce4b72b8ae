"""From what users write as paths to files on a file system.

Files, folders, globs, lists of them; local, `s3://`, `gs://`, `http(s)://` and whatever fsspec
knows; `example://` for the small files that come with skate.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from skate._core import notices
from skate._core.nearest import nearest_names
from skate._core.optional_imports import try_import

EXAMPLES = Path(__file__).parents[1] / "examples"
SECONDS = 5  # to reach a remote store, per attempt
ATTEMPTS = 3
WILD = "*?["
_WEB = ("http", "https")
_NOTES = ("README", "LICENSE", "NOTICE", "CHECKSUM", "MD5SUM", "SHA1SUM", "SHA256SUM", "SHA512SUM")


class NoFilesError(FileNotFoundError, ValueError):
    """A folder has no files that fit. Ray raises a ValueError for that."""


class WrongPathsError(TypeError, ValueError):
    """What should be paths is not. Ray raises a ValueError for that."""


PathLike: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = PathLike | Iterable[PathLike]


class File(NamedTuple):
    """A file, or a part of it that its format knows by numbers, below the path that was given."""

    path: str
    size: int
    root: str = ""
    parts: tuple[int, ...] | None = None


class FilesOnSystem(NamedTuple):
    """Files and the file system they are on."""

    filesystem: pafs.FileSystem
    files: list[File]


def is_of_driver(paths: Paths) -> bool:
    """Return whether the paths are said to be those of the driver's machine only."""
    return all(os.fspath(path).startswith("local://") for path in _given(paths))


def resolve(path: PathLike, filesystem: object = None) -> tuple[pafs.FileSystem, str]:
    """Find the file system of a path, and the path on it."""
    text = os.fspath(path)
    if text.startswith("example://"):
        return pafs.LocalFileSystem(), _example(text.removeprefix("example://"))
    if filesystem is not None:
        return _as_arrow(filesystem), _on_given(text)
    if text.startswith("local://"):
        text = text.removeprefix("local://")
    if "://" not in text:
        return pafs.LocalFileSystem(), os.path.abspath(os.path.expanduser(text))
    scheme = urlsplit(text).scheme
    if scheme == "s3":
        return _s3(text)
    if scheme in _WEB:
        return _fsspec(scheme), text
    with suppress(pa.ArrowInvalid):
        found: tuple[pafs.FileSystem, str] = pafs.FileSystem.from_uri(text)
        return found
    return _fsspec(scheme), text.split("://", 1)[1]


def _on_given(text: str) -> str:
    """Return the path on a file system that was given: those of the web take whole addresses."""
    parts = urlsplit(text)
    whole = "://" not in text or parts.scheme in _WEB
    return text if whole else parts.netloc + parts.path


def _as_arrow(filesystem: object) -> pafs.FileSystem:
    if isinstance(filesystem, pafs.FileSystem):
        return filesystem
    return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))


def _fsspec(scheme: str) -> pafs.FileSystem:
    fsspec = try_import("fsspec", "data")
    if scheme not in fsspec.available_protocols():
        raise ValueError(_unknown_scheme(scheme, fsspec.available_protocols()))
    return pafs.PyFileSystem(pafs.FSSpecHandler(fsspec.filesystem(scheme)))


def _unknown_scheme(scheme: str, known: Iterable[str]) -> str:
    near = nearest_names(scheme, known, 1)
    meant = f" (did you mean {near[0]}://?)" if near else ""
    return (
        f"there is no file system for {scheme}://{meant}; known are those of Arrow and fsspec, "
        "such as s3, gs, abfs, hdfs and https, and a path without :// is on this machine"
    )


def _s3(uri: str) -> tuple[pafs.FileSystem, str]:
    """Open S3; `s3://anonymous@bucket/key` asks without credentials. Without a network it fails
    sooner than Arrow's own settings would; the retries are for a store that is busy."""
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    parts = urlsplit(uri)
    filesystem = S3FileSystem(
        anonymous=parts.username == "anonymous",
        connect_timeout=SECONDS,
        request_timeout=4 * SECONDS,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
    )
    return filesystem, f"{parts.hostname}{parts.path}"


def _example(name: str) -> str:
    place = EXAMPLES / name
    if not place.exists():
        known = sorted(str(p.relative_to(EXAMPLES)) for p in EXAMPLES.rglob("*") if _shown(p))
        raise FileNotFoundError(f"there is no example://{name}; there are {known}")
    return str(place)


def _shown(path: Path) -> bool:
    return path.suffix != ".md" and (path.is_dir() or path.parent == EXAMPLES)


def find(
    paths: Paths,
    filesystem: object = None,
    extensions: Sequence[str] | None = None,
    ignore_missing: bool = False,
    skipped: Paths | None = None,
    usual: Sequence[str] = (),
) -> FilesOnSystem:
    """Find all files that are meant, folders with everything in them, in order; without those at
    or below a path of `skipped`. `usual` are extensions of the format: where files of a folder
    have them, what else is there is not meant (notes, checksums)."""
    given = _given(paths)
    skipped_places = [resolve(path, filesystem)[1].rstrip("/") for path in _given(skipped or ())]
    if not given:
        raise ValueError("paths must name at least one path; got none")
    found: list[File] = []
    system: pafs.FileSystem | None = None
    for path in given:
        there, place = resolve(path, filesystem)
        if system is not None and not there.equals(system):
            raise ValueError(
                f"{os.fspath(given[0])!r} and {os.fspath(path)!r} are on different file systems; "
                "read them one by one, and join the datasets with union"
            )
        system = there
        if place.rstrip("/") in skipped_places:
            continue
        try:
            found.extend(
                file._replace(root=place)
                for file in _listed(system, place, usual, skipped_places)
                if not _is_below(file.path, skipped_places)
            )
        except FileNotFoundError:
            _check_server(os.fspath(path))
            if not ignore_missing:
                raise FileNotFoundError(
                    f"there is no file or folder {os.fspath(path)!r}; "
                    "ignore_missing_paths=True leaves out paths that are missing"
                ) from None
        except OSError as error:
            raise OSError(f"cannot reach {os.fspath(path)!r}: {error}") from error
    if extensions is not None:
        found = _ending(found, extensions)
    if not found:
        raise _no_files(given, extensions)
    assert system is not None
    return FilesOnSystem(system, found)


def _ending(files: Sequence[File], extensions: Sequence[str]) -> list[File]:
    endings = tuple(f".{extension.lstrip('.').lower()}" for extension in extensions)
    return [file for file in files if file.path.lower().endswith(endings)]


def _no_files(given: Sequence[PathLike], extensions: Sequence[str] | None) -> NoFilesError:
    places = [os.fspath(path) for path in given]
    if extensions is None:
        return NoFilesError(f"No input files found to read: there is none in {places}")
    return NoFilesError(
        "No input files found to read with the following file extensions: "
        f"{list(extensions)}, in {places}; file_extensions=None takes files of any name"
    )


def _is_below(path: str, places: Sequence[str]) -> bool:
    """Return whether the path is one of the places, or a file in one of them."""
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _given(paths: object) -> list[PathLike]:
    one = isinstance(paths, (str, os.PathLike))
    given: list[Any] | None = (
        [paths] if one else list(paths) if isinstance(paths, Iterable) else None
    )
    if given is None or not all(isinstance(path, (str, os.PathLike)) for path in given):
        raise WrongPathsError(
            f"paths takes a path, as text or a pathlib.Path, or a list; got {paths!r}"
        )
    return given


def _check_server(path: str) -> None:
    """Raise if a file was not found because its server does not answer at all."""
    if not path.startswith(("http://", "https://")):
        return
    from urllib.error import HTTPError, URLError
    from urllib.request import urlopen

    try:
        urlopen(path, timeout=SECONDS).close()
    except HTTPError:
        pass  # it answers
    except (URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise ConnectionError(f"cannot reach {path!r}: {reason}") from error


def _listed(
    system: pafs.FileSystem, place: str, usual: Sequence[str] = (), skipped: Sequence[str] = ()
) -> list[File]:
    info = system.get_file_info(place)
    if info.type == pafs.FileType.NotFound:
        if any(sign in place for sign in WILD):
            return _globbed(system, place)
        raise FileNotFoundError(place)
    if info.type == pafs.FileType.File:
        return [File(info.path, info.size or 0)]
    if info.type == pafs.FileType.Unknown:
        raise OSError("it is no file and no folder, but a pipe, a socket or a device")
    files = _visible(_inside(system, place, recursive=True), place)
    meant = _ending(files, usual)
    if not meant:
        return files
    _tell_of_others(
        place, [f for f in files if _is_nameless(f) and not _is_below(f.path, skipped)]
    )
    return meant


def _is_nameless(file: File) -> bool:
    """Return whether a file may hold rows, for all that its name says: it has no extension, and
    is no mark or note."""
    name = _name(file)
    return "." not in name and bool(file.size) and not name.upper().startswith(_NOTES)


def _tell_of_others(place: str, others: Sequence[File]) -> None:
    if others:
        notices.once(
            f"left out of {place}",
            f"{len(others)} of the files in {place} have no extension and are left out, such as "
            f"{_name(others[0])!r}, as others have that of the format; file_extensions=None reads "
            "all",
        )


def _name(file: File) -> str:
    return file.path.rpartition("/")[2]


def _globbed(system: pafs.FileSystem, pattern: str) -> list[File]:
    parts = pattern.split("/")
    fixed = next(i for i, part in enumerate(parts) if any(sign in part for sign in WILD))
    base = "/".join(parts[:fixed]) or "/"
    if "**" in pattern:
        inside = _inside(system, base, recursive=True)
        matching = [info for info in inside if fnmatch(info.path, pattern)]
    else:
        matching = _by_level(system, base, parts[fixed:])
    found = _visible(matching, base)
    for info in matching:
        if info.type == pafs.FileType.Directory:
            found.extend(_listed(system, info.path))
    if not found:
        raise FileNotFoundError(pattern)
    return sorted(set(found))


def _by_level(system: pafs.FileSystem, base: str, patterns: Sequence[str]) -> list[pafs.FileInfo]:
    """Find what matches folder by folder; only folders that match are looked into."""
    folders = [base]
    matching: list[pafs.FileInfo] = []
    for pattern in patterns:
        inside = [info for folder in folders for info in _inside(system, folder)]
        matching = [info for info in inside if fnmatch(info.base_name, pattern)]
        folders = [info.path for info in matching if info.type == pafs.FileType.Directory]
    return matching


def _inside(system: pafs.FileSystem, folder: str, recursive: bool = False) -> list[pafs.FileInfo]:
    selector = pafs.FileSelector(folder, recursive=recursive, allow_not_found=True)
    found: list[pafs.FileInfo] = system.get_file_info(selector)
    return found


def _visible(infos: Sequence[Any], base: str) -> list[File]:
    """List the files, without those that are hidden by a dot or an underscore."""
    return sorted(
        File(info.path, info.size or 0)
        for info in infos
        if info.type == pafs.FileType.File
        and not any(
            part.startswith((".", "_")) and "=" not in part
            for part in info.path[len(base) :].split("/")
        )
    )
