"""WebDataset: tar files in which the files of one sample share a name."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

import numpy as np

from skate._imports import try_import
from skate.data._blocks import Block, block_of_rows
from skate.data.sources.files import FileSource

ROWS_PER_BLOCK = 1024
IMAGES = {"jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm", "webp"}


@dataclass(frozen=True)
class WebDatasetSource(FileSource):
    """A row per sample: `__key__`, and a column per extension."""

    decoder: Any = True
    fileselect: Any = None
    filerename: Any = None
    suffixes: Any = None
    verbose_open: bool = False
    expand_json: bool = False
    name = "WebDataset"
    runs_python = True

    def read_file(self, path: str) -> Iterator[Block]:
        rows = []
        with self.place.filesystem.open_input_stream(path, compression="detect") as stream:
            if self.verbose_open:
                print(f"opening {path}")
            for sample in self._samples(stream):
                rows.append(self._finished({**sample, "__url__": path}))
                if len(rows) == ROWS_PER_BLOCK:
                    yield block_of_rows(rows)
                    rows = []
        if rows:
            yield block_of_rows(rows)

    def _samples(self, stream: Any) -> Iterator[dict[str, Any]]:
        sample: dict[str, Any] = {}
        for name, content in _files_in(stream):
            name = _renamed(name, self.filerename)
            folder, _, file = name.rpartition("/")
            stem, _, extension = file.partition(".")
            key = f"{folder}/{stem}" if folder else stem
            if not _chosen(name, self.fileselect):
                continue
            if sample and sample["__key__"] != key:
                yield sample
                sample = {}
            sample.setdefault("__key__", key)
            if _chosen(extension, self.suffixes):
                sample[extension] = content.read()
        if sample:
            yield sample

    def _finished(self, sample: dict[str, Any]) -> dict[str, Any]:
        steps = self.decoder if isinstance(self.decoder, tuple) else (self.decoder,)
        for step in steps:
            sample = _decoded_by(step, sample)
        if self.expand_json:
            inside = sample.get("json") or {}
            sample = {**sample, **(json.loads(inside) if isinstance(inside, bytes) else inside)}
        return sample


def freeze(value: Any) -> Any:
    """Lists as tuples, so that a source can be compared."""
    if isinstance(value, Mapping):
        return tuple(value.items())
    return tuple(map(freeze, value)) if isinstance(value, (list, tuple)) else value


def _files_in(stream: Any) -> Iterator[tuple[str, Any]]:
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if member.isfile():
                yield member.name, archive.extractfile(member)


def _renamed(name: str, rule: Any) -> str:
    """By a function, or by the first pair (pattern, name) that fits."""
    if callable(rule):
        return str(rule(name))
    return next((new for pattern, new in rule or () if fnmatch(name, pattern)), name)


def _chosen(name: str, rule: Any) -> bool:
    """By a function, or by names and patterns; "*.txt" fits "txt" as well."""
    if rule is None or callable(rule):
        return rule is None or bool(rule(name))
    return any(fnmatch(name, rule) or fnmatch(f".{name}", rule) for rule in rule)


def _decoded_by(step: Any, sample: dict[str, Any]) -> dict[str, Any]:
    if callable(step):
        return step(sample)  # type: ignore[no-any-return]
    if not step:
        return sample
    keep_images = isinstance(step, str) and step.lower() == "pil"
    return {name: decoded(name, value, keep_images) for name, value in sample.items()}


def decoded(name: str, value: Any, keep_images: bool = False) -> Any:
    """What the extension says the bytes are."""
    kind = name.rpartition(".")[2].lower()
    if name.startswith("__") or not isinstance(value, bytes):
        return value
    if kind in ("txt", "text", "transcript"):
        return value.decode()
    if kind in ("cls", "cls2", "index", "count", "inx", "id"):
        return int(value)
    if kind in ("json", "jsn"):
        return json.loads(value)
    if kind == "npy":
        return np.load(io.BytesIO(value))
    if kind in IMAGES:
        image = try_import("PIL.Image", "data").open(io.BytesIO(value))
        return image.copy() if keep_images else np.asarray(image)
    return value


def encoded(name: str, value: Any) -> bytes:
    """The bytes of a value for a file with this extension."""
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
    if isinstance(value, str):
        return value.encode()
    if kind in ("json", "jsn") or isinstance(value, (dict, list)):
        return json.dumps(value).encode()
    if isinstance(value, (int, float, np.number)):
        return str(value).encode()
    raise TypeError(f"cannot write a {type(value).__name__} as .{name}; give bytes or text")


def archive_of(rows: Iterator[Mapping[str, Any]], number: int) -> bytes:
    """A tar file with the samples; those without `__key__` are numbered."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for count, row in enumerate(rows):
            key = row.get("__key__") or f"{number:06}{count:06}"
            for name, value in row.items():
                if name.startswith("__") or value is None:
                    continue
                data = encoded(name, value)
                member = tarfile.TarInfo(f"{key}.{name}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return file.getvalue()
