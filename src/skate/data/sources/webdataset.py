"""WebDataset: tar files in which the files of one sample share a name."""

from __future__ import annotations

import io
import json
import posixpath
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import numpy as np

from skate._core.optional_imports import try_import
from skate._core.untrusted_images import open_image
from skate.data._arrow.blocks import Block, block_of_rows
from skate.data._arrow.foreign import arrays_without_pickle, refused
from skate.data.sources.files import FileSource, UnreadableFileError

if TYPE_CHECKING:
    from skate.data._arrow.blocks import Row


ROWS_PER_BLOCK = 1024
IMAGES = {"jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm", "webp"}
PICKLES = ("pkl", "pickle")
OF_TORCH = ("pt", "pth")


@dataclass(frozen=True)
class WebDatasetSource(FileSource):
    """A row per sample: `__key__`, and a column per extension."""

    decoder: Any = True
    fileselect: Any = None
    filerename: Any = None
    suffixes: Any = None
    verbose_open: bool = False
    expand_json: bool = False
    allow_pickle: bool = False
    name = "WebDataset"
    runs_python = True
    runs_user_code = True

    def read_file(self, path: str) -> Iterator[Block]:
        rows = []
        with self.place.filesystem.open_input_stream(path, compression="detect") as stream:
            if self.verbose_open:
                print(f"opening {path}")
            for sample in self._samples(stream, path):
                rows.append(self._finished({**sample, "__url__": path}))
                if len(rows) == ROWS_PER_BLOCK:
                    yield block_of_rows(rows)
                    rows = []
        if rows:
            yield block_of_rows(rows)

    def _samples(self, stream: object, path: str) -> Iterator[Row]:
        sample: dict[str, Any] = {}
        finished: set[str] = set()
        for name, content in _files_in(stream, path):
            name = _renamed(name, self.filerename)
            folder, _, file = name.rpartition("/")
            stem, _, extension = file.partition(".")
            key = f"{folder}/{stem}" if folder else stem
            if not _chosen(name, self.fileselect):
                continue
            if sample and sample["__key__"] != key:
                finished.add(sample["__key__"])
                yield sample
                sample = {}
            if key in finished:
                raise UnreadableFileError(
                    f"the files of the sample {key!r} are not next to each other in {path}, so "
                    "that it would be several incomplete rows; tar --sort=name makes archives in "
                    "which they are"
                )
            if extension in sample:
                raise UnreadableFileError(f"{path} has two files called {name!r}")
            sample.setdefault("__key__", key)
            if _chosen(extension, self.suffixes):
                sample[extension] = content
        if sample:
            yield sample

    def _finished(self, sample: Row) -> Row:
        steps = self.decoder if isinstance(self.decoder, tuple) else (self.decoder,)
        for step in steps:
            sample = self._decoded_by(step, sample)
        if self.expand_json:
            inside = sample.get("json") or {}
            sample = {**sample, **(json.loads(inside) if isinstance(inside, bytes) else inside)}
        return sample

    def _decoded_by(self, step: object, sample: dict[str, object]) -> Row:
        if callable(step):
            decoded: Row = step(sample)
            return decoded
        if not step:
            return sample
        keep_images = isinstance(step, str) and step.lower() == "pil"
        return {
            name: self._decoded(name, value, sample, keep_images) for name, value in sample.items()
        }

    def _decoded(
        self, name: str, value: object, sample: dict[str, object], keep_images: bool
    ) -> Any:
        if name.startswith("__") or not isinstance(value, bytes):
            return value
        where = f"{sample['__key__']}.{name} in {sample['__url__']}"
        try:
            return decoded(name, value, where, keep_images, self.allow_pickle)
        except (ImportError, ValueError):
            raise
        except Exception as error:
            raise UnreadableFileError(
                f"cannot read {where}: {type(error).__name__}: {error}"
            ) from error


def freeze(value: object) -> object:
    """Turn lists into tuples, so that a source can be compared."""
    if isinstance(value, Mapping):
        return tuple(value.items())
    return tuple(map(freeze, value)) if isinstance(value, (list, tuple)) else value


_PADDING_BYTES = 10_240  # at the end of an archive, as tar pads it


class _Member(tarfile.TarInfo):
    """What is in an archive. The standard library takes a damaged header, and the end of a file
    that was cut, for the end of the archive; rows would be missing without a word."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> _Member:
        try:
            return super().fromtarfile(tarfile)
        except _DAMAGES as error:
            place = tarfile.fileobj.tell()
            raise UnreadableFileError(
                f"it is no tar file, or cut or damaged near byte {place}: {error}"
            ) from error


_DAMAGES = (
    tarfile.EmptyHeaderError,  # type: ignore[attr-defined]
    tarfile.TruncatedHeaderError,  # type: ignore[attr-defined]
    tarfile.InvalidHeaderError,  # type: ignore[attr-defined]
)


def _files_in(stream: Any, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file, in the order of the archive."""
    try:
        with tarfile.open(fileobj=stream, mode="r|*", tarinfo=_Member) as archive:
            for member in archive:
                if member.issparse():
                    raise UnreadableFileError(
                        f"{member.name!r} says that it is {member.size} bytes, most of which are "
                        "not there (a sparse file); samples are plain files"
                    )
                if member.isreg():
                    file = archive.extractfile(member)
                    assert file is not None  # it has contents
                    yield member.name, file.read()
            _check_nothing_follows(archive.fileobj)
    except (tarfile.TarError, UnreadableFileError) as error:
        raise UnreadableFileError(f"cannot read {path} as WebDataset: {error}") from error


def _check_nothing_follows(stream: Any) -> None:
    """Raise if data comes after the end of the archive: a hole in it looks like its end."""
    while rest := stream.read(_PADDING_BYTES):
        if rest.count(0) != len(rest):
            raise UnreadableFileError(
                "data follows the mark of its end: a part of it is overwritten with zeros, or "
                "several archives were joined"
            )


def _renamed(name: str, rule: Any) -> str:
    """Rename by a function, or by the first pair (pattern, name) that fits."""
    if callable(rule):
        return str(rule(name))
    return next((new for pattern, new in rule or () if fnmatch(name, pattern)), name)


def _chosen(name: str, rule: Any) -> bool:
    """Choose by a function, or by names and patterns; "*.txt" fits "txt" as well."""
    if rule is None or callable(rule):
        return rule is None or bool(rule(name))
    return any(fnmatch(name, rule) or fnmatch(f".{name}", rule) for rule in rule)


def decoded(name: str, value: bytes, where: str, keep_images: bool, allow_pickle: bool) -> Any:
    """Decode the bytes as what the extension says they are; `where` names them in errors."""
    kind = name.rpartition(".")[2].lower()
    if kind in ("txt", "text", "transcript"):
        return value.decode()
    if kind in ("cls", "cls2", "index", "count", "inx", "id"):
        return int(value)
    if kind in ("json", "jsn"):
        return json.loads(value)
    if kind == "npy":
        return arrays_without_pickle(io.BytesIO(value), where, allow_pickle)
    if kind == "mp":
        return try_import("msgpack", "data-sources").unpackb(value, raw=False)
    if kind in PICKLES:
        return _unpickled(value, where, allow_pickle)
    if kind in OF_TORCH:
        return _loaded_by_torch(value, where, allow_pickle)
    if kind in IMAGES:
        with open_image(value, where) as image:
            return image.copy() if keep_images else np.asarray(image)
    return value


_INSTEAD = (
    ". Refusing to unpickle archives is the default: decoder=None, or a function of samples, gets "
    "the bytes"
)


def _unpickled(value: bytes, where: str, allow_pickle: bool) -> Any:
    if not allow_pickle:
        raise refused(where, _INSTEAD)
    import pickle

    return pickle.loads(value)


def _loaded_by_torch(value: bytes, where: str, allow_pickle: bool) -> Any:
    torch = try_import("torch", "torch")
    try:
        return torch.load(io.BytesIO(value), weights_only=not allow_pickle)
    except Exception as error:
        if allow_pickle or type(error).__name__ != "UnpicklingError":
            raise
        raise refused(where, _INSTEAD) from None


def encoded(name: str, value: Any) -> bytes:
    """Encode a value as the bytes of a file with this extension."""
    kind = name.rpartition(".")[2].lower()
    if isinstance(value, bytes):
        return value
    if kind == "npy":
        file = io.BytesIO()
        np.save(file, value)
        return file.getvalue()
    if kind in IMAGES:
        images = try_import("PIL.Image", "data")
        image = images.fromarray(value) if isinstance(value, np.ndarray) else value
        file = io.BytesIO()
        image.save(file, format={"jpg": "jpeg"}.get(kind, kind))
        return file.getvalue()
    if kind == "mp":
        packed: bytes = try_import("msgpack", "data-sources").packb(value)
        return packed
    if kind in PICKLES:
        import pickle

        return pickle.dumps(value)
    if kind in OF_TORCH:
        file, torch = io.BytesIO(), try_import("torch", "torch")
        if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
            value = torch.tensor(value)  # is read without unpickling
        torch.save(value, file)
        return file.getvalue()
    if isinstance(value, str):
        return value.encode()
    if kind in ("json", "jsn") or isinstance(value, (dict, list)):
        return json.dumps(value).encode()
    if isinstance(value, (int, float, np.number)):
        return str(value).encode()
    raise TypeError(f"cannot write a {type(value).__name__} as .{name}; give bytes or text")


def encoded_by(encoder: object, sample: Mapping[str, object]) -> Mapping[str, object]:
    """Encode a sample as `write_webdataset` was told to.

    Args:
        encoder: True, or a name, encodes each value by its extension; None none; a function
            returns the sample as it is to be; of a list each goes on with what the former left.
        sample: The values by extension.
    """
    if isinstance(encoder, (list, tuple)):
        for each in encoder:
            sample = encoded_by(each, sample)
        return sample
    if callable(encoder):
        made: Mapping[str, object] = encoder(dict(sample))
        return made
    if not encoder:
        return sample
    return {
        name: value if name.startswith("__") or value is None else encoded(name, value)
        for name, value in sample.items()
    }


def _content(name: str, value: object) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(
        f"cannot write a {type(value).__name__} as .{name}: the encoder left it as it is; leave "
        "encoder= out, or give one that makes bytes or text"
    )


def archive_of(rows: Iterator[Mapping[str, object]], number: str, encoder: object = True) -> bytes:
    """Make a tar file of the samples; those without `__key__` are numbered."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for count, row in enumerate(rows):
            sample = encoded_by(encoder, row)
            key = sample.get("__key__") or f"{number}{count:06}"
            for name, value in sample.items():
                if name.startswith("__") or value is None:
                    continue
                data = _content(name, value)
                member = tarfile.TarInfo(_name_inside(f"{key}.{name}"))
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return file.getvalue()


def _name_inside(name: str) -> str:
    """Return the name of a member; raise for one that would be unpacked elsewhere."""
    if name.startswith("/") or ".." in name.split("/") or posixpath.normpath(name) == ".":
        raise ValueError(
            f"{name!r} lies outside of the folder into which the archive will be unpacked; make "
            "`__key__` and the names of columns relative, without '..'"
        )
    return name
